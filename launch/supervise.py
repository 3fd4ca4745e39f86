"""Restarts a command when it is preempted or loses a peer process.

  python -m launch.supervise [--max_restarts=N] [--restart_preempted]
    [--exit_code_file=PATH] -- COMMAND...

The scripts of launch/ start this instead of vit_jax.train itself. SIGTERM and
SIGINT are passed on to the command, which is then not restarted. The exit code
is the command's last one; it is also written to PATH, which is removed first.
Requires only Python's standard library.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from launch import exit_codes, restarts
from launch.processes import Processes, Signals


def say(text: str) -> None:
  print(f"launch: {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
  parser = argparse.ArgumentParser(
    prog="python -m launch.supervise", description=__doc__.splitlines()[0]
  )
  parser.add_argument(
    "--max_restarts",
    type=int,
    default=3,
    help="maximum number of restarts without an hour's run in between",
  )
  parser.add_argument(
    "--restart_preempted",
    action="store_true",
    help="restart after exit code 42 as well",
  )
  parser.add_argument("--exit_code_file", help="file for the final exit code")
  parser.add_argument("command", nargs="+", metavar="COMMAND")
  options = parser.parse_args(arguments)
  if options.exit_code_file and os.path.exists(options.exit_code_file):
    os.remove(options.exit_code_file)

  with Signals() as signals:

    def attempt() -> int:
      try:
        processes = Processes(options.command, [{}], labelled=False)
      except OSError as error:
        say(f"{options.command[0]} cannot be started: {error.strerror}")
        return 1
      signals.pass_to(processes)
      return exit_codes.of_all(processes.wait())

    code = restarts.repeat(
      attempt,
      max_restarts=options.max_restarts,
      restart_preempted=options.restart_preempted,
      asked_to_stop=lambda: signals.received,
      say=say,
    )
  if options.exit_code_file:
    # Whole or not at all: somebody may be reading.
    partial = f"{options.exit_code_file}.partial"
    with open(partial, "w", encoding="utf-8") as file:
      file.write(f"{code}\n")
    os.replace(partial, options.exit_code_file)
  return code


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
