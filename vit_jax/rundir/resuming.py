"""Check that a run can resume from a checkpoint in its workdir."""

import logging
from collections.abc import Mapping
from typing import Any

from etils import epath

from vit_jax import records, versions
from vit_jax.checkpoint import resume, store, verification
from vit_jax.config import best_metric, evaluator_declarations, schema
from vit_jax.errors import UserError
from vit_jax.rundir import run_length, same_classes, same_shapes
from vit_jax.rundir.contract import Run

_logger = logging.getLogger(__name__)


def metadata(parts: Run) -> dict[str, Any]:
  """Returns the metadata of a run that starts."""
  return resume.metadata(
    parts.config,
    fingerprint=parts.facts.fingerprint,
    versions=versions.installed(),
    constants=parts.objective.constants.digests,
  )


def check(
  workdir: epath.Path,
  parts: Run,
  step: int,
  saved: Mapping[str, Any],
  shapes: Mapping[str, tuple[int, ...]],
  current: Mapping[str, Any] | None = None,
) -> None:
  """Checks that a run is the one that saved a checkpoint.

  Args:
    workdir: Directory of the run.
    parts: Parts of the experiment.
    step: Step of the checkpoint.
    saved: Metadata of the checkpoint.
    shapes: Shapes of its arrays, by path.
    current: Metadata of the run that starts, if not those of `parts`.

  Raises:
    UserError: A key, the classes or the state differ, or the run would be
      shorter than it is.
  """
  same_classes.check(workdir, parts.facts.class_names)
  current = current or metadata(parts)
  resume.check_same(
    saved,
    current,
    allow_change=parts.config.allow_change,
    workdir=workdir,
    misfits=same_shapes.misfits(shapes, parts.abstract_state),
  )
  run_length.check(workdir, step, parts.total_steps)
  if changes := resume.changed_evaluators(saved, current):
    _logger.warning(
      "Metrics of %s up to step %d were measured with other settings:\n%s\n"
      "Their curves may join what is not comparable; give an evaluator or"
      " dataset that has changed another name to have a curve of its own.",
      workdir,
      step,
      "\n".join(f"  {line}" for line in changes),
    )


def check_unopened(
  workdir: epath.PathLike | None, parts: Run, *, has_data: bool
) -> tuple[int, bool]:
  """Does the checks of a start without changing the workdir.

  Args:
    workdir: Directory of the run, with or without checkpoints, or None.
    parts: Parts of the experiment.
    has_data: False if the training data cannot be compared.

  Returns:
    The step from which the run would resume, or 0, and whether no step would be
    left to train.

  Raises:
    UserError: A start would be refused.
  """
  current = metadata(parts)
  step = None
  if workdir is not None:
    directory = epath.Path(workdir) / store.DIRECTORY
    step = verification.latest_whole(directory)
  if step is None:
    resume.check_allowed(current, None)
    return 0, False
  saved, shapes = store.read_description(workdir, step)
  resume.check_allowed(current, saved)
  if not has_data:
    current["dataset_fingerprint"] = saved["dataset_fingerprint"]
  check(epath.Path(workdir), parts, step, saved, shapes, current)
  is_over = step >= parts.total_steps or _stopped_early(
    epath.Path(workdir), parts.config, step, saved
  )
  return step, is_over


def _stopped_early(
  workdir: epath.Path,
  config: schema.Config,
  step: int,
  saved: Mapping[str, Any],
) -> bool:
  """Tells if early stopping ended a run at `step`, as its records say."""
  metric, path = best_metric.find(config), workdir / "metrics.jsonl"
  if metric is None or config.early_stopping is None or not path.exists():
    return False
  try:
    found = records.read_lines(path)
  except OSError as error:
    raise UserError(
      f"{path} cannot be read ({error.strerror or error}); fix that before the"
      " run is started."
    ) from None
  lines = [line for line in found if line["step"] <= step]
  best = best_metric.best_of(metric, best_metric.measured(metric, lines))
  prefixes = evaluator_declarations.prefixes(config)
  evaluated = records.has_any(records.names(lines), step, prefixes)
  is_due = saved.get("evaluation_due", False) and not evaluated
  return best_metric.is_in_vain(config, best) and not is_due
