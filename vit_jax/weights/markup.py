"""Markdown and YAML with other people's words in them, which stay words."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_LONGEST = 300


def yaml(value: Any, indent: str = "") -> Iterator[str]:
  """Lines of block YAML; every text is quoted as JSON quotes it."""
  entries = value.items() if isinstance(value, Mapping) else enumerate(value)
  for key, item in entries:
    lead = f"{indent}{key}:" if isinstance(value, Mapping) else f"{indent}-"
    if isinstance(item, (Mapping, list)):
      lines = list(yaml(item, indent + "  "))
      if isinstance(value, Mapping):
        yield lead
      else:  # The first line stands behind the dash.
        lines[0] = f"{lead} {lines[0].lstrip()}"
      yield from lines
    elif isinstance(item, float):
      yield f"{lead} {item:.6f}"
    else:
      yield f"{lead} {json.dumps(item, ensure_ascii=False)}"


def bullets(lines: list[str]) -> str:
  return "\n".join(f"- {line}" for line in lines)


def shortened(text: str) -> str:
  """One line of printable characters."""
  line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
  return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def plain(text: str) -> str:
  """Text with nothing in it that Markdown or HTML would act on."""
  return re.sub(r"([\\`*_\[\]<>|~&#$])", r"\\\1", shortened(text))


def code(text: str) -> str:
  """A code span, fenced by more backticks than stand in a row in it."""
  line = shortened(text) or " "
  longest = max(map(len, re.findall("`+", line)), default=0)
  fence = "`" * (longest + 1)
  pad = " " if longest else ""
  return f"{fence}{pad}{line}{pad}{fence}"
