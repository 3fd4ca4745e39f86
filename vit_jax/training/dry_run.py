"""Description of a run without starting it."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
from clu import parameter_overview

from vit_jax import registry, trees
from vit_jax.config import resolve, schema
from vit_jax.data import facts
from vit_jax.data.sources import Source
from vit_jax.errors import UserError
from vit_jax.evaluators.contract import Evaluator
from vit_jax.rundir import initial_state, progress, resuming
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.sharding import rules, table
from vit_jax.training import evaluation, experiment, memory, summary, trial
from vit_jax.training.forecast import Forecast

# If a step takes longer than this, in seconds, none is run to time it.
_LONGEST_STEP = 20.0


def describe(
  config: schema.Config,
  compiled: Callable[[experiment.Experiment], Callable[..., Any]] | None,
  workdir: str | None = None,
) -> Iterator[str]:
  """Summarises the run, then describes config, parameters, batch and memory.

  The training data may be missing if the config gives the numbers of classes
  and steps, or the dataset is a well-known one. If they are present, the data
  of the evaluators must be present too.

  Args:
    config: The experiment.
    compiled: Compiles the train step of an experiment; a few steps are run to
      estimate the duration on the available devices. None for no estimate.
    workdir: Directory of the run, which is only read, or None.

  Yields:
    Pieces of the text, each consisting of whole lines, as they become known.

  Raises:
    UserError: Any error that would prevent the run from starting.
  """
  source = missing = None
  try:
    source = facts.open_data(config)
  except UserError as error:
    missing = error
  # Available data must suit the config.
  found = facts.of_source(config, source) if source else facts.find(config)[0]
  parts = experiment.build(config, found)
  first_step, is_over = resuming.check_unopened(
    workdir, parts, has_data=not missing
  )
  with evaluation.errors_explained(config):
    evaluators = {} if missing else evaluation.build_evaluators(parts)
  bytes_of = memory.by_purpose(parts)
  needs = sum(bytes_of.values())
  lines = summary.lines(
    parts, evaluators, first_step=first_step, is_over=is_over, needs=needs
  )
  yield "\n".join(["== Run ==", *lines, ""])
  # Compiling a step takes a while, and the rest may not fit.
  start = None if first_step else _start(parts)
  failure = None
  if compiled and not is_over:
    try:
      text = _duration(parts, compiled, evaluators, source, needs, first_step)
      yield text + "\n"
    except UserError as error:
      yield "duration  not known, as a step could not be made\n"
      failure = error  # Everything else is reported first.
  for title, text in _details(parts, bytes_of, start, missing):
    yield f"\n== {title} ==\n{text}\n"
  if failure is not None:
    raise failure


def _details(
  parts: experiment.Experiment,
  bytes_of: Mapping[str, int],
  start: str | None,
  missing: UserError | None,
) -> list[tuple[str, str]]:
  """Returns the titles and texts of the sections after the summary."""
  config, state = parts.config, parts.abstract_state
  sections = [
    ("Config", resolve.dump(config)),
    (
      "Parameters",
      parameter_overview.get_parameter_overview(
        _stacked(state.params), include_stats=False
      ),
    ),
    (
      f"Sharding over {dict(parts.mesh.shape)}",
      table.table(
        state.params,
        rules.placements(
          state.params,
          parts.mesh,
          config.mesh.rules,
          registry.FAMILIES.get(config.model.name).sharding_rules,
        ),
      ),
    ),
    ("Batch", _batch_table(parts)),
    ("Estimated memory of a device", _memory_table(bytes_of)),
    ("Work", f"{parts.flops_per_step:.4g} model FLOPs a step"),
  ]
  if start is not None:
    sections.append(("Start", start))
  if missing:
    sections.append(("Notes", f"The data are not here. {missing}"))
  return sections


def _duration(
  parts: experiment.Experiment,
  compiled: Callable[[experiment.Experiment], Callable[..., Any]],
  evaluators: Mapping[str, Evaluator],
  source: Source | None,
  needs: int,
  first_step: int,
) -> str:
  """Estimates in one line the time left on the available devices."""
  left = parts.total_steps - first_step
  rest = "the remaining " if first_step else ""
  steps = f"{rest}{left:,} step{'s' * (left != 1)} of"
  shortest, free = trial.shortest_step(parts), summary.free_memory()
  if shortest > _LONGEST_STEP or (free is not None and needs > free):
    least = progress.format_duration(left * shortest)
    return (
      f"duration  at least {least} here: {steps} {shortest:.3g} s, if all"
      " products ran at the highest rate of these devices"
    )
  with experiment.memory_explained(parts.config):
    seconds = trial.time_step(parts, compiled(parts), source)
  forecast = Forecast(parts)
  forecast.expect(evaluators)
  whole = progress.format_duration(forecast.seconds_left(first_step, seconds))
  text = f"duration  about {whole} here: {steps} {seconds:.3g} s"
  if source is None:
    text += ", with data at hand,"
  if number := forecast.evaluations_left(first_step):
    text += f" and {number} evaluation" + "s" * (number != 1)
  return text


def _stacked(params: Any) -> dict[str, jax.ShapeDtypeStruct]:
  """Combines the parameters of equal layers: [layers, ...]."""
  groups: dict[tuple[str, tuple[int, ...], Any], int] = {}
  for path, leaf in trees.named_leaves(params):
    name = re.sub(r"encoderblock_\d+", "encoderblock_*", path)
    key = name, leaf.shape, leaf.dtype
    groups[key] = groups.get(key, 0) + 1
  found = {}
  for (name, shape, dtype), count in groups.items():
    shape = (count, *shape) if "*" in name else shape
    found[name] = jax.ShapeDtypeStruct(shape, dtype)
  return found


def _start(parts: experiment.Experiment) -> str | None:
  """Describes what the run takes from `init_from`; None if it is not set."""
  found = initial_state.find(parts)
  if found is None:
    return None
  given = trees.num_elements(found.exported.params)
  total = trees.num_elements(parts.abstract_state.params)
  path = parts.config.init_from
  line = f"{given:,} of {total:,} parameters are those of {path}."
  return "\n".join([line, *found.exported.notes])


def _batch_table(parts: experiment.Experiment) -> str:
  num_shards = mesh_lib.batch_shards(parts.mesh)
  return "\n".join(
    f"{name}: {leaf.dtype} {leaf.shape}, {leaf.shape[0] // num_shards} examples"
    " on each device"
    for name, leaf in parts.abstract_batch().items()
  )


def _memory_table(bytes_of: Mapping[str, int]) -> str:
  rows = {name: size for name, size in bytes_of.items() if size}
  rows["total"] = sum(rows.values())
  width = max(map(len, rows))
  return "\n".join(
    f"{name:{width}}  {rules.format_bytes(size):>10}"
    for name, size in rows.items()
  )
