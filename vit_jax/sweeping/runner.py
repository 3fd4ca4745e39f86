"""Runs `vit_jax.train` in child processes, one after the other."""

import contextlib
import ctypes
import json
import signal
import subprocess
import sys
from types import FrameType
from typing import Any

from etils import epath

from vit_jax import records
from vit_jax.checkpoint import resume
from vit_jax.config import resolve
from vit_jax.errors import UserError
from vit_jax.sweeping.plan import Run

_EXPERIMENT = "experiment.json"
_SUMMARY = "summary.json"
# Exit codes of train when asked to stop; a process that is asked before it has
# anything to save ends with 128 + the signal, or dies of it.
_STOPPED = {signal.SIGTERM: 42, signal.SIGINT: 130}
_ENDED = ("finished", "diverged")


class Runner:
  """Starts runs, and forwards requests to stop to the current one.

  A context manager; calling it runs one run.
  """

  def __init__(self) -> None:
    self._child: subprocess.Popen | None = None
    self._asked: int | None = None
    self._previous: dict[int, Any] = {}

  def __enter__(self) -> "Runner":
    for number in _STOPPED:
      self._previous[number] = signal.signal(number, self._forward)
    return self

  def __exit__(self, *unused: object) -> None:
    for number, handler in self._previous.items():
      signal.signal(number, handler)

  def __call__(self, run: Run) -> int:
    """Runs a run to its end, unless it has ended already.

    Returns:
      0 if it has ended, finished or with a loss that is not finite; otherwise
      the exit code of the run, which was stopped.

    Raises:
      UserError: The directory holds another run, or the run failed.
    """
    _write_experiment(run)
    if status(run) in _ENDED:
      return 0
    if self._asked is not None:
      return _STOPPED[self._asked]
    print(f"== {run.workdir} ==", flush=True)
    code = self._train(run)
    if code < 0:
      if -code not in _STOPPED:
        print(
          f"The run {run.workdir} was killed by {_name(-code)}; the same"
          " command resumes it.",
          flush=True,
        )
      code = 128 - code
    code = _STOPPED.get(code - 128, code)
    if code > 1:
      return code
    if status(run) not in _ENDED:
      raise UserError(
        f"The run {run.workdir} failed for the reason above; fix it and start"
        f" the same command again.{run.remark}"
      )
    return 0

  def _train(self, run: Run) -> int:
    arguments = [
      f"--config={run.workdir / _EXPERIMENT}",
      f"--workdir={run.workdir}",
    ]
    # Its own group: Ctrl-C reaches it once, through us.
    self._child = subprocess.Popen(
      [sys.executable, "-m", "vit_jax.train", *arguments],
      process_group=0,
      preexec_fn=_end_with_parent,
    )
    if self._asked is not None:  # While it was being started.
      self._child.send_signal(self._asked)
    try:
      return self._child.wait()
    finally:
      self._child = None

  def _forward(self, number: int, frame: FrameType | None) -> None:
    del frame
    self._asked = number
    if self._child is not None:
      self._child.send_signal(number)


def summary(run: Run) -> dict[str, Any]:
  """The run's summary.json; {} if it is missing or damaged.

  A run whose summary is damaged resumes from its last checkpoint and writes it
  again.
  """
  value = records.read_json(run.workdir / _SUMMARY)
  return value if isinstance(value.get("metrics"), dict) else {}


def status(run: Run) -> str | None:
  """The status of the run in its summary."""
  return summary(run).get("status")


def has_begun(workdir: epath.Path) -> bool:
  """True if a run was started in the directory."""
  return (workdir / _EXPERIMENT).exists()


def has_ended(run: Run) -> bool:
  """True if the directory holds this run, finished or diverged.

  One that cannot be read, or is of another config, is not this run.
  """
  with contextlib.suppress(UserError):
    return status(run) in _ENDED and not _differences(run)
  return False


def _differences(run: Run, allow_change: str = "") -> list[str]:
  """The keys in which the run in its directory differs, as 'key: was 1, is 2'.

  If it has ended, those of its evaluator are among them: a run may resume with
  another, but the metrics that it has are of the former.

  Raises:
    UserError: The config in the directory cannot be read.
  """
  current = resume.metadata(run.config, fingerprint="", versions={})
  saved = {**current, "config": _experiment(run.workdir / _EXPERIMENT)}
  measured = run.evaluator if status(run) in _ENDED else None
  return resume.differences(saved, current, allow_change, evaluator=measured)


def _write_experiment(run: Run) -> None:
  """Writes the run's config to the file that train reads.

  A summary of a config that differs, as `allow_change` permits, is removed, so
  that train looks at the run again: it may have to go on.

  Raises:
    UserError: The directory was made for another config, or for one that
      cannot be read.
  """
  path = epath.Path(run.workdir / _EXPERIMENT)
  exists = path.exists()
  if exists and (different := _differences(run, run.config.allow_change)):
    moved = ""
    if [line.partition(":")[0] for line in different] == ["data_dir"]:
      moved = ", or give --config.allow_change=data_dir if the data were moved"
    raise UserError(
      f"{run.workdir} holds a run of another experiment:\n"
      + "\n".join(f"  {line}" for line in different)
      + "\nIts results are not those of this one; choose another --workdir"
      + f"{moved}."
    )
  try:
    if exists and _differences(run):
      (run.workdir / _SUMMARY).unlink(missing_ok=True)
    run.workdir.mkdir(parents=True, exist_ok=True)
    records.write_text(path, resolve.dump(run.config) + "\n")
  except OSError as error:
    raise UserError(
      f"{run.workdir} cannot be written to ({error.strerror or error}); fix"
      " that, or choose another --workdir, in which all runs begin at step 0."
    ) from None


def _name(number: int) -> str:
  """Returns the name of a signal, or its number if it has no name."""
  known = {one.value: one.name for one in signal.Signals}
  return known.get(number, f"signal {number}")


def _experiment(path: epath.Path) -> dict[str, Any]:
  try:
    value = json.loads(path.read_text())
  except (OSError, ValueError) as error:
    reason = str(error)
  else:
    if isinstance(value, dict):
      return value
    reason = "it holds no JSON object"
  raise UserError(
    f"{path} cannot be read ({reason}). If the directory is of this experiment,"
    " remove the file, and the same command resumes; otherwise choose another"
    " --workdir."
  )


def _end_with_parent() -> None:
  """Makes Linux kill this process when the sweep is killed.

  Otherwise it would still write to its directory when the sweep is started
  again.
  """
  if sys.platform == "linux":
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
