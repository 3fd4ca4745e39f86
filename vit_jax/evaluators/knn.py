"""k-nearest-neighbour accuracy of frozen features, as DINO has it."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jax.sharding import Mesh

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.evaluators import contract, feature_datasets, neighbors, shots
from vit_jax.evaluators.features import Examples, Extractor
from vit_jax.evaluators.split import Split


def build(
  name: str, config: schema.KnnEval, context: contract.Context
) -> "Knn":
  """Opens the data of `config.evals.<name>`.

  Raises:
    UserError: the data is not there, has several labels an image, or has
      fewer examples than neighbours are asked for.
  """
  datasets = feature_datasets.open_datasets(name, config, context)
  wanted = max(config.neighbors)
  for dataset_name, (train, _) in datasets.items():
    if train.num_examples < wanted:
      raise UserError(
        f"config.evals.{name}.neighbors asks for {wanted} of the"
        f" {train.num_examples} examples of {train.key}.train_split ="
        f" {config.datasets[dataset_name].train_split!r}; ask for fewer."
      )
  return Knn(config, datasets, context)


class Knn:
  """Accuracy of the votes of the nearest training images."""

  def __init__(
    self,
    config: schema.KnnEval,
    datasets: Mapping[str, tuple[Split, Split]],
    context: contract.Context,
  ):
    self._config = config
    self._datasets = datasets
    self._mesh = context.mesh
    self._extract = Extractor(config.representation, context)
    self._heartbeat = context.heartbeat

  def run(self, state: contract.EvaluatedState, step: int) -> dict[str, float]:
    """`knn/<dataset>/k<neighbours>`: fractions of the whole test split.

    Raises:
      UserError: an example has no label.
    """
    del step  # Writes no files.
    metrics = {}
    for name, (train_split, test_split) in self._datasets.items():
      train = self._extract(state.eval_params, train_split)
      test = self._extract(state.eval_params, test_split)
      try:
        found = accuracies(
          train,
          test,
          num_classes=train_split.num_classes,
          neighbor_counts=self._config.neighbors,
          temperature=self._config.temperature,
          mesh=self._mesh,
          heartbeat=self._heartbeat,
        )
      except ValueError as error:
        raise UserError(f"{train_split.key}: {error}") from None
      metrics |= {f"knn/{name}/k{k}": value for k, value in found.items()}
    return metrics


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
  """Number of neighbours -> fraction of the test examples they are right on.

  Args:
    train: the examples that vote.
    test: the examples that are voted on.
    num_classes: of the labels.
    neighbor_counts: at most as many as there are training examples.
    temperature: a vote weighs exp(cosine similarity / temperature).
    mesh: the training examples are divided over its devices.
    heartbeat: called after every chunk of test examples.

  Raises:
    ValueError: a label is no class.
  """
  for examples in (train, test):
    shots.require_classes(examples.labels, num_classes=num_classes)
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
