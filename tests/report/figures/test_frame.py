"""The legend that charts share."""

import re

from vit_jax.report.figures import frame


def _texts(names):
  markup, top = frame.legend(names, "top1, %")
  found = re.findall(r'<text x="([\d.-]+)"[^>]*>([^<]*)</text>', str(markup))
  return [(float(x), text) for x, text in found], top


def test_names_that_fit_into_a_row_are_whole():
  names = ["ViT-L/16, ImageNet-21k, 90 epochs, 384 px", "BiT-R152x4, JFT-300M"]
  texts, _ = _texts(names)
  assert [text for _, text in texts] == names


def test_names_that_do_not_fit_beside_the_unit_stand_below_it():
  names = ["ViT of width 64, depth 4, patches of 6 pixels at 48 pixels", "BiT"]
  texts, top = _texts(names)
  assert [text for _, text in texts] == names
  assert top == frame.TOP + frame.ROW
  assert min(x for x, _ in texts) > 0


def test_names_that_do_not_fit_side_by_side_get_rows():
  one, two = "ViT-L/16, ImageNet-21k, 90 epochs", "ViT-H/14, JFT, 14 epochs"
  assert _texts([one, two])[1] > _texts(["ViT", "BiT"])[1] == frame.TOP


def test_a_name_longer_than_a_row_is_cut_and_stays_inside():
  ((x, text),), _ = _texts(["an experiment of many words " * 9])
  assert text.endswith("…") and x > 0
