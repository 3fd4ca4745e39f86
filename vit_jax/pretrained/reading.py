"""Reading the parameters of any checkpoint, from a run or published."""

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

import jax
from etils import epath

from vit_jax import buckets, named_weights, records, registry, truncate
from vit_jax.checkpoint import verification
from vit_jax.checkpoint.store import DIRECTORY, read_params
from vit_jax.config import best_metric, schema
from vit_jax.errors import UserError
from vit_jax.pretrained import run_files
from vit_jax.processes import agreement
from vit_jax.weight_paths import PICKLES, SAFETENSORS
from vit_jax.weights import files, path_errors
from vit_jax.weights.contract import Weights

_BEST = "best"
# Number of attempts if the run has removed the latest step in the meantime.
_TRIES = 5
# A step is removed file by file: number of checks for it, and pause in between.
_LOOKS = 10
_PAUSE_SECONDS = 0.2

_Found = TypeVar("_Found")


def is_published(path: str) -> bool:
  """Returns True for a published file or directory, False for a run.

  Args:
    path: As for `read`; a workdir may have the name of a file, such as vit.pth.

  Raises:
    UserError: A bucket cannot be reached.
  """
  path = named_weights.local(path)
  where = epath.Path(path)
  if where.suffix:
    with path_errors.explained(path):
      if (where / DIRECTORY).is_dir():
        return False
  return files.is_published(path)


def locate(path: str) -> tuple[epath.Path, int]:
  """Finds a run's checkpoint.

  Args:
    path: A workdir, its checkpoints folder, one step in it, or WORKDIR/best if
      the run had `checkpoint.keep_best`.

  Returns:
    The workdir and the step; by default the latest complete one.

  Raises:
    UserError: There is no checkpoint.
  """
  path = named_weights.local(path)
  where = epath.Path(path)
  with path_errors.explained(path):
    exists = where.exists()
    if not exists and where.name == _BEST and where.parent.exists():
      return where.parent, _best_step(where.parent)
  if not exists:
    raise UserError(
      f"The checkpoint {path} does not exist; give a workdir, one of its"
      f" {DIRECTORY}/STEP, an .npz, .safetensors or .pth, or a Hugging Face"
      f" directory.{named_weights.hint(path)}"
    )
  if _is_step(where):
    return where.parent.parent, int(where.name)
  if where.name.endswith(".stablehlo") and where.is_file():
    raise UserError(
      f"{path} is an exported program: it runs by jax.export alone"
      " (docs/tutorial.md), and its parameters cannot be read back. Give the"
      " checkpoint that it was made of."
    )
  if where.is_file():
    raise UserError(
      f"{path} is a file, but its name does not tell its form: files of weights"
      " end in .npz, .safetensors or .pth."
    )
  workdir = where.parent if where.name == DIRECTORY else where
  directory = workdir / DIRECTORY
  steps = verification.steps_in(directory)
  if not steps:
    raise UserError(
      f"{path} holds no checkpoint: there is no complete step in {directory}."
      f"{_other_weights(workdir)}"
    )
  return workdir, steps[-1]


def _other_weights(directory: epath.Path) -> str:
  """Returns a sentence about weights of names that directories do not have."""
  suffixes = (SAFETENSORS, *PICKLES, ".npz")
  with path_errors.explained(os.fspath(directory)):
    names = [one.name for one in directory.iterdir()]
  found = sorted(name for name in names if name.endswith(suffixes))
  if not found:
    return ""
  return f" It holds files of weights ({truncate.first(found)}): name one."


def _is_step(path: epath.Path) -> bool:
  return path.parent.name == DIRECTORY and path.name.isdigit()


def _best_step(workdir: epath.Path) -> int:
  """Returns the best step that exists.

  Raises:
    UserError: The run has not recorded a best step, or it does not exist.
  """
  metric = best_metric.find(run_files.read_config(workdir))
  if metric is None:
    raise UserError(
      f"{workdir} has no best checkpoint: the run was not told by what, as"
      " --config.checkpoint.keep_best=test/top1 does."
    )
  there = set(verification.steps_in(workdir / DIRECTORY))
  lines = records.read_lines(workdir / "metrics.jsonl")
  kept = [line for line in lines if line["step"] in there]
  best = best_metric.best_of(metric, best_metric.measured(metric, kept))
  if best is None:
    raise UserError(
      f"{workdir} has no checkpoint yet for which {metric.name} was measured."
    )
  return best.step


def run_config(path: str) -> schema.Config | None:
  """Reads the config of a checkpoint's run; None if it has no run.

  The checkpoint's files are compared with their manifest. Unlike `read` for a
  run, this touches no device, so it may be called before processes join.

  Raises:
    UserError: There is no checkpoint, it is damaged, or the run that wrote it
      has removed it in the meantime.
  """
  path = named_weights.local(path)
  if is_published(path):
    return None

  def checked(workdir: epath.Path, step: int) -> schema.Config:
    verification.check(buckets.absolute(workdir) / DIRECTORY, step)
    return run_files.read_config(workdir)

  return _of_step(path, checked)[0]


def read(path: str) -> Weights:
  """Reads the parameters of any checkpoint and the network they belong to.

  Args:
    path: A workdir, one of its checkpoint steps, a published file or directory
      (`vit_jax.weights.files`), or the name of one (`vit_jax.named_weights`).

  Raises:
    UserError: The checkpoint is missing, damaged or not understood, some of its
      parameters are not finite, or the run that wrote it has removed it in the
      meantime.
  """
  return read_with_step(path)[0]


def read_with_step(
  path: str, agreed: bool = False
) -> tuple[Weights, int | None]:
  """Reads a checkpoint like `read`, and returns its step as well.

  A run that is still training may save between two look-ups in its workdir, so
  the step comes from the look-up that chose the parameters. If the run removes
  that step before it is fully read, the path is looked up again, unless it
  names the step.

  Args:
    path: As for `read`.
    agreed: True if all processes call this together and read the step found by
      process 0.

  Returns:
    The parameters and the number of updates done; None for a published file,
    which does not state it.

  Raises:
    UserError: Same as for `read`.
  """
  name, path = path, named_weights.local(path)
  if is_published(path):
    # Messages use the user's name for it, not its path in a cache.
    return dataclasses.replace(files.read(path), path=name), None
  return _of_step(path, lambda *found: _read_step(path, *found), agreed)


def _of_step(
  path: str,
  look: Callable[[epath.Path, int], _Found],
  agreed: bool = False,
) -> tuple[_Found, int]:
  """Calls `look` on the step that a path refers to; also returns the step.

  Args:
    path: As for `locate`.
    look: Called with the workdir and the step; called again with the step that
      the path then refers to if the run has removed the step in the meantime.
    agreed: As for `read_with_step`.

  Raises:
    UserError: The step was removed, and the path names it or several processes
      agreed on it (not all of them may have noticed the removal).
  """
  is_bound = _is_step(epath.Path(path)) or (agreed and jax.process_count() > 1)
  for left in reversed(range(1 if is_bound else _TRIES)):
    workdir, step = locate(path)
    if agreed:
      step = int(agreement.gather(str(step))[0])
    try:
      return look(workdir, step), step
    except Exception:
      if not _is_removed(workdir / DIRECTORY, step):
        raise
      if not left:
        raise UserError(
          f"The checkpoint {workdir / DIRECTORY / str(step)} was removed by its"
          f" run while it was read; give {workdir} to read the newest, or train"
          " with a larger --config.checkpoint.keep_last."
        ) from None
  raise AssertionError


def _is_removed(directory: epath.Path, step: int) -> bool:
  """Returns True if a step is gone or disappears within a moment."""
  for _ in range(_LOOKS):
    with contextlib.suppress(OSError), buckets.as_os_error(directory):
      steps = verification.steps_in(directory)
      if step not in steps:
        return True
      if step == steps[-1]:
        return False  # Only a run that rewinds removes its latest step.
    time.sleep(_PAUSE_SECONDS)
  return False


def _read_step(path: str, workdir: epath.Path, step: int) -> Weights:
  """Reads one step of a run; messages refer to it as `path`."""
  config = run_files.read_config(workdir)
  kind = registry.OBJECTIVES.get(config.objective.name)
  beside: dict[str, Any] = {}
  trained: dict[str, Any] = {}
  state: dict[str, Any] = {}

  def exported(params: Any, objective_state: Any) -> Any:
    chosen = kind.exported(params, objective_state)
    whole = kind.whole(params, objective_state)
    names = sorted(set(whole) - set(chosen))
    beside.update((name, whole[name]) for name in names)
    if whole is not params:
      trained.update(params)
    state.update(kind.carried(objective_state))
    return chosen

  params = read_params(workdir, step, exported)
  head = params.get("head")
  num_classes = None if head is None else head["kernel"].shape[-1]
  weights = Weights(
    path=path,
    model=config.model.model_copy(update={"num_classes": num_classes}),
    params=params,
    class_names=run_files.read_class_names(workdir),
    about_beside=[
      f"{name} is not part of the network: runs of objective"
      f" {config.objective.name!r} train it further, others ignore it."
      for name in beside
    ],
    beside=beside,
    objective=config.objective,
    activation=kind.activation(config),
    trained=trained,
    state=state,
  )
  files.check_finite(weights)
  return weights
