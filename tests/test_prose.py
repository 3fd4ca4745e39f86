"""Docstrings stand alone: the measurable part of the rules of prose."""

import ast
import inspect
import pathlib
import re

import pytest

REPO = pathlib.Path(__file__).parents[1]
FOLDERS = ("vit_jax", "configs", "launch", "benchmarks", "docs", "examples")
FILES = sorted(
  path
  for folder in FOLDERS
  for path in (REPO / folder).rglob("*.py")
  if not path.is_relative_to(REPO / "vit_jax/configs")
)
DOCUMENTED = (
  ast.Module,
  ast.ClassDef,
  ast.FunctionDef,
  ast.AsyncFunctionDef,
)
OPENING = re.compile(
  r"(What|Whether|How|Which|Where|When|Who|Whoever|All that)\b"
)
SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields):$")
ENTRY = re.compile(r"\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*: +(?P<text>\S.*)")


def docstrings(path: pathlib.Path) -> list[tuple[str, str]]:
  """Name and cleaned docstring of everything documented in a file."""
  tree = ast.parse(path.read_text(encoding="utf-8"))
  found = []
  for node in ast.walk(tree):
    if isinstance(node, DOCUMENTED):
      text = ast.get_docstring(node, clean=False)
      if text is not None:
        name = getattr(node, "name", "module")
        found.append((name, inspect.cleandoc(text)))
  return found


def entries(docstring: str) -> list[str]:
  """The texts of "name: text" entries in sections, continuations joined."""
  texts: list[str] = []
  section = ""
  indent = 0
  for line in docstring.splitlines():
    stripped = line.strip()
    depth = len(line) - len(line.lstrip())
    if match := SECTION.match(line):
      section, indent = match.group(1), 0
    elif not stripped:
      section = section if section in ("Args", "Attributes", "Raises") else ""
    elif not depth:
      section = ""
    elif section:
      indent = indent or depth
      match = ENTRY.match(stripped) if depth == indent else None
      if match and (section not in ("Returns", "Yields")):
        texts.append(match.group("text"))
      elif texts and depth > indent:
        texts[-1] += f" {stripped}"
  return texts


def starts_well(text: str) -> bool:
  """Opens with a capital letter, a literal of code, or a dtype."""
  return bool(re.match(r"[A-Z0-9`\"'(\[{<*-]|u?int\d+ ", text))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(REPO)))
def test_docstrings_stand_alone(path):
  wrong = []
  for name, text in docstrings(path):
    if OPENING.match(text):
      wrong.append(f"{name}: opens with {text.splitlines()[0]!r}")
    for entry in entries(text):
      if not starts_well(entry) or not entry.endswith((".", ":", "?")):
        wrong.append(f"{name}: the entry {entry!r} is incomplete")
  assert not wrong, "\n".join(wrong)


def test_fragments_are_noticed():
  fragment = "Adds.\n\nArgs:\n  a: of it\n  b: Number of rows,\n    in all.\n"
  assert entries(fragment) == ["of it", "Number of rows, in all."]
  assert not starts_well("of it") and starts_well("`a`, as given.")
  assert OPENING.match("Whether it fits.") and not OPENING.match("Whole rows.")
