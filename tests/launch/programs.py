"""Programs that stand in for gcloud, srun and others, and note their calls."""

import json
import os
import pathlib
import stat
import sys

# Appends its name, words, variables and input to a file, then does as told: a
# file NAME.py beside it is run with `words` in scope; else it succeeds.
_PROGRAM = """#!{python} -IS
import json, os, pathlib, sys
place = pathlib.Path({place!r})
name, words = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
environment = {{k: v for k, v in os.environ.items() if k.startswith("JAX_")}}
call = {{"name": name, "words": words, "environment": environment}}
with open(place / "calls.jsonl", "a") as file:
  file.write(json.dumps(call) + "\\n")
behaviour = place / (name + ".py")
if behaviour.exists():
  exec(behaviour.read_text())
"""


class Programs:
  """A folder of them for PATH.

  Args:
    place: where they and what they note are kept.
    names: of the programs.
  """

  def __init__(self, place: pathlib.Path, *names: str):
    self.place = place
    (place / "bin").mkdir(parents=True)
    for name in names:
      path = place / "bin" / name
      path.write_text(_PROGRAM.format(python=sys.executable, place=str(place)))
      path.chmod(path.stat().st_mode | stat.S_IXUSR)

  def behave(self, name: str, code: str) -> None:
    """What the program does after it has noted a call."""
    (self.place / f"{name}.py").write_text(code)

  @property
  def environment(self) -> dict[str, str]:
    """This process's, with the programs found before all others."""
    path = f"{self.place / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path}

  def calls(self, name: str | None = None) -> list[dict]:
    """All calls in their order, or those of one program."""
    path = self.place / "calls.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    calls = [json.loads(line) for line in lines]
    return [c for c in calls if name in (None, c["name"])]

  def words(self, name: str) -> list[list[str]]:
    """The words of each call of a program."""
    return [call["words"] for call in self.calls(name)]
