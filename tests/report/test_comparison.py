"""Checkpoints side by side."""

import xml.etree.ElementTree

import pytest

from tests.report import comparisons
from vit_jax.report import comparison


@pytest.fixture(scope="module")
def sections():
  """Title -> section, of the two checkpoints."""
  compared = comparison.compare(comparisons.pair(), comparisons.DECLARED)
  assert compared.names == ("a", "b.npz")
  return {one.title: one for one in compared.sections}


def lines(section):
  return {line.name: line for line in section.lines}


def test_every_evaluator_has_its_section(sections):
  assert list(sections) == [
    "Classification",
    "Few-shot linear accuracy, %",
    "k-nearest-neighbour accuracy, %",
    "Linear probe",
  ]


def test_cells_are_the_metrics_of_each_checkpoint(sections):
  found = lines(sections["Classification"])
  assert found["test, top-1, %"].cells == ("90.00", "95.00")
  assert found["test, loss"].cells == ("0.3", "0.25")
  found = lines(sections["Few-shot linear accuracy, %"])
  assert found["digits, 5-shot"].cells == ("70.0 ± 2.0", "75.0 ± 2.0")
  assert found["pets (l2 swept), 1-shot"].cells[0] == "34.0 ± 2.0"
  found = lines(sections["k-nearest-neighbour accuracy, %"])
  assert list(found) == ["digits, k = 5", "digits, k = 20"]
  assert found["digits, k = 20"].cells == ("70.00", "75.00")
  found = lines(sections["Linear probe"])
  assert found["digits, top-1, %"].cells == ("95.00", "100.00")
  assert found["digits, l2"].cells == ("0.001", "0.001")


def test_the_best_of_a_row_is_marked(sections):
  found = lines(sections["Classification"])
  assert found["test, top-1, %"].best == (False, True)
  assert found["test, loss"].best == (False, True)  # The lower one.
  found = lines(sections["k-nearest-neighbour accuracy, %"])
  assert found["digits, k = 5"].best == (True, False)


def test_what_looks_equal_is_not_marked(sections):
  assert lines(sections["Classification"])["test, top-5, %"].best == (
    False,
    False,
  )
  close = [
    comparisons.subject(metrics={"eval/test/top1": value})
    for value in (0.90001, 0.90002, 0.8)
  ]
  section, *_ = comparison.compare(close, comparisons.DECLARED).sections
  assert lines(section)["test, top-1, %"].best == (True, True, False)


def test_a_single_checkpoint_is_the_best_of_nothing():
  compared = comparison.compare([comparisons.subject()], comparisons.DECLARED)
  for section in compared.sections:
    assert not any(any(line.best) for line in section.lines)


def test_the_mean_over_datasets_leads(sections):
  section = sections["Few-shot linear accuracy, %"]
  first, second, third = section.lines[:3]
  assert first.name == "mean of 2 datasets, 1-shot"
  assert first.cells == ("44.0", "49.0")
  assert first.is_mean and second.is_mean and not third.is_mean
  assert section.figures[0].caption.startswith("Mean of 2 datasets")


def test_the_protocol_is_stated(sections):
  few = " ".join(sections["Few-shot linear accuracy, %"].protocol)
  for words in (
    "frozen pre_logits features",
    "Its l2 is 1024, fixed beforehand.",
    "the most accurate of 1 and 1024 on held-out examples",
    "over 3 draws",
    "the same images for every checkpoint",
  ):
    assert words in few
  near = " ".join(sections["k-nearest-neighbour accuracy, %"].protocol)
  assert "exp(cosine / 0.07)" in near
  probe = " ".join(sections["Linear probe"].protocol)
  assert "10% of each class" in probe and "no say in it" in probe
  assert "split 'test' of digits." in " ".join(
    sections["Classification"].protocol
  )
  images = lines(sections["Classification"])["test, images"]
  assert images.cells == ("450", "450")


def test_figures_have_a_line_for_each_checkpoint(sections):
  for title, count, head in (
    # Two datasets twice, and their mean.
    ("Few-shot linear accuracy, %", 5, "5-shot"),
    ("k-nearest-neighbour accuracy, %", 1, "k = 5"),
  ):
    figures = sections[title].figures
    assert len(figures) == count
    for figure in figures:
      root = xml.etree.ElementTree.fromstring(figure.svg)
      words = "".join(root.itertext())
      assert f"a, {head}: " in words and f"b.npz, {head}: " in words
      assert str(figure.svg).count('class="line s') == 4  # Two in the legend.


def test_what_one_checkpoint_lacks_is_a_gap():
  pair = [comparisons.subject(metrics={}), comparisons.subject()]
  for section in comparison.compare(pair, comparisons.DECLARED).sections:
    for line in section.lines:
      assert line.cells[0] == "–" and line.cells[1] != "–"


def test_whole_numbers_are_written_whole():
  sizes = {"step": 12_345_678, "eval/test/num_examples": 1281167.0}
  one = comparisons.subject(metrics=sizes | {"eval/test/loss": 0.12345678})
  rows = [line.split() for line in comparison.text([one]).splitlines()[1:]]
  assert dict(rows) == {
    "step": "12345678",
    "eval/test/num_examples": "1281167",
    "eval/test/loss": "0.123457",
  }


def test_the_text_has_every_metric_in_columns():
  pair = comparisons.pair()
  first, *rest = comparison.text(pair).splitlines()
  assert first.split() == ["a", "b.npz"]
  found = {line.split()[0]: line.split()[1:] for line in rest}
  assert found["step"] == ["1500", "–"]
  assert found["eval/test/top1"] == ["0.9", "0.95"]
  assert set(found) == {"step", *comparisons.metrics()}
  assert len({len(line) for line in rest}) == 1
  for order in (pair, pair[::-1]):
    assert comparison.text(order).splitlines()[1].startswith("step ")
