"""A tracker that keeps in memory what it is given."""

import threading

from vit_jax.rundir.trackers.contract import TrackerKind


class Store:
  """Runs by their id, and switches that make the tracker fail.

  Attributes:
    runs: Id -> the lines, in the order in which they came.
    statuses: Id -> how each start of the run ended.
    infos: Descriptions of the starts.
    starts: Number of times it was asked to start.
    abandoned: Number of times it was given up.
    start_errors, write_errors: Errors to raise next; None of a write: none.
    refuses: Function of lines that says whether they are an error.
    writes: Number of times it was asked to write.
    open: Cleared, it makes every write wait.
  """

  def __init__(self, package="json"):
    self.runs, self.statuses, self.infos = {}, {}, []
    self.starts = self.abandoned = 0
    self.start_errors, self.write_errors = [], []
    self.refuses = lambda lines: False
    self.writes = 0
    self.open = threading.Event()
    self.open.set()
    self.kind = TrackerKind(package, self._start, self._abandon)

  @property
  def only(self):
    (lines,) = self.runs.values()
    return lines

  def _start(self, info, memory):
    self.starts += 1
    if self.start_errors:
      raise self.start_errors.pop(0)
    if memory.get("id") is None:
      memory.set(id=f"run-{len(self.runs)}")
    self.infos.append(info)
    return _Run(self, memory.get("id"))

  def _abandon(self):
    self.abandoned += 1


class _Run:
  def __init__(self, store, run_id):
    self._store, self._id = store, run_id
    self._lines = store.runs.setdefault(run_id, [])
    self.last_step = max((step for step, _ in self._lines), default=-1)

  def write(self, lines):
    self._store.open.wait()
    try:
      error = (
        self._store.write_errors.pop(0) if self._store.write_errors else None
      )
      if error is not None or self._store.refuses(lines):
        raise error or ValueError("unknown metric")
      self._lines.extend(lines)
    finally:
      self._store.writes += 1

  def finish(self, status):
    self._store.statuses.setdefault(self._id, []).append(status)
