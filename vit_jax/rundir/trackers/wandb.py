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
  )
  mode, reason = wandb.setup().settings.mode, ""
  if mode in ("online", "run"):
    try:
      # Otherwise `init` would ask for the key at a terminal.
      if wandb.login(prompt=False, verify=False):
        run = init(settings=_settings(quiet=True))
        return _Wandb(run, home, memory)
      reason = "no API key is known (`wandb login`, or WANDB_API_KEY)"
    except wandb.Error as error:
      reason = " ".join(str(error).split())[:300].rstrip(".")
    mode = "offline"
  run = init(mode=mode, settings=_settings(silent=True))
  if reason:
    _logger.warning("wandb keeps the run offline: %s.", reason)
  return _Wandb(run, home, memory)


def _settings(**options: Any) -> Any:
  import wandb

  if "WANDB_CONSOLE" not in os.environ:
    options["console"] = "off"  # A progress bar is no log.
  return wandb.Settings(finish_timeout=_SECONDS_TO_UPLOAD, **options)


def _supersede(home: pathlib.Path, memory: Memory) -> None:
  """Marks the files of an offline start that was killed as not to be sent.

  wandb keeps up to 32 kB of them in memory, so they lack the last lines, or
  are empty and keep `wandb sync` from sending any. All their lines are written
  again.
  """
  files = memory.get("unfinished")
  if files is None:
    return
  mark = home / files / f"run-{memory.get('id')}.wandb.synced"
  mark.parent.mkdir(parents=True, exist_ok=True)
  mark.touch()
  memory.set(unfinished=None)


class _Wandb:
  """A run of wandb; the step is a metric, so that it may go back."""

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
      _logger.info("wandb shows the run at %s", run.url)
    run.summary["status"] = "running"

  def write(self, lines: Sequence[Line]) -> None:
    for step, metrics in lines:
      self._run.log({"step": step, **metrics})
      self._last_written = step

  def finish(self, status: str) -> None:
    self._run.summary["status"] = status
    if status == "preempted":
      self._run.mark_preempting()
    self._run.finish(exit_code=int(status != "finished"))
    kept = max(self._last_written, self.last_step)
    self._memory.set(step=kept, unfinished=None)


KIND = TrackerKind(package="wandb", start=_start)
