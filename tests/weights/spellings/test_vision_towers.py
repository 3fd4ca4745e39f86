"""Image towers of Hugging Face's CLIP and SigLIP, saved alone."""

import json
import shutil

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import vit_jax
from tests.weights.published import (
  GOLDEN,
  change_tensors,
  expected,
  relative_error,
)
from vit_jax.errors import UserError
from vit_jax.weights import files, tensors

KINDS = ("clip", "siglip")
PROJECTION = "visual_projection.weight"


def alone(directory, kind, *, prefix, keep=("vision_model.",)):
  """Writes the image tower of a fixture as transformers saves it alone."""
  source = GOLDEN / f"huggingface_{kind}"
  directory.mkdir()
  for file in source.glob("preprocessor_config.json"):
    shutil.copy(file, directory)
  config = json.loads((source / "config.json").read_text())["vision_config"]
  (directory / "config.json").write_text(json.dumps(config))
  found = {
    name.replace("vision_model.", prefix): x
    for name, x in load_file(source / tensors.FILE).items()
    if name.startswith(keep)
  }
  save_file(found, directory / tensors.FILE)
  return str(directory)


def features(path, images):
  network, params = vit_jax.load(path)
  return np.asarray(jax.jit(network.apply)({"params": params}, images))


def unit(rows):
  return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@pytest.mark.parametrize("prefix", ["", "vision_model."])
@pytest.mark.parametrize("kind", KINDS)
def test_features_are_those_of_the_reference(tmp_path, kind, prefix):
  path = alone(tmp_path / kind, kind, prefix=prefix)
  wanted = expected(f"huggingface_{kind}")
  found = features(path, wanted["images"])
  if kind == "clip":
    source = GOLDEN / "huggingface_clip" / tensors.FILE
    found = found @ load_file(source)[PROJECTION].astype(np.float32).T
  assert relative_error(unit(found), wanted["image_embedding"]) < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_positions_are_resized_as_in_the_network_of_both_towers(tmp_path, kind):
  tower = files.read(alone(tmp_path / kind, kind, prefix="")).model
  both = files.read(str(GOLDEN / f"huggingface_{kind}")).model
  assert tower.pos_embedding_resize == both.pos_embedding_resize
  assert tower.image_size == both.image_size


@pytest.mark.parametrize("key", ["intermediate_size", "num_hidden_layers"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_config_of_another_tower_is_refused(tmp_path, kind, key):
  path = alone(tmp_path / kind, kind, prefix="")
  file = tmp_path / kind / "config.json"
  file.write_text(json.dumps(json.loads(file.read_text()) | {key: 1000}))
  with pytest.raises(UserError, match=f"{key} = 1000 is not"):
    files.read(path)


@pytest.mark.parametrize("act", ["gelu_new", "gelu_pytorch_tanh"])
def test_names_of_one_activation_are_alike(tmp_path, act):
  path = alone(tmp_path / "a", "siglip", prefix="")
  file = tmp_path / "a" / "config.json"
  file.write_text(
    json.dumps(json.loads(file.read_text()) | dict(hidden_act=act))
  )
  assert files.read(path).model.gelu == "tanh"


def test_the_projection_to_the_space_of_texts_is_left_out_and_said(tmp_path):
  keep = ("vision_model.", PROJECTION)
  both = alone(tmp_path / "a", "clip", prefix="vision_model.", keep=keep)
  tower = alone(tmp_path / "b", "clip", prefix="")
  weights = files.read(both)
  assert any(PROJECTION in note for note in weights.assumed)
  jax.tree.map(
    np.testing.assert_array_equal, weights.params, files.read(tower).params
  )


def test_a_tower_of_siglip_without_its_head_is_refused(tmp_path):
  keep = ("vision_model.emb", "vision_model.enc", "vision_model.post")
  path = alone(tmp_path / "a", "siglip", prefix="", keep=keep)
  with pytest.raises(UserError, match="siglip_vision_model.*without its head"):
    files.read(path)


def test_the_head_under_a_classifier_of_siglip_is_left_out_and_said():
  weights = files.read(str(GOLDEN / "huggingface_siglip_classifier"))
  assert weights.model.num_classes == 5
  assert any("head of the image tower" in note for note in weights.assumed)


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_a_classifier_of_a_tower_alone_is_refused(tmp_path, kind):
  # transformers has no such network: its pooling is not known.
  path = alone(tmp_path / "a", kind, prefix="vision_model.")
  classifier = {"classifier.weight": np.zeros((5, 24), np.float32)}
  change_tensors(tmp_path / "a", lambda tensors: tensors | classifier)
  with pytest.raises(UserError, match="classifier.weight .*not there"):
    files.read(path)


def test_a_classifier_of_clip_is_refused_with_what_to_save(tmp_path):
  source = GOLDEN / "huggingface_clip"
  found = {
    name: x
    for name, x in load_file(source / tensors.FILE).items()
    if name.startswith("vision_model.")
  }
  found["classifier.weight"] = np.zeros((5, 24), np.float32)
  save_file(found, tmp_path / tensors.FILE)
  shutil.copy(source / "config.json", tmp_path)
  with pytest.raises(UserError, match="mean of patches.*CLIPVisionModel"):
    files.read(str(tmp_path))


@pytest.mark.parametrize("kind", ["siglip2", "siglip2_vision_model"])
def test_siglip_of_variable_resolution_is_refused_with_another(tmp_path, kind):
  path = alone(tmp_path / "a", "siglip", prefix="")
  (tmp_path / "a" / "config.json").write_text(json.dumps({"model_type": kind}))
  with pytest.raises(UserError, match=r"NaFlex.*siglip2-base-patch16-224"):
    files.read(path)
