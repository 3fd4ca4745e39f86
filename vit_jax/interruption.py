"""Ctrl-C while the modules of a command are imported."""

import sys
from types import TracebackType


def leave_out_trace() -> None:
  """Makes Ctrl-C that nothing catches end the process without a trace."""
  report = sys.excepthook

  def leave_out(
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
  ) -> None:
    if not issubclass(kind, KeyboardInterrupt):
      report(kind, error, trace)

  sys.excepthook = leave_out
