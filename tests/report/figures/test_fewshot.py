"""Accuracy against a few counts."""

import re
import xml.etree.ElementTree

from vit_jax.config.evaluator_declarations import Column
from vit_jax.report.figures import fewshot
from vit_jax.report.measures import Cell


def row(values):
  """The cells of (mean, deviation) by count, and one without a count."""
  cells = {"loss": Cell(2.0, None, Column("loss", "loss"))}
  for count, (mean, std) in values.items():
    title = f"k = {count}"
    column = Column("accuracy", title, "percent", decimals=1, count=count)
    cells[column.title] = Cell(mean, std, column)
  return cells


def draw(rows, counts="examples per class"):
  return fewshot.draw(rows, title="Accuracy", counts=counts)


def test_each_row_is_a_line_with_its_points_named():
  rows = {
    "<a>": row({10: (0.7, None), 1: (0.5, 0.1)}),
    "b": row({1: (0.4, None), 10: (0.9, None)}),
  }
  figure = draw(rows, counts="neighbours")
  root = xml.etree.ElementTree.fromstring(figure)
  titles = [one.text for one in root.iter("title")]
  assert titles == [
    "<a>, k = 1: 50.0 ± 10.0%",
    "<a>, k = 10: 70.0%",
    "b, k = 1: 40.0%",
    "b, k = 10: 90.0%",
  ]
  assert len(re.findall('class="bar ', figure)) == 1
  assert "<a>" not in figure
  assert root.get("aria-label") == (
    "Accuracy by neighbours. <a>: 1: 50.0 ± 10.0%, 10: 70.0%; b: 1: 40.0%, 10:"
    " 90.0%."
  )


def test_better_is_higher_and_more_is_further_right():
  figure = draw({"a": row({1: (0.5, None), 10: (0.7, None)})})
  (x0, y0), (x1, y1) = re.findall(r"translate\(([\d.]+) ([\d.]+)\)", figure)
  assert float(x0) < float(x1) and float(y0) > float(y1)
  assert "examples per class" in figure


def test_without_values_there_is_no_figure():
  assert draw({}) is None
  assert draw({"a": row({1: (float("nan"), None)})}) is None
  assert draw({"a": row({})}) is None
