"""The training and test splits of an evaluator on frozen features."""

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.evaluators.contract import Context
from vit_jax.evaluators.split import Split, open_split


def open_datasets(
  name: str, config: schema.FeaturesEval, context: Context
) -> dict[str, tuple[Split, Split]]:
  """Opens `config.evals.<name>.datasets`: name -> (training, test) split.

  Raises:
    UserError: the data is not there, has several labels an image, or the two
      splits differ in their classes.
  """
  return {
    dataset_name: _open(f"config.evals.{name}", dataset_name, config, context)
    for dataset_name in config.datasets
  }


def _open(
  key: str, name: str, config: schema.FeaturesEval, context: Context
) -> tuple[Split, Split]:
  dataset, key = config.datasets[name], f"{key}.datasets.{name}"
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
