"""Errors of the numbers that the model predicts over a whole split."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vit_jax import truncate
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.evaluators import contract, regression_files
from vit_jax.evaluators.gallery import Gallery
from vit_jax.evaluators.opening import open_numbers_split
from vit_jax.evaluators.split import Split
from vit_jax.sharding import mesh as meshes


def build(
  name: str, config: schema.RegressionEval, context: contract.Context
) -> "Regression":
  """Opens the data of `config.evals.<name>`.

  Raises:
    UserError: The data is missing, or its numbers differ from the model's.
  """
  key = f"config.evals.{name}"
  dataset = config.dataset or context.config.train.dataset
  split = open_numbers_split(
    context,
    key=key,
    dataset=dataset,
    split=config.split,
    preprocess=config.preprocess,
    batch_size=config.batch_size,
    image_key=config.image_key,
    label_key=config.label_key,
  )
  predicted = context.class_names
  if split.source.numbers != tuple(predicted or split.source.numbers):
    raise UserError(
      f"{key}: {dataset!r} has the numbers"
      f" {truncate.first(split.source.numbers)}, and the model predicts"
      f" {truncate.first(predicted)}; name the same columns."
    )
  if len(split.source.numbers) != context.num_classes:
    raise UserError(
      f"{key}: {dataset!r} has {len(split.source.numbers)} numbers, and the"
      f" model predicts {context.num_classes}; name other columns."
    )
  return Regression(name, split, context)


class Regression:
  """Absolute and squared errors, and the fraction of variance explained.

  Args:
    name: Name of the evaluator in `config.evals`.
    split: Examples with numbers.
    context: Context of the run.

  Attributes:
    num_examples: Number of examples of the split.
  """

  def __init__(self, name: str, split: Split, context: contract.Context):
    self._name = name
    self.num_examples = split.num_examples
    self._split = split
    self._context = context
    self._numbers = split.source.numbers
    deviation = split.source.known_labels().std(axis=0)
    self._unit = np.where(deviation > 0, deviation, 1.0)
    # Every process has all results, so all agree on the metrics.
    self._predict = jax.jit(
      self._predict_batch, out_shardings=meshes.replicated(context.mesh)
    )

  def run(self, state: contract.EvaluatedState, step: int) -> dict[str, float]:
    """Returns `eval/<name>/{mae,rmse,r2,num_examples}`.

    Errors are in units of the numbers. For several numbers they are means over
    them, and each number also has `eval/<name>/<number>/{mae,rmse,r2}`.
    """
    gallery = None
    if self._context.workdir is not None:
      gallery = Gallery(self._split.num_examples, self._context.mesh)

    def after_batch(batch, rows):
      if gallery is not None:
        gallery.offer(
          batch["image"],
          rows["id"],
          rows["mask"],
          np.zeros(len(rows["id"]), bool),  # No prediction counts as correct.
          distances(rows["label"], rows["prediction"], self._unit),
        )
      self._context.heartbeat()

    found = self._split.measured(
      lambda batch: self._predict(batch, state.eval_params), after_batch
    )
    label, prediction = found["label"], found["prediction"]
    if gallery is not None and jax.process_index() == 0:
      regression_files.write(
        self._context.workdir / "evaluations" / self._name / str(step),
        example_id=found["id"],
        label=label,
        prediction=prediction,
        distance=distances(label, prediction, self._unit),
        numbers=self._numbers,
        gallery=gallery,
        names=self._split.names,
      )
    errors = measure(label, prediction)
    metrics = {name: float(values.mean()) for name, values in errors.items()}
    metrics["num_examples"] = float(len(label))
    if len(self._numbers) > 1:
      metrics |= {
        f"{number}/{name}": float(values[place])
        for place, number in enumerate(self._numbers)
        for name, values in errors.items()
      }
    return {f"eval/{self._name}/{key}": x for key, x in metrics.items()}

  def _predict_batch(
    self, batch: Mapping[str, Array], params: Any
  ) -> dict[str, Array]:
    outputs = self._context.outputs(params, batch)
    kept = {key: batch[key] for key in ("id", "mask", "label")}
    return {**kept, "prediction": outputs["logits"].astype(jnp.float32)}


def measure(
  label: Float[np.ndarray, "n numbers"],
  prediction: Float[np.ndarray, "n numbers"],
) -> dict[str, Float[np.ndarray, " numbers"]]:
  """Computes errors of each number over all examples, float64.

  Sums are in float64 and in the order of the examples, independent of the
  batches.

  Returns:
    `mae`, the mean absolute error; `rmse`, the root of the mean squared error;
    and `r2`, 1 minus the squared error over the variance of the labels, NaN if
    these do not vary.
  """
  label = label.astype(np.float64)
  error = prediction - label
  square = np.square(error).mean(axis=0)
  variance = label.var(axis=0)
  # The rounded mean of equal labels may differ from them.
  varies = np.ptp(label, axis=0) > 0
  ratio = np.divide(
    square, variance, out=np.full_like(square, np.nan), where=varies
  )
  return {
    "mae": np.abs(error).mean(axis=0),
    "rmse": np.sqrt(square),
    "r2": 1 - ratio,
  }


def distances(
  label: Float[np.ndarray, "n numbers"],
  prediction: Float[np.ndarray, "n numbers"],
  unit: Float[np.ndarray, " numbers"],
) -> Float[np.ndarray, " n"]:
  """Returns the RMS of each example's errors in their `unit`, float64."""
  error = (prediction.astype(np.float64) - label) / unit
  return np.sqrt(np.square(error).mean(axis=1))
