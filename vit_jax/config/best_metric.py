"""The metric that selects a run's best checkpoint: `checkpoint.keep_best`."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.suggestions import did_you_mean

_KEY = "config.checkpoint.keep_best"
_MAIN = "eval/"  # May be left out.


def find(config: schema.Config) -> "Metric | None":
  """The metric that `keep_best` names; None if it is not set.

  Raises:
    UserError: No evaluator has it, or it has no better direction.
  """
  wanted = config.checkpoint.keep_best
  if wanted is None:
    if config.early_stopping is not None:
      raise UserError(
        f"config.early_stopping = {config.early_stopping} counts evaluations"
        f" without a better {_KEY}, which is not set; name a metric, such as"
        " 'test/top1'."
      )
    return None
  known = {name: better for name, better in _metrics(config) if better}
  for name in (wanted, _MAIN + wanted):
    if name in known:
      return Metric(name, known[name] == "lower")
  near = did_you_mean(wanted, known)
  hint = f" Did you mean {near.removeprefix(_MAIN)!r}?" if near else ""
  listed = ", ".join(name.removeprefix(_MAIN) for name in known) or "none"
  raise UserError(
    f"{_KEY} = {wanted!r} is not a metric of config.evals that tells which"
    f" checkpoint is better.{hint} Known: {listed}."
  )


def _metrics(config: schema.Config) -> Iterator[tuple[str, str]]:
  """Every metric of the evaluators, and which of two values is better."""
  for name, entry in config.evals.items():
    kind = registry.EVALUATORS.get(entry.type)
    for row in getattr(entry, "datasets", None) or (name,):
      for column in kind.columns(entry):
        yield f"{kind.prefix}/{row}/{column.metric}", column.better


@dataclasses.dataclass(frozen=True)
class Metric:
  """A metric, and whether less of it is better."""

  name: str
  lower: bool


@dataclasses.dataclass(frozen=True)
class Best:
  """The best evaluation so far.

  Attributes:
    step: Step of that evaluation; the first of equally good ones.
    value: Value of the metric at that step.
    since: Number of evaluations after it.
  """

  step: int
  value: float
  since: int = 0


Measured = Sequence[tuple[int, float | None]]


def measured(
  metric: Metric, lines: Iterable[Mapping[str, Any]]
) -> list[tuple[int, float | None]]:
  """Steps and values of the lines of a `metrics.jsonl` that have the metric."""
  return [
    (line["step"], line[metric.name]) for line in lines if metric.name in line
  ]


def ranking(metric: Metric, values: Measured) -> list[tuple[int, float]]:
  """The evaluations, best first, without non-finite ones."""
  sign = 1 if metric.lower else -1
  finite = [
    (step, value)
    for step, value in values
    if value is not None and math.isfinite(value)
  ]
  return sorted(finite, key=lambda one: (sign * one[1], one[0]))


def best_of(metric: Metric, values: Measured) -> "Best | None":
  """The best evaluation; None if there is none."""
  ranked = ranking(metric, values)
  if not ranked:
    return None
  step, value = ranked[0]
  return Best(step, value, sum(other > step for other, _ in values))


def is_in_vain(config: schema.Config, best: Best | None) -> bool:
  """Tells if `config.early_stopping` evaluations were no better."""
  patience = config.early_stopping
  return patience is not None and best is not None and best.since >= patience
