"""Which checkpoint of a run is the best."""

import math

import pytest

from tests import experiments
from vit_jax import checks
from vit_jax.config import best_metric
from vit_jax.config.best_metric import Best, Metric
from vit_jax.errors import UserError

TOP1, LOSS = Metric("eval/test/top1", False), Metric("eval/test/loss", True)


def best_of(metric, values):
  lines = [
    {"step": i + 1, metric.name: value} for i, value in enumerate(values)
  ]
  lines = [{"step": 1, "train/loss": 9.0}, *lines]
  return best_metric.best_of(metric, best_metric.measured(metric, lines))


@pytest.mark.parametrize(
  ("metric", "values", "best"),
  [
    (TOP1, [0.1, 0.5, 0.3], Best(2, 0.5, since=1)),
    (LOSS, [2.0, 1.0, 1.5, 1.0], Best(2, 1.0, since=2)),
    (TOP1, [0.5, 0.5], Best(1, 0.5, since=1)),
    (TOP1, [math.nan, 0.2, None, math.inf], Best(2, 0.2, since=2)),
    (TOP1, [math.nan], None),
    (TOP1, [], None),
  ],
)
def test_the_first_of_the_best_values_counts(metric, values, best):
  assert best_of(metric, values) == best


@pytest.mark.parametrize(
  ("named", "metric"),
  [
    ("test/top1", TOP1),
    ("eval/test/top1", TOP1),
    ("test/loss", LOSS),
    ("knn/toy/k5", Metric("knn/toy/k5", False)),
    (None, None),
  ],
)
def test_evaluators_say_what_is_better(named, metric):
  from vit_jax.config import defaults

  few = defaults.default_eval(type="knn", neighbors=(5,))
  few.datasets.toy = defaults.default_fewshot_dataset(
    dataset=experiments.DATASET
  )
  config = experiments.config(checkpoint__keep_best=named, evals__near=few)
  assert best_metric.find(config) == metric


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    (
      {"checkpoint__keep_best": "test/top2"},
      "config.checkpoint.keep_best = 'test/top2' is not a metric .* Did you"
      " mean 'test/top5'. Known: test/top1, test/top5,"
      " test/mean_average_precision,",
    ),
    ({"checkpoint__keep_best": "test/num_examples"}, "is not a metric"),
    ({"early_stopping": 3}, "early_stopping = 3 counts .* which is not set"),
  ],
)
def test_a_metric_that_no_evaluator_has_is_refused(changes, message):
  with pytest.raises(UserError, match=message):
    checks.check(experiments.config(**changes))
