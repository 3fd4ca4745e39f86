"""Plain text and tables as Markdown, for the pages that are made."""

import re
from collections.abc import Iterable, Sequence

# Code, as it is written in docstrings, and flags with their values.
_CODE = re.compile(
  r"(`[^`]*`|(?<![\w-])--\w+(?:\.\w+)*(?:=(?:\"[^\"]*\"|[\w./*{}-]*\w))?)"
)
_MARKUP = re.compile(r"([\\*_\[\]<>|#{}`])")


def escaped(text: str) -> str:
  """Text in which code and flags are code, and nothing else is Markdown."""
  pieces = _CODE.split(text)
  return "".join(
    code(piece.strip("`")) if number % 2 else _MARKUP.sub(r"\\\1", piece)
    for number, piece in enumerate(pieces)
  )


def code(text: str) -> str:
  """Code that may stand in a cell of a table."""
  return f"`{text.replace('|', chr(92) + '|')}`"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
  """A table of cells that are Markdown; nothing if there are no rows."""
  lines = [f"| {' | '.join(row)} |" for row in rows]
  if not lines:
    return ""
  head = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
  # site.css stacks the cells of this class on a narrow screen.
  return "\n".join(
    ['<div class="reference" markdown>', "", *head, *lines, "", "</div>"]
  )
