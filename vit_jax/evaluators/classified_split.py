"""Accuracy and loss of predicted classes over a split."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from vit_jax.errors import UserError
from vit_jax.evaluators import average_precision, contract, files
from vit_jax.evaluators.gallery import Gallery
from vit_jax.evaluators.split import Split
from vit_jax.objectives import losses
from vit_jax.sharding import mesh as meshes

_logger = logging.getLogger(__name__)
# Scores kept for the mean average precision, 1 GiB of float32.
_MOST_SCORES = 2**28


class ClassifiedSplit:
  """Measures logits over a split; writes predictions and images for the report.

  Every example counts once. Its label is a class, or a set of classes: either
  accepted ones, any of which is correct (ImageNet-ReaL), or all that the image
  shows. In both cases top-1 counts a prediction of any of them as correct.
  Examples with an empty set or a label of -1 are excluded from everything,
  including `num_examples`, except that the mean average precision counts them
  as examples without a class.

  Args:
    place: Path of its files under `evaluations/`.
    split: Examples.
    context: Context of the run.
    logits: `logits(batch, *values) -> [b, classes]`, traceable, with the values
      passed to `run`.
    loss: 'softmax' or 'sigmoid'.
    num_classes: Number of columns of the logits.
    class_names: Names of the classes, if known.
    has_all_labels: True if sets contain all that an image shows.
    class_of_label: Class of each label of the split; None for the class with
      the same index.
  """

  def __init__(
    self,
    place: str,
    split: Split,
    context: contract.Context,
    logits: Callable[..., Float[Array, "b classes"]],
    *,
    loss: str,
    num_classes: int,
    class_names: list[str] | None,
    has_all_labels: bool = False,
    class_of_label: list[int] | None = None,
  ):
    self._place = place
    self._split = split
    self._context = context
    self._logits = logits
    self._loss = loss
    self._num_classes = num_classes
    self._class_names = class_names
    self._has_all_labels = has_all_labels
    self._class_of_label = class_of_label
    self._keeps_scores = (
      has_all_labels and split.num_examples * num_classes <= _MOST_SCORES
    )
    if has_all_labels and not self._keeps_scores:
      _logger.warning(
        "%s: no mean average precision, as the scores of %d examples and %d"
        " classes are too many for memory.",
        place,
        split.num_examples,
        num_classes,
      )
    # Every process has all results, so all agree on the metrics.
    self._measure = jax.jit(
      self._measure_batch, out_shardings=meshes.replicated(context.mesh)
    )

  def run(self, step: int, *values: Any) -> dict[str, float]:
    """Returns `top1`, `top5`, `loss` and `num_examples`.

    They are fractions of the examples, nats per example, and a count. There is
    no top5 for five classes or fewer. If sets contain all that images show,
    there is also `mean_average_precision`, from 0 to 1.

    Raises:
      UserError: No example has a label.
    """
    gallery = None
    if self._context.workdir is not None:
      gallery = Gallery(self._split.num_examples, self._context.mesh)

    def after_batch(batch, rows):
      if gallery is not None:
        gallery.offer(
          batch["image"],
          rows["id"],
          rows["counted"],
          rows["top1"],
          rows["probability"],
        )
      self._context.heartbeat()

    results = self._split.measured(
      lambda batch: self._measure(batch, *values), after_batch
    )
    scores, sets = results.pop("scores", None), results["label"]
    num_left_out = np.count_nonzero(~results["counted"])
    results = {k: v[results["counted"]] for k, v in results.items()}
    if not len(results["id"]):
      raise UserError(
        f"{self._split.key}: no example of the split has a label; choose"
        " another split or label_key."
      )
    if num_left_out:
      _logger.info(
        "%s: %d examples without a label left out.", self._place, num_left_out
      )
    if gallery is not None and jax.process_index() == 0:
      files.write(
        self._context.workdir / "evaluations" / self._place / str(step),
        example_id=results["id"],
        label=results["label"],
        prediction=results["prediction"],
        probability=results["probability"],
        num_classes=self._num_classes,
        class_names=self._class_names,
        gallery=gallery,
        names=self._split.names,
        has_all_labels=self._has_all_labels,
      )
    # Summed in float64 and in the order of the split: the same for any batch
    # size, as far as the rows are.
    names = ("top1", "top5", "loss")
    if self._num_classes <= 5:
      names = ("top1", "loss")
    metrics = {
      name: float(results[name].mean(dtype=np.float64)) for name in names
    }
    if scores is not None:
      metrics["mean_average_precision"] = (
        average_precision.mean_average_precision(scores, sets)
      )
    metrics["num_examples"] = float(len(results["id"]))
    return metrics

  def _measure_batch(
    self, batch: Mapping[str, Array], *values: Any
  ) -> dict[str, Array]:
    logits = self._logits(batch, *values).astype(jnp.float32)
    label = batch["label"]
    if self._class_of_label is not None:
      classes = jnp.asarray(self._class_of_label, label.dtype)
      label = jnp.where(label < 0, label, classes[label])
    rows = measure(logits, label, loss=self._loss)
    rows["counted"] &= batch["mask"]
    if self._keeps_scores:
      is_softmax = self._loss == "softmax"
      rows["scores"] = jax.nn.log_softmax(logits) if is_softmax else logits
    return rows | {"id": batch["id"], "mask": batch["mask"], "label": label}


def measure(
  logits: Float[Array, "b classes"],
  labels: Int[Array, " b *labels"],
  *,
  loss: str,
) -> dict[str, Float[Array, " b"] | Int[Array, " b"] | Bool[Array, " b"]]:
  """Computes the prediction, loss and correctness of each row.

  Args:
    logits: Scores, float32.
    labels: A class, or a set of classes padded with -1.
    loss: 'softmax' or 'sigmoid'.

  Returns:
    `prediction`, the first of the highest scores; its `probability`; `top1`
    and `top5`, true if a label is the prediction or among the five highest;
    `loss`; and `counted`, true if the row has a label.
  """
  accepted = labels.reshape(len(labels), 1, -1)
  _, best = jax.lax.top_k(logits, min(5, logits.shape[1]))
  # Padding of -1 never equals a class.
  hits = (best[:, :, None] == accepted).any(axis=2)
  return {
    "prediction": best[:, 0],
    "probability": losses.PROBABILITIES[loss](logits).max(axis=1),
    "top1": hits[:, 0],
    "top5": hits.any(axis=1),
    "loss": losses.LOSSES[loss](logits, labels),
    "counted": (accepted >= 0).any(axis=(1, 2)),
  }
