import numpy as np
import pytest

import vit_jax


def tokenizer(length):
  return vit_jax.load_tokenizer("bytes", length=length)


def test_tokens_are_bytes_then_the_end_then_padding():
  tokens = tokenizer(8)(["ab", "é", ""])
  assert tokens.dtype == np.int32
  assert tokens.tolist() == [
    [ord("a") + 1, ord("b") + 1, 257, 0, 0, 0, 0, 0],
    [0xC3 + 1, 0xA9 + 1, 257, 0, 0, 0, 0, 0],
    [257, 0, 0, 0, 0, 0, 0, 0],
  ]


@pytest.mark.parametrize("text", ["abc", "abcd", "abcdefgh"])
def test_a_long_text_is_cut_before_the_end(text):
  (tokens,) = tokenizer(4)([text])
  assert tokens.tolist() == [98, 99, 100, 257]


def test_all_tokens_are_in_the_vocabulary():
  made = tokenizer(2100)(["".join(map(chr, range(1024)))])
  assert made.max() < tokenizer(4).vocab_size
