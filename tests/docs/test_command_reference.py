"""The reference of the commands: each with its flags."""

import re

import pytest
from absl import flags

from vit_jax.__main__ import COMMANDS


@pytest.fixture
def page(hook) -> str:
  return hook("command_reference").page()


def test_every_command_is_there(page):
  assert tuple(re.findall(r"^## (\w+)$", page, re.MULTILINE)) == COMMANDS


def test_flags_come_with_default_values_and_meaning(page):
  assert (
    "| `--top_k`{ #vit_jax.predict.top_k }<br>integer | `5` |"
    " Number of classes shown for each image. |"
  ) in page
  assert (
    "`npz`, `safetensors`, `huggingface`, `timm`, `open_clip`, `stablehlo`,"
    " `workdir` |  | Form of DST"
  ) in page


def test_examples_are_code_that_can_be_copied(page):
  assert (
    "```bash\npython -m vit_jax.train --config=configs/quickstart.py"
    " --workdir=runs/first\n```"
  ) in page


def test_no_flag_is_left_behind(hook):
  before = set(flags.FLAGS)
  hook("command_reference").page()
  assert set(flags.FLAGS) == before
