"""Comparisons as files."""

import html
import re

import pytest

from tests.report import comparisons
from tests.report.test_render import Page
from vit_jax.report import comparison, comparison_formats

EVIL = "runs/<script>alert(1)</script>&|_*`[x](y)"


def compared(subjects):
  return comparison.compare(subjects, comparisons.DECLARED)


def test_the_page_asks_nothing_of_the_network():
  text = comparison_formats.html(compared(comparisons.pair()))
  assert not re.search(r"https?:|//\w+\.|url\(|@import", text)
  page = Page(text)
  assert not page.all("script") and not page.all("img")
  assert [a["href"] for a in page.all("link")] == ["data:,"]


def test_the_page_has_every_cell_and_sentence():
  value = compared(comparisons.pair())
  page = Page(comparison_formats.html(value))
  for section in value.sections:
    assert section.title in page.text
    for sentence in section.protocol:
      assert sentence in page.text
    for line in section.lines:
      assert all(text in page.text for text in (line.name, *line.cells))
  for words in ("2 checkpoints compared", "302,890", "runs/b.npz", "1,500"):
    assert words in page.text
  marked = sum(sum(line.best) for s in value.sections for line in s.lines)
  assert len(page.all("strong")) == marked > 10


def test_words_are_escaped():
  text = comparison_formats.html(compared([comparisons.subject(EVIL)]))
  assert "<script" not in text
  assert html.escape(EVIL) in text.replace("<wbr>", "")
  Page(text)


def cells(line):
  """Of a row of Markdown, escaped separators left alone."""
  return [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]


@pytest.mark.parametrize("path", ["runs/a", EVIL])
def test_markdown_tables_are_rectangular(path):
  pair = [comparisons.subject(path), comparisons.subject("b")]
  text = comparison_formats.markdown(compared(pair))
  tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
  assert len(tables) == 5
  for table in tables:
    rows = [cells(line) for line in table.splitlines()]
    assert len({len(row) for row in rows}) == 1 and len(rows) > 2
  assert "<script" not in re.sub(r"\\<", "", text)


def test_markdown_marks_the_best():
  text = comparison_formats.markdown(compared(comparisons.pair()))
  assert "| test, top-1, % | 90.00 | **95.00** |" in text
  assert "frozen pre\\_logits features" in text
  assert "Its l2 is 1024, fixed beforehand." in text
  assert "| a | ViT-Ti/4 | runs/a | 16 | 302,890 | 1,500 |" in text
