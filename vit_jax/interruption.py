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


def leave_out_trace_of_command(package: str) -> None:
  """Calls `leave_out_trace` if a module of the package is being run.

  `python -m PACKAGE.COMMAND` imports the package first.
  """
  words = (word.partition(".")[0] for word in sys.orig_argv)
  if sys.argv[:1] == ["-m"] and package in words:
    leave_out_trace()
