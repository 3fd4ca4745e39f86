"""A tracker as the rest of the package sees it.

Another one is a file like `vit_jax.rundir.trackers.mlflow` and a line of
`vit_jax.registry.TRACKERS`. It may block and it may raise: it is called in a
thread of its own, and an error of it is a warning.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from vit_jax.rundir.trackers.memory import Memory

DEFAULT_PROJECT = "vit_jax"

# A step and the metrics measured there.
Line = tuple[int, Mapping[str, float | int]]


@dataclasses.dataclass(frozen=True)
class RunInfo:
  """Description of the run that a tracker shows.

  Attributes:
    project: `config.log.project`.
    name: Name of the run.
    group: `config.log.group`.
    directory: Directory of this machine for files of the tracker's own.
    config: The resolved config, nested.
    facts: Workdir, command, versions and so on, of JSON's types, nested.
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
    last_step: Last step that the library is known to hold of earlier starts;
      -1 if it holds none. Later lines of metrics.jsonl are written again.
  """

  last_step: int

  def write(self, lines: Sequence[Line]) -> None:
    """Adds lines; a step may be lower than one before."""

  def finish(self, status: str) -> None:
    """Ends this start of the run, and returns when all lines are kept.

    Args:
      status: 'finished', 'preempted', 'interrupted', 'diverged' or 'failed'.
    """


@dataclasses.dataclass(frozen=True)
class TrackerKind:
  """Entry of `vit_jax.registry.TRACKERS`.

  Attributes:
    package: Package that `start` imports, named as in `pip install`.
    start: Function that begins a run, or resumes the one in its memory.
    abandon: Function that gives up a library that failed or hangs, so that it
      does not keep the process from ending; it may hang itself.
  """

  package: str
  start: Callable[[RunInfo, Memory], Tracker]
  abandon: Callable[[], None] = lambda: None
