"""The data and the `run` method shared by evaluators on frozen features."""

from collections.abc import Callable, Mapping

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.evaluators.contract import Context, EvaluatedState
from vit_jax.evaluators.features import Examples, Extractor
from vit_jax.evaluators.opening import open_split
from vit_jax.evaluators.shots import ExamplesError
from vit_jax.evaluators.split import Split


class FeatureEvaluator:
  """Measures features of a training and a test split, for several datasets.

  Args:
    config: Entry of `config.evals`.
    datasets: Name -> training and test split.
    context: Context of the run.
    measure: `(train, test, training split) -> metrics`; raises ExamplesError
      if the examples do not allow it.
  """

  def __init__(
    self,
    config: schema.FeaturesEval,
    datasets: Mapping[str, tuple[Split, Split]],
    context: Context,
    measure: Callable[[Examples, Examples, Split], Mapping[str, float]],
  ):
    self._prefix = registry.EVALUATORS.get(config.type).prefix
    self._datasets = datasets
    self._extract = Extractor(config.representation, context)
    self._measure = measure

  def run(self, state: EvaluatedState, step: int) -> dict[str, float]:
    """Returns `<prefix>/<dataset>/<metric>` for each dataset.

    Raises:
      UserError: A label is not a class, or the examples do not allow the
        measurement.
    """
    del step  # Writes no files.
    metrics = {}
    for name, (train_split, test_split) in self._datasets.items():
      train = self._extract(state.eval_params, train_split)
      test = self._extract(state.eval_params, test_split)
      try:
        found = self._measure(train, test, train_split)
      except ExamplesError as error:
        raise UserError(f"{train_split.key}: {error}") from None
      metrics |= {f"{self._prefix}/{name}/{k}": v for k, v in found.items()}
    return metrics


def open_datasets(
  name: str, config: schema.FeaturesEval, context: Context
) -> dict[str, tuple[Split, Split]]:
  """Opens `config.evals.<name>.datasets`: name -> (training, test) split.

  Raises:
    UserError: The data is missing, has several labels per image, or the two
      splits differ in their classes.
  """
  return {
    dataset: _open(
      f"config.evals.{name}.datasets.{dataset}", keys, config, context
    )
    for dataset, keys in config.datasets.items()
  }


def _open(
  key: str,
  dataset: schema.FewshotDataset,
  config: schema.FeaturesEval,
  context: Context,
) -> tuple[Split, Split]:
  train, test = (
    open_split(
      context,
      key=key,
      dataset=dataset.dataset,
      split=split,
      preprocess=dataset.preprocess,
      batch_size=config.batch_size,
      image_key=dataset.image_key,
      label_key=dataset.label_key,
    )
    for split in (dataset.train_split, dataset.test_split)
  )
  if train.max_labels > 1 or test.max_labels > 1:
    raise UserError(
      f"{key}: {dataset.label_key!r} holds several labels an image; a"
      f" {config.type} evaluation needs one."
    )
  if train.num_classes != test.num_classes:
    raise UserError(
      f"{key}: the training split has {train.num_classes} classes and"
      f" the test split {test.num_classes}; they must be the same."
    )
  return train, test
