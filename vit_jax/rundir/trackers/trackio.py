"""Trackio, in a local database or on a Hugging Face Space."""

import contextlib
import secrets
import sqlite3
from collections.abc import Sequence
from typing import Any

from vit_jax.rundir.trackers.contract import (
  DEFAULT_PROJECT,
  Line,
  RunInfo,
  TrackerKind,
)
from vit_jax.rundir.trackers.memory import Memory


def _start(info: RunInfo, memory: Memory) -> "_Trackio":
  import trackio

  if memory.get("name") is None:
    # Trackio finds a run by name, which another workdir may share.
    memory.set(name=f"{info.name}-{secrets.token_hex(2)}")
  run = trackio.init(
    project=info.project or DEFAULT_PROJECT,
    name=memory.get("name"),
    group=info.group,
    config={**info.config, "run": dict(info.facts)},
    resume="allow",
    embed=False,
  )
  return _Trackio(run, memory)


class _Trackio:
  """A Trackio run."""

  def __init__(self, run: Any, memory: Memory):
    self._run = run
    self._memory = memory
    self._last_written = -1
    self.last_step = _last_step(run.project, run.name)
    if self.last_step < 0:
      self.last_step = memory.get("step", -1)  # The run is on a server.

  def write(self, lines: Sequence[Line]) -> None:
    for step, metrics in lines:
      self._run.log(dict(metrics), step=step)
      self._last_written = max(self._last_written, step)

  def finish(self, status: str) -> None:
    import trackio

    levels = trackio.AlertLevel
    self._run.alert(
      f"Run {status}",
      level=levels.INFO if status == "finished" else levels.WARN,
    )
    self._run.finish()
    self._memory.set(step=max(self._last_written, self.last_step))


def _last_step(project: str, run: str) -> int:
  """Returns the last step of a run in the local database; -1 if none."""
  import trackio

  path = trackio.TRACKIO_DIR / f"{project}.db"
  query = "SELECT MAX(step) FROM metrics WHERE run_name = ?"
  with contextlib.suppress(sqlite3.Error):
    database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    with contextlib.closing(database):
      found = database.execute(query, (run,)).fetchone()[0]
      return -1 if found is None else found
  return -1


KIND = TrackerKind(package="trackio", start=_start)
