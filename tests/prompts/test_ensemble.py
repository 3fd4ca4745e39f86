"""The prompts of a class, as CLIP and as SigLIP make them."""

import pytest

from vit_jax.errors import UserError
from vit_jax.prompts import ensemble

CLASSES = [("tench, Tinca tinca",), ("T-shirt", "jersey")]
TEMPLATES = ["a photo of a {}.", "{}"]


def test_clip_leaves_names_as_they_are():
  assert ensemble.prompts(CLASSES, TEMPLATES, style="clip", key="k") == [
    ["a photo of a tench, Tinca tinca.", "tench, Tinca tinca"],
    ["a photo of a T-shirt.", "T-shirt", "a photo of a jersey.", "jersey"],
  ]


def test_siglip_splits_aliases_and_canonicalises():
  assert ensemble.prompts(CLASSES, TEMPLATES, style="siglip", key="k") == [
    ["a photo of a tench", "tench", "a photo of a tinca tinca", "tinca tinca"],
    ["a photo of a tshirt", "tshirt", "a photo of a jersey", "jersey"],
  ]


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("A photo of a CAT.", "a photo of a cat"),
    ("lawn_mower", "lawn mower"),
    ("  a \t b\n", "a b"),
    ("jack-o'-lantern", "jackolantern"),
    ("Bär „x“", "bär „x“"),  # Only ASCII punctuation goes.
  ],
)
def test_canonical_texts_are_those_of_big_vision(text, expected):
  assert ensemble.canonicalize(text) == expected


def test_a_name_of_punctuation_alone_is_named():
  with pytest.raises(UserError, match="k: class 1 is called '!., -'"):
    ensemble.prompts([("a",), ("!?, -",)], ["{}"], style="siglip", key="k")


def test_empty_aliases_are_left_out():
  found = ensemble.prompts([("cat,, ",)], ["{}"], style="siglip", key="k")
  assert found == [["cat"]]


def test_a_name_with_braces_is_taken_literally():
  found = ensemble.prompts([("{0}",)], ["a {}."], style="clip", key="k")
  assert found == [["a {0}."]]
