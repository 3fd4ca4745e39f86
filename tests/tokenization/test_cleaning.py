"""Rules of cleaning, against the libraries that state them."""

import html
import string

import ftfy
import hypothesis
from hypothesis import strategies

from vit_jax.tokenization import cleaning
from vit_jax.tokenization.cleaning import RULES

TEXTS = strategies.one_of(
  strategies.text(), strategies.text(string.printable + "\x00\x1b\x7f&;éÃ¶")
)


@hypothesis.given(TEXTS)
def test_openai_mends_every_text_by_ftfy_and_unescapes_twice(text):
  fixed = html.unescape(html.unescape(ftfy.fix_text(text))).strip()
  assert RULES["whitespace"](text) == " ".join(fixed.split())
  assert RULES["openai"](text) == " ".join(fixed.split()).lower()


def test_canonical_text_has_no_punctuation():
  text = " A &quot;red&quot;_car,  (100%)!\n"
  assert RULES["canonicalize"](text) == "a red car 100"


def test_siglip_joins_words_at_underscores_and_keeps_entities():
  assert RULES["siglip"]("A_b &amp; C\u00a0d.") == "ab amp c d"


def test_big_vision_lowers_ascii_only():
  assert RULES["big_vision"]("A \u00c9clair!  ") == "a \u00c9clair!  "


def test_every_rule_is_described():
  for name in RULES:
    assert f"'{name}'" in cleaning.__doc__
