"""Accuracy and loss over a whole split, every example counted once."""

import logging
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.evaluators import contract, files
from vit_jax.evaluators.gallery import Gallery
from vit_jax.evaluators.split import Split, open_split
from vit_jax.objectives import losses
from vit_jax.sharding import mesh as meshes

_logger = logging.getLogger(__name__)


def build(
  name: str, config: schema.ClassificationEval, context: contract.Context
) -> "Classification":
  """Opens the data of `config.evals.<name>`.

  Raises:
    UserError: the data is not there or has classes that the model has not.
  """
  key = f"config.evals.{name}"
  split = open_split(
    context,
    key=key,
    dataset=config.dataset or context.config.train.dataset,
    split=config.split,
    preprocess=config.preprocess,
    batch_size=config.batch_size,
    image_key=config.image_key,
    label_key=config.label_key,
    label_sets=config.label_sets,
  )
  if split.num_classes > context.num_classes:
    raise UserError(
      f"{key}: the labels have {split.num_classes} classes and the"
      f" model {context.num_classes}; choose another dataset or label_key."
    )
  return Classification(
    name, split, context, loss=config.loss or context.config.objective.loss
  )


class Classification:
  """Top-1, top-5 and loss; leaves predictions and images for the report.

  An example's label is a class, or a set of accepted classes of which any
  counts as right (ImageNet-ReaL). Examples whose set is empty, or whose label
  is -1, are left out of everything, also of `num_examples`.
  """

  def __init__(
    self, name: str, split: Split, context: contract.Context, *, loss: str
  ):
    self._name = name
    self._split = split
    self._context = context
    self._loss = loss
    # Results are whole on every process: all agree on the metrics.
    self._measure = jax.jit(
      self._measure_batch, out_shardings=meshes.replicated(context.mesh)
    )

  def run(self, state: contract.EvaluatedState, step: int) -> dict[str, float]:
    """`eval/<name>/{top1,top5,loss,num_examples}`.

    Fractions of the examples, nats an example, and a count. With fewer than
    five classes top5 is 1, as every class is among the best five.

    Raises:
      UserError: no example has a label.
    """
    gallery = None
    if self._context.workdir is not None:
      gallery = Gallery(self._split.num_examples, self._context.mesh)
    collected = []
    for batch in self._split.batches():
      rows = jax.device_get(self._measure(state.eval_params, batch))
      if gallery is not None:
        gallery.offer(
          batch["image"],
          rows["id"],
          rows["counted"],
          rows["top1"],
          rows["probability"],
        )
      collected.append({k: v[rows["mask"]] for k, v in rows.items()})
      self._context.heartbeat()
    results = _in_order(collected, self._split.num_examples)
    num_left_out = np.count_nonzero(~results["counted"])
    results = {k: v[results["counted"]] for k, v in results.items()}
    if not len(results["id"]):
      raise UserError(
        f"{self._split.key}: no example of the split has a label; choose"
        " another split or label_key."
      )
    if num_left_out:
      _logger.info(
        "%s: %d examples without a label left out.", self._name, num_left_out
      )
    if gallery is not None and jax.process_index() == 0:
      files.write(
        self._context.workdir / "evaluations" / self._name / str(step),
        example_id=results["id"],
        label=results["label"],
        prediction=results["prediction"],
        probability=results["probability"],
        num_classes=self._context.num_classes,
        class_names=self._class_names(),
        gallery=gallery,
      )
    # Sums in float64 and in the order of the split: the same whatever the
    # batch size, as far as the rows are.
    metrics = {
      metric: float(results[metric].mean(dtype=np.float64))
      for metric in ("top1", "top5", "loss")
    }
    metrics["num_examples"] = float(len(results["id"]))
    return {f"eval/{self._name}/{k}": v for k, v in metrics.items()}

  def _measure_batch(
    self, params: Any, batch: Mapping[str, Array]
  ) -> dict[str, Array]:
    logits = self._context.outputs(params, batch["image"])["logits"]
    rows = measure(logits.astype(jnp.float32), batch["label"], loss=self._loss)
    rows["counted"] &= batch["mask"]
    kept = {key: batch[key] for key in ("id", "mask", "label")}
    return rows | kept

  def _class_names(self) -> list[str] | None:
    names = self._context.class_names or self._split.class_names
    return list(names) if names else None


def measure(
  logits: Float[Array, "b classes"],
  labels: Int[Array, " b *labels"],
  *,
  loss: str,
) -> dict[str, Float[Array, " b"] | Int[Array, " b"] | Bool[Array, " b"]]:
  """What is known of each row.

  Args:
    logits: scores, float32.
    labels: a class, or a set of classes padded with -1.
    loss: 'softmax' or 'sigmoid'.

  Returns:
    `prediction`, the first of the highest scores; its `probability`; `top1`
    and `top5`, whether a label is it or among the five highest; `loss`; and
    `counted`, whether there is a label at all.
  """
  accepted = labels.reshape(len(labels), 1, -1)
  _, best = jax.lax.top_k(logits, min(5, logits.shape[1]))
  # A padding of -1 equals no class.
  hits = (best[:, :, None] == accepted).any(axis=2)
  return {
    "prediction": best[:, 0],
    "probability": losses.PROBABILITIES[loss](logits).max(axis=1),
    "top1": hits[:, 0],
    "top5": hits.any(axis=1),
    "loss": losses.LOSSES[loss](logits, labels),
    "counted": (accepted >= 0).any(axis=(1, 2)),
  }


def _in_order(
  collected: list[dict[str, np.ndarray]], num_examples: int
) -> dict[str, np.ndarray]:
  """Rows of all batches by ascending id; each example must be there once."""
  rows = {k: np.concatenate([c[k] for c in collected]) for k in collected[0]}
  order = np.argsort(rows["id"])
  assert np.array_equal(rows["id"][order], np.arange(num_examples))
  return {k: v[order] for k, v in rows.items()}
