import re

import numpy as np

from vit_jax.report.figures import confusion


def test_every_count_but_zero_is_written():
  counts = np.array([[50, 3, 0], [0, 1234, 1], [0, 0, 0]])
  figure, width = confusion.draw(counts, ["a", "b", "c"], label="L")
  written = re.findall(r'class="count middle[^"]*">([\d,]+)<', figure)
  assert written == ["50", "3", "1,234", "1"]
  assert "b taken for c: 1 of 1,235" in figure
  assert ">94.3%<" in figure and ">–<" in figure  # Recall; an absent class.
  assert width > 3 * 30


def test_a_perfect_classifier_has_no_wrong_shade():
  figure, _ = confusion.draw(np.eye(4, dtype=int), list("abcd"), label="L")
  shades = re.findall(r'class="wrong" fill-opacity="([\d.]+)"', figure)
  assert set(shades) == {"0.000"}
