"""The metric that tells a run's best checkpoint: `checkpoint.keep_best`."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
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
    UserError: No evaluator has it, or neither of its values is better.
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
    f"{_KEY} = {wanted!r} is no metric of config.evals that tells which"
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
    step: Step of it; of equal ones the first.
    value: Value of the metric there.
    since: Number of evaluations after it.
  """

  step: int
  value: float
  since: int = 0


def of_lines(
  metric: Metric, lines: Iterable[Mapping[str, Any]]
) -> "Best | None":
  """The best of the lines of a `metrics.jsonl`; None if none has the metric."""
  best = None
  for line in lines:
    best = after(metric, best, line["step"], line)
  return best


def after(
  metric: Metric, best: "Best | None", step: int, values: Mapping[str, Any]
) -> "Best | None":
  """The best after an evaluation; what is not a finite number is not better."""
  value = values.get(metric.name, math.nan)
  if metric.name not in values:
    return best
  if value is not None and math.isfinite(value):
    sign = -1 if metric.lower else 1
    if best is None or sign * value > sign * best.value:
      return Best(step, value)
  return best and dataclasses.replace(best, since=best.since + 1)
