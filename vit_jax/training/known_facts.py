"""What must be known of the training data, without looking for them."""

from vit_jax.config import schema
from vit_jax.data import sources, spec, splits
from vit_jax.errors import UserError
from vit_jax.paper.datasets import DATASETS
from vit_jax.training.experiment import DataFacts


def facts(config: schema.Config) -> DataFacts:
  """The facts, from the config and published sizes of well-known datasets.

  Raises:
    UserError: if the number of classes, or of examples where the run's length
      is in epochs, is said by neither.
  """
  dataset, model = config.train.dataset, config.model
  num_classes, num_examples, max_labels = model.num_classes, None, 1
  known = DATASETS.get(dataset.partition(":")[0])
  if dataset == "digits" or dataset.startswith("generated"):
    source = sources.open_source(dataset, config.train.split, data_dir=None)
    num_classes = num_classes or source.num_classes
    num_examples, max_labels = source.num_examples, source.max_labels
  elif known is not None:
    num_classes = num_classes or known.num_classes
    pieces = splits.resolve(
      config.train.split,
      {name: [count] for name, count in known.num_examples.items()},
      dataset=dataset,
    )
    num_examples = splits.count(pieces)
  missing = []
  if num_classes is None:
    missing.append("config.model.num_classes")
  if num_examples is None and config.total_steps is None:
    missing.append("config.total_steps")
  if missing:
    raise UserError(
      f"The data are not looked at, and {dataset} is not one of the datasets"
      f" whose size is known ({', '.join(DATASETS)}); set"
      f" {' and '.join(missing)}."
    )
  preprocess = spec.parse(config.train.preprocess, image_size=model.image_size)
  num_classes, max_labels = preprocess.label_space(num_classes, max_labels)
  return DataFacts(
    num_classes=num_classes,
    max_labels=max_labels,
    num_examples=num_examples,
    fingerprint="",
  )
