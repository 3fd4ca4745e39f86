"""Plan of a launch: files to write, then commands to run."""

import dataclasses
import pathlib
import shlex
import subprocess
from collections.abc import Sequence

from vit_jax.errors import UserError


@dataclasses.dataclass(frozen=True)
class Command:
  """A command of this machine, with a file as its input if one is named."""

  words: Sequence[str]
  stdin: str | None = None

  def __str__(self) -> str:
    text = shlex.join(self.words)
    return f"{text} < {shlex.quote(self.stdin)}" if self.stdin else text


@dataclasses.dataclass(frozen=True)
class Plan:
  """Files by their path, and commands in their order.

  `str` of it is all that will be written and run.
  """

  files: dict[str, str]
  commands: Sequence[Command]

  def __str__(self) -> str:
    parts = [
      f"# File {path}\n{content.rstrip()}\n"
      for path, content in self.files.items()
    ]
    parts += ["# Commands", *map(str, self.commands)]
    return "\n".join(parts)

  def carry_out(self) -> int:
    """Writes the files and runs the commands until one fails.

    Returns:
      The exit code of the last command that was run.

    Raises:
      UserError: A file cannot be written or a program is not installed.
    """
    for path, content in self.files.items():
      try:
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).write_text(content, encoding="utf-8")
      except OSError as error:
        raise UserError(
          f"{path} cannot be written: {error.strerror}."
        ) from None
    for command in self.commands:
      code = _run(command)
      if code:
        return code
    return 0


def show_or_carry_out(plan: Plan, *, dry_run: bool) -> int:
  """Prints the plan, or carries it out and returns the exit code."""
  if dry_run:
    print(plan)
    return 0
  return plan.carry_out()


def _run(command: Command) -> int:
  print(f"+ {command}", flush=True)
  stdin = open(command.stdin, "rb") if command.stdin else None
  try:
    return subprocess.run(command.words, stdin=stdin).returncode
  except FileNotFoundError:
    raise UserError(
      f"{command.words[0]} was not found; install it first."
    ) from None
  finally:
    if stdin:
      stdin.close()
