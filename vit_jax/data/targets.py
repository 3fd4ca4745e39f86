"""Mean and standard deviation of the numbers that a run learns to predict."""

import dataclasses

import numpy as np

from vit_jax import truncate
from vit_jax.data.sources import Source
from vit_jax.errors import UserError

# A batch stores numbers in float32, with 24 bits: the larger the mean, the
# fewer bits remain for deviations from it.
_MOST_DEVIATIONS = 2.0**14


# Datasets that may have numbers instead of classes.
_KINDS = ("csv", "datasets", "generated", "webdataset")


def check(loss: str, dataset: str) -> None:
  """Checks, by name, that a dataset may have numbers for a loss.

  Raises:
    UserError: It has classes.
  """
  if dataset.partition(":")[0] not in _KINDS:
    raise lacking(loss, dataset)


def lacking(loss: str, dataset: str) -> UserError:
  """The error for a dataset without numbers."""
  return UserError(
    f"config.objective.loss = {loss!r} predicts numbers, which"
    f" config.train.dataset = {dataset!r} lacks; name a CSV file of them,"
    " 'csv:FILE', or a field of tar files or a column of a Hugging Face dataset"
    " by config.train.label_key, or learn classes with the loss 'softmax'."
  )


@dataclasses.dataclass(frozen=True)
class Targets:
  """Numbers to predict, over all examples of a split.

  Attributes:
    names: Names of the numbers.
    mean: Mean of each, float64 [numbers].
    std: Positive standard deviation of each, that of the population.
  """

  names: tuple[str, ...]
  mean: np.ndarray
  std: np.ndarray


def of_source(source: Source, *, dataset: str) -> Targets:
  """Measures the numbers of a source; `dataset` names it in messages.

  Raises:
    UserError: A number is the same in all examples, or varies too little to be
      represented in a batch.
  """
  values = source.known_labels()
  # NaN means no number: not used.
  values = values[np.isfinite(values).all(axis=1)]
  mean, std = values.mean(axis=0), values.std(axis=0)
  constant = np.ptp(values, axis=0) == 0
  if constant.any():
    shown = [
      f"{name} = {value:g}"
      for name, value in zip(
        np.array(source.numbers)[constant], mean[constant], strict=True
      )
    ]
    raise UserError(
      f"config.train.dataset = {dataset!r} has the same number in all"
      f" {len(values):,} examples, from which nothing can be learned:"
      f" {truncate.first(shown)}. Name other columns."
    )
  for name, middle, deviation in zip(source.numbers, mean, std, strict=True):
    if abs(middle) > _MOST_DEVIATIONS * deviation:
      raise UserError(
        f"config.train.dataset = {dataset!r}: {name!r} has the mean"
        f" {middle:.9g} and the standard deviation {deviation:.3g}, too small"
        " compared with it for float32; subtract a constant from the column."
      )
  return Targets(source.numbers, mean, std)
