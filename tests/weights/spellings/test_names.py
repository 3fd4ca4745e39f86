"""Tables of names, and spellings that others register."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.weights.published import GOLDEN, expected, outputs, relative_error
from vit_jax.errors import UserError
from vit_jax.weights import files
from vit_jax.weights.spellings import names
from vit_jax.weights.spellings.registry import HUGGINGFACE
from vit_jax.weights.spellings.vit.huggingface import VIT

NAMES = names.Names(
  rows=(
    ("cls", "token"),
    ("block{1}/unit{01}/query", "stages.{0}.{0}.q"),
    ("norm", "ln"),
  ),
  required=("token",),
)


@pytest.mark.parametrize(
  ("ours", "theirs", "rank"),
  [
    ("cls", "token", 3),
    ("block2/unit11/query/kernel", "stages.1.10.q.weight", 2),
    ("block1/unit01/query/bias", "stages.0.0.q.bias", 1),
    ("norm/scale", "ln.weight", 1),
    ("other.thing", "other.thing", 1),
  ],
)
def test_a_row_serves_both_ways(ours, theirs, rank):
  assert NAMES.ours(theirs, rank) == ours
  assert NAMES.theirs(ours) == theirs


def test_heads_are_split_and_joined():
  tree = {"block1": {"unit01": {"query": {"kernel": np.ones((6, 2, 3))}}}}
  tree["block1"]["unit01"]["query"]["kernel"][0] = 2
  written = names.write(tree, NAMES)
  tensor = written["stages.0.0.q.weight"]
  assert tensor.shape == (6, 6) and (tensor[:, 0] == 2).all()


def test_a_file_of_another_kind_is_named():
  with pytest.raises(UserError, match="x has no tensor 'token'.*tensors: a"):
    names.read("x", {"a": np.ones(1, np.float32)}, NAMES, {})


def test_a_spelling_from_outside_is_read(tmp_path, monkeypatch):
  monkeypatch.setattr(HUGGINGFACE, "_entries", dict(HUGGINGFACE._entries))
  rows = [(ours, f"my.{theirs}") for ours, theirs in VIT.names.rows]
  mine = names.Names(rows=tuple(rows), required=("my.embeddings.cls_token",))
  record = dataclasses.replace(VIT, prefix="", names=mine, file_name=str)
  HUGGINGFACE.register("mine", record)
  path = tmp_path / "mine"
  shutil.copytree(GOLDEN / "huggingface_vit", path)
  config = json.loads((path / "config.json").read_text())
  (path / "config.json").write_text(json.dumps(config | {"model_type": "mine"}))
  tensors = load_file(path / "model.safetensors")
  renamed = {f"my.{n.removeprefix('vit.')}": x for n, x in tensors.items()}
  save_file(renamed, path / "model.safetensors")
  wanted = expected("huggingface_vit")
  found = outputs(files.read(str(path)), wanted["images"])
  assert relative_error(found, wanted["outputs"]) < 1e-5
