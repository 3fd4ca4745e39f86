"""Tables of text with aligned columns.

Implemented here, as a library for these thirty lines would be one more
dependency.
"""

from collections.abc import Sequence


def aligned(
  rows: Sequence[Sequence[str]], right: Sequence[int] = ()
) -> list[str]:
  """Formats lines with columns two spaces apart.

  Args:
    rows: Cells of each line, the same number in each.
    right: Indices of right-aligned columns, from 0.
  """
  return ["  ".join(cells).rstrip() for cells in _padded(rows, right)]


def markdown(rows: Sequence[Sequence[str]]) -> str:
  """Formats a Markdown table; the first row is the header."""
  head, *body = _padded(rows, ())
  rule = ["-" * len(cell) for cell in head]
  lines = [f"| {' | '.join(cells)} |" for cells in (head, rule, *body)]
  lines[1] = lines[1].replace(" ", "-")
  return "\n".join(lines)


def _padded(
  rows: Sequence[Sequence[str]], right: Sequence[int]
) -> list[list[str]]:
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  return [
    [
      cell.rjust(width) if column in right else cell.ljust(width)
      for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    for row in rows
  ]
