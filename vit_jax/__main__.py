"""Runs a command: `vit-jax train ...` is `python -m vit_jax.train ...`.

  vit-jax                  lists the commands
  vit-jax COMMAND --help   shows the flags of one

`python -m vit_jax` does the same if no scripts are installed.
"""

import ast
import os
import pathlib
import runpy
import sys

from vit_jax import interruption
from vit_jax.suggestions import did_you_mean

COMMANDS = (
  "train",
  "evaluate",
  "predict",
  "convert",
  "prepare",
  "deduplicate",
  "sweep",
  "vtab",
  "search",
  "visualize",
  "compile",
  "benchmark",
  "tables",
)
_ASKS_FOR_LIST = {"help", "--help", "-h"}


def main() -> int:
  """Runs the command named in the arguments; returns its exit code."""
  interruption.leave_out_trace()
  name, *arguments = sys.argv[1:] or ["help"]
  if name in _ASKS_FOR_LIST:
    return _show(_listed())
  if name not in COMMANDS:
    near = did_you_mean(name, COMMANDS)
    hint = f" Did you mean {near!r}?" if near else ""
    print(f"There is no command {name!r}.{hint}\n{_listed()}", file=sys.stderr)
    return 1
  sys.argv[1:] = arguments
  runpy.run_module(f"vit_jax.{name}", run_name="__main__", alter_sys=True)
  return 0


def _show(text: str) -> int:
  """Prints a text; returns the exit code, 1 if it cannot be written."""
  try:
    print(text, flush=True)
  except OSError as error:
    # Otherwise Python tries again when it exits.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
      print(
        f"error: The output cannot be written ({error.strerror}).",
        file=sys.stderr,
      )
    return 1
  return 0


def _listed() -> str:
  """Lists the commands, each with the first line of its help."""
  lines = ["vit-jax COMMAND --help shows the flags of one of these:", ""]
  width = max(map(len, COMMANDS))
  for name in COMMANDS:
    # Parsed, because importing them all takes seconds.
    path = pathlib.Path(__file__).with_name(f"{name}.py")
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    lines.append(f"  {name:{width}}  {text.splitlines()[0]}")
  return "\n".join(lines)


if __name__ == "__main__":
  sys.exit(main())
