"""Escaping third-party text for Markdown."""

import re

_LONGEST = 300


def shortened(text: str) -> str:
  """Returns one line of printable characters."""
  line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
  return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def plain(text: str) -> str:
  """Returns text with nothing in it that Markdown or HTML would act on."""
  return re.sub(r"([\\`*_\[\]<>|~&#$])", r"\\\1", shortened(text))


def code(text: str) -> str:
  """Returns a code span, fenced by more backticks than occur in a row in it."""
  line = shortened(text) or " "
  longest = max(map(len, re.findall("`+", line)), default=0)
  fence = "`" * (longest + 1)
  pad = " " if longest else ""
  return f"{fence}{pad}{line}{pad}{fence}"
