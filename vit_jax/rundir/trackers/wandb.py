"""Weights & Biases, online and offline."""

import functools
import logging
import os
import pathlib
import secrets
from collections.abc import Sequence
from typing import Any

from vit_jax.rundir.trackers.contract import (
  DEFAULT_PROJECT,
  Line,
  RunInfo,
  TrackerKind,
)
from vit_jax.rundir.trackers.memory import Memory

_SECONDS_TO_UPLOAD = 20.0
_logger = logging.getLogger(__name__)


def _start(info: RunInfo, memory: Memory) -> "_Wandb":
  import wandb

  if memory.get("id") is None:
    memory.set(id=secrets.token_hex(4))
  home = pathlib.Path(os.environ.get("WANDB_DIR") or info.directory)
  _supersede(home, memory)
  settings = {
    "silent": True,
    "finish_timeout": _SECONDS_TO_UPLOAD,
    "finish_timeout_raises": True,
  }
  if "WANDB_CONSOLE" not in os.environ:
    settings["console"] = "off"  # A progress bar is not a log.
  init = functools.partial(
    wandb.init,
    project=info.project or os.environ.get("WANDB_PROJECT", DEFAULT_PROJECT),
    name=info.name,
    group=info.group,
    id=memory.get("id"),
    resume="allow",
    dir=home,
    config={**info.config, "run": dict(info.facts)},
    reinit="create_new",
    settings=wandb.Settings(**settings),
  )
  mode = wandb.setup(wandb.Settings(silent=True)).settings.mode
  if mode not in ("online", "run"):
    return _Wandb(init(), home, memory)
  # Without a key, `init` would ask for one on a terminal.
  if wandb.login(prompt=False, verify=False):
    try:
      return _Wandb(init(), home, memory)
    except wandb.Error as error:
      reason = " ".join(str(error).split())[:300].rstrip(".")
    wandb.teardown()  # It would keep the run's id.
  else:
    reason = "no API key is known (`wandb login`, or WANDB_API_KEY)"
  _logger.warning("wandb keeps the run offline: %s.", reason)
  return _Wandb(init(mode="offline"), home, memory)


def _supersede(home: pathlib.Path, memory: Memory) -> None:
  """Marks the files of a killed offline start as not to be sent.

  wandb keeps up to 32 kB of them in memory, so the last lines are missing, or
  the files are empty and prevent `wandb sync` from sending any. All their lines
  are written again.
  """
  files = memory.get("unfinished")
  if files is None:
    return
  mark = home / files / f"run-{memory.get('id')}.wandb.synced"
  mark.parent.mkdir(parents=True, exist_ok=True)
  mark.touch()
  memory.set(unfinished=None)


class _Wandb:
  """A wandb run; the step is a metric, so it may decrease."""

  def __init__(self, run: Any, home: pathlib.Path, memory: Memory):
    self._run = run
    self._memory = memory
    self._last_written = -1
    run.define_metric("step", hidden=True)
    run.define_metric("*", step_metric="step")
    if run.offline:
      self.last_step = memory.get("step", -1)
      files = pathlib.Path(run.dir).parent
      memory.set(unfinished=os.path.relpath(files, home))
      _logger.info(
        "wandb keeps the run in %s; `wandb sync %s` sends it.",
        files,
        home / "wandb",
      )
    else:
      self.last_step = int(run.summary.get("step", -1))
      if not run.disabled:
        _logger.info("wandb shows the run at %s", run.url)
    run.summary["status"] = "running"

  def write(self, lines: Sequence[Line]) -> None:
    for step, metrics in lines:
      self._run.log({"step": step, **metrics})
      self._last_written = max(self._last_written, step)

  def finish(self, status: str) -> None:
    self._run.summary["status"] = status
    if status == "preempted":
      self._run.mark_preempting()
    self._run.finish(exit_code=int(status != "finished"))
    if not self._run.disabled:
      kept = max(self._last_written, self.last_step)
      self._memory.set(step=kept, unfinished=None)


def _abandon() -> None:
  """Unregisters wandb's exit handler, which waits for wandb's process."""
  import wandb

  wandb.teardown()


KIND = TrackerKind(package="wandb", start=_start, abandon=_abandon)
