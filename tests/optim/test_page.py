"""docs/optimizer.md: every key has an example, and the examples build."""

import ast
import pathlib
import re
import shlex
from typing import Any

import pytest

import vit_jax
from vit_jax.config import defaults, resolve
from vit_jax.optim import build

REPO = pathlib.Path(__file__).parents[2]
PAGE = (REPO / "docs/optimizer.md").read_text(encoding="utf-8")
EXAMPLES = dict(
  re.findall(r"^\| (`.*?) \|.*\| `(--config.*)` \|$", PAGE, re.MULTILINE)
)


def value_of(text: str) -> Any:
  """The value that a flag gives a key."""
  try:
    return ast.literal_eval(text)
  except (SyntaxError, ValueError):
    return text


@pytest.fixture(scope="module")
def params():
  return vit_jax.create_model("mu/16", num_classes=10, image_size=32)[1]


@pytest.mark.parametrize("keys", EXAMPLES)
def test_an_example_sets_its_keys_and_builds(keys, params):
  config = defaults.default_config()
  config.total_steps = 100
  named = set()
  for word in shlex.split(EXAMPLES[keys]):
    key, _, text = word.removeprefix("--config.").partition("=")
    config.update_from_flattened_dict({key: value_of(text)})
    named.add(key)
  assert set(re.findall(r"`([\w.]+)`", keys)) <= named
  build.build(
    resolve.resolve(config),
    params=params,
    total_steps=100,
    batch_size=8,
    num_examples=80,
  )


def test_every_row_has_an_example():
  rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
  assert len(rows) == len(EXAMPLES) > 15
