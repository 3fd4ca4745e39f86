"""Hugging Face directories give the logits that transformers gives."""

import json
import shutil

import pytest

from tests.weights.published import (
  GOLDEN,
  expected,
  outputs,
  relative_error,
)
from vit_jax.weights import huggingface

FIXTURES = ["huggingface_vit"]


@pytest.fixture
def directory(tmp_path):
  """A copy of the ViT's directory, to be spoilt."""
  return shutil.copytree(GOLDEN / "huggingface_vit", tmp_path / "vit")


def change(directory, name="config.json", **values):
  path = directory / name
  path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize("name", FIXTURES)
def test_outputs_are_those_of_transformers(name):
  weights = huggingface.read(GOLDEN / name)
  wanted = expected(name)
  found = outputs(weights, wanted["images"])
  assert relative_error(found, wanted["outputs"]) < 1e-5
