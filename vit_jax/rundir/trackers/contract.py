"""The interface of trackers.

To add one, write a file like `vit_jax.rundir.trackers.mlflow` and add a line to
`vit_jax.registry.TRACKERS`. A tracker may block and may raise: it is called in
a separate thread, and its errors are logged as warnings.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from vit_jax.rundir.trackers.memory import Memory

DEFAULT_PROJECT = "vit_jax"

# A step and its metrics.
Line = tuple[int, Mapping[str, float | int]]


@dataclasses.dataclass(frozen=True)
class RunInfo:
  """Description of the run for a tracker.

  Attributes:
    project: `config.log.project`.
    name: Name of the run.
    group: `config.log.group`.
    directory: Local directory for the tracker's files.
    config: The resolved config, nested.
    facts: Workdir, command, versions and so on, as nested JSON types.
  """

  project: str | None
  name: str
  group: str | None
  directory: pathlib.Path
  config: Mapping[str, Any]
  facts: Mapping[str, Any]


@runtime_checkable
class Tracker(Protocol):
  """A run in the library of a tracker.

  Attributes:
    last_step: Last step of earlier starts that the library is known to have; -1
      if none. Later lines of metrics.jsonl are written again.
  """

  last_step: int

  def write(self, lines: Sequence[Line]) -> None:
    """Adds lines; a step may be lower than an earlier one."""

  def finish(self, status: str) -> None:
    """Ends this start of the run; returns when all lines are stored.

    Args:
      status: 'finished', 'preempted', 'interrupted', 'diverged' or 'failed'.
    """


@dataclasses.dataclass(frozen=True)
class TrackerKind:
  """Entry of `vit_jax.registry.TRACKERS`.

  Attributes:
    package: Package that `start` imports, named as in `pip install`.
    start: Function that starts a run, or resumes the one in its memory.
    abandon: Function that abandons a library that failed or hangs, so that it
      does not prevent the process from ending; it may itself hang.
  """

  package: str
  start: Callable[[RunInfo, Memory], Tracker]
  abandon: Callable[[], None] = lambda: None
