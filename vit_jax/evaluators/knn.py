"""k-nearest-neighbour accuracy of frozen features, as in DINO."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jax.sharding import Mesh

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.evaluators import contract, neighbors, shots
from vit_jax.evaluators.feature_evaluator import FeatureEvaluator, open_datasets
from vit_jax.evaluators.features import Examples
from vit_jax.evaluators.split import Split


def build(
  name: str, config: schema.KnnEval, context: contract.Context
) -> FeatureEvaluator:
  """Opens the data of `config.evals.<name>`.

  Raises:
    UserError: The data is missing, has several labels per image, or has fewer
      examples than the number of neighbours.
  """
  datasets = open_datasets(name, config, context)
  wanted = max(config.neighbors)
  for dataset_name, (train, _) in datasets.items():
    if train.num_examples < wanted:
      fewer = ",".join(
        str(k) for k in config.neighbors if k <= train.num_examples
      )
      raise UserError(
        f"config.evals.{name}.neighbors asks for {wanted} of the"
        f" {train.num_examples} examples of {train.key}.train_split ="
        f" {config.datasets[dataset_name].train_split!r}; ask for fewer, such"
        f" as --config.evals.{name}.neighbors={fewer or 1}."
      )
  return evaluator(config, datasets, context)


def evaluator(
  config: schema.KnnEval,
  datasets: Mapping[str, tuple[Split, Split]],
  context: contract.Context,
) -> FeatureEvaluator:
  """Builds `knn/<dataset>/k<neighbours>`: fractions of the whole test split."""

  def measure(train: Examples, test: Examples, split: Split):
    found = accuracies(
      train,
      test,
      num_classes=split.num_classes,
      neighbor_counts=config.neighbors,
      temperature=config.temperature,
      mesh=context.mesh,
      heartbeat=context.heartbeat,
    )
    return {f"k{count}": value for count, value in found.items()}

  return FeatureEvaluator(config, datasets, context, measure)


def accuracies(
  train: Examples,
  test: Examples,
  *,
  num_classes: int,
  neighbor_counts: Sequence[int],
  temperature: float,
  mesh: Mesh,
  heartbeat: Callable[[], None],
) -> dict[int, float]:
  """Computes the accuracy on test examples for each number of voters.

  Args:
    train: Examples that vote.
    test: Examples to classify.
    num_classes: Number of classes of the labels.
    neighbor_counts: Numbers of voters, each at most the number of training
      examples.
    temperature: Temperature of a vote's weight, exp(cosine similarity /
      temperature).
    mesh: Devices over which the training examples are divided.
    heartbeat: Called after every chunk of test examples.

  Raises:
    ExamplesError: A label is not a class.
  """
  shots.require_classes(train.labels, test.labels, num_classes=num_classes)
  bank = neighbors.Neighbors(
    train.features, count=max(neighbor_counts), mesh=mesh
  )
  num_right = dict.fromkeys(neighbor_counts, 0)
  first = 0
  for similarity, rows in bank.chunks(test.features):
    truth = test.labels[first : first + len(rows)]
    first += len(rows)
    for count in neighbor_counts:
      votes = neighbors.vote(
        similarity[:, :count],
        train.labels[rows[:, :count]],
        temperature=temperature,
        num_classes=num_classes,
      )
      num_right[count] += int(np.count_nonzero(votes == truth))
    heartbeat()
  return {k: right / len(test.labels) for k, right in num_right.items()}
