"""Models ready to use, from files and by name."""

import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest
from etils import epath

import vit_jax
from tests.checkpoint import runs
from tests.models import networks
from tests.weights import published_npz
from tests.weights.published import GOLDEN
from vit_jax import convert
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.weights import flat


@pytest.fixture
def file(tmp_path):
  """A ViT with a pre-training head for 5 classes, 8 pixels."""
  _, params = published_npz.vit(representation_size=12)
  return str(published_npz.saved(tmp_path / "x.npz", params))


def test_seeds_give_parameters_of_their_own(file):
  heads = [
    vit_jax.create_model("Ti/4", num_classes=3, image_size=8, seed=seed)[1]
    for seed in (0, 0, 1)
  ]
  first, again, other = (tree["embedding"]["kernel"] for tree in heads)
  np.testing.assert_array_equal(first, again)
  assert not np.allclose(first, other)


@pytest.mark.parametrize(
  ("name", "image_size", "golden"),
  [
    ("vit_token", None, "vit_token"),
    ("vit_token", 96, "vit_token_96px"),
    ("hybrid", None, "hybrid"),
  ],
)
def test_golden_logits(shared, name, image_size, golden):
  path = str(shared / f"golden/{name}.npz")
  model, params = vit_jax.load(path, image_size=image_size)
  io = np.load(shared / f"golden/{golden}.io.npz")
  result = jax.jit(model.apply)({"params": params}, io["x"])
  assert np.abs(result - io["y"]).max() <= 1e-5 * np.abs(io["y"]).max()


def test_a_file_is_loaded_as_it_is(file):
  model, params = vit_jax.load(file)
  wanted, given = published_npz.vit(representation_size=12)
  assert model == wanted
  jax.tree.map(np.testing.assert_array_equal, flat.flatten(params), given)


def test_a_tilde_is_the_home_directory(file, monkeypatch):
  monkeypatch.setenv("HOME", str(pathlib.Path(file).parent))
  params = vit_jax.load(file)[1]
  found = vit_jax.load("~/x.npz")[1]
  assert jax.tree.all(jax.tree.map(np.array_equal, found, params))


def test_the_files_own_number_of_classes_keeps_the_head(file):
  model, params = vit_jax.load(file, num_classes=5)
  assert model.representation_size == 12
  assert np.asarray(params["head"]["kernel"]).any()


def test_another_number_of_classes_has_a_linear_head_of_zeros(file, caplog):
  model, params = vit_jax.load(file, num_classes=3)
  assert model.representation_size is None and model.num_classes == 3
  assert "pre_logits" not in params
  assert params["head"]["kernel"].shape == (16, 3)
  assert not np.asarray(params["head"]["kernel"]).any()
  assert "pre-training head is dropped" in caplog.text
  assert "A new head of 3 classes is initialised" in caplog.text


@pytest.mark.parametrize("start", ["deit", "dinov2"])
def test_a_new_head_is_zeros_however_the_network_was_started(tmp_path, start):
  network = networks.tiny(
    weight_init=start,
    distillation="average",
    pool="cls",
    head_bias_init=-10.0,
  )
  params = networks.random_params(network)
  runs.write(tmp_path / "run", build.config_of(network), {3: params})
  _, params = vit_jax.load(str(tmp_path / "run"), num_classes=7)
  for name in ("head", "head_dist"):
    assert params[name]["kernel"].shape[-1] == 7
    assert not any(np.any(leaf) for leaf in params[name].values())


def test_another_image_size_is_said(file, caplog):
  model, _ = vit_jax.load(file, image_size=16)
  assert model.image_size == 16
  assert "resized from 2 x 2 to 4 x 4 patches (bilinear)" in caplog.text


def test_an_image_size_that_leaves_pixels_over_must_be_allowed(file):
  with pytest.raises(UserError, match="not a multiple of the patch size 4"):
    vit_jax.load(file, image_size=14)
  model, _ = vit_jax.load(file, image_size=14, drop_remainder=True)
  assert model.image_size == 14


def test_a_workdir_is_loaded_for_any_device(tmp_path):
  network = networks.tiny(scan_layers=True)
  params = networks.random_params(network)
  trained = network.clone(attention="cudnn", dtype="bfloat16", remat="full")
  runs.write(tmp_path / "run", build.config_of(trained), {3: params})
  model, loaded = vit_jax.load(str(tmp_path / "run"))
  # Without what only some devices or training have.
  assert model == network.clone(dtype="bfloat16")
  jax.tree.map(np.testing.assert_array_equal, loaded, params)


def test_models_by_name_are_new_or_from_a_file(tmp_path, caplog):
  model, params = vit_jax.create_model(
    "ViT-mu/16", num_classes=10, image_size=32
  )
  assert params["head"]["kernel"].shape == (32, 10)
  path = str(tmp_path / "x.npz")
  vit_jax.save(path, model, params)
  _, again = vit_jax.create_model(
    "ViT-mu/16", num_classes=3, image_size=48, pretrained=path
  )
  assert again["head"]["kernel"].shape == (32, 3)
  assert "2 x 2 to 3 x 3" in caplog.text
  np.testing.assert_array_equal(
    again["embedding"]["kernel"], params["embedding"]["kernel"]
  )


def test_a_model_by_name_computes_what_its_file_was_trained_for(tmp_path):
  model, params = vit_jax.create_model("ViT-mu/16", image_size=32)
  other = model.clone(gelu="exact", normalize="imagenet", layer_norm_eps=1e-4)
  path = str(tmp_path / "x.npz")
  vit_jax.save(path, other, params)
  again, _ = vit_jax.create_model("ViT-mu/16", image_size=32, pretrained=path)
  for key in ("gelu", "normalize", "layer_norm_eps"):
    assert getattr(again, key) == getattr(other, key)


def test_a_file_of_another_model_than_the_name_says_is_a_table(file):
  with pytest.raises(UserError, match="set config.model.width=16"):
    vit_jax.create_model("ViT-mu/16", pretrained=file)


def test_a_head_has_no_negative_number_of_classes(file):
  for call in (
    lambda: vit_jax.create_model("Ti/16", num_classes=-3),
    lambda: vit_jax.load(file, num_classes=-3),
  ):
    with pytest.raises(UserError, match="num_classes = -3 is not a number"):
      call()


@pytest.mark.parametrize("name", ["huggingface_clip", "huggingface_siglip"])
def test_two_towers_have_no_head_but_the_image_tower_alone_can(tmp_path, name):
  path = str(GOLDEN / name)
  with pytest.raises(UserError, match="num_classes = 3 asks for a head.*tower"):
    vit_jax.load(path, num_classes=3)
  with pytest.raises(UserError, match="num_classes = 3 asks for a head"):
    convert.convert(path, str(tmp_path / "x.npz"), num_classes=3)
  model, params = vit_jax.load(path, num_classes=0)
  # As the message says.
  tower = str(tmp_path / "tower.npz")
  vit_jax.save(tower, model.image, params["image"])
  model, alone = vit_jax.load(tower, num_classes=3)
  assert alone["head"]["kernel"].shape[-1] == model.num_classes == 3
  for part, values in params["image"].items():
    jax.tree.map(np.testing.assert_array_equal, alone[part], values)


def test_an_unknown_name_suggests_the_nearest():
  with pytest.raises(UserError, match="ViT-B/16"):
    vit_jax.create_model("ViT-B-16-224")


def test_timms_names_and_habits_are_understood():
  model, params = vit_jax.create_model(
    "vit_tiny_patch16_384", num_classes=0, pretrained=False
  )
  ours, _ = vit_jax.create_model("ViT-Ti/16", num_classes=None, image_size=384)
  assert model == ours
  assert "head" not in params


def test_zero_classes_of_a_file_are_no_head(file):
  _, params = vit_jax.load(pathlib.Path(file), num_classes=0)
  assert "head" not in params


def test_weights_are_given_by_their_path():
  with pytest.raises(UserError, match="give the path of a checkpoint"):
    vit_jax.create_model("ViT-mu/16", pretrained=True)


def test_models_are_listed_by_pattern():
  assert {"ViT-B/16", "R50+B/16"} <= set(vit_jax.list_models("*B*16*"))


def test_importing_the_package_waits_for_no_library():
  code = "import sys, vit_jax; assert not {'jax', 'flax', 'numpy'} & set(%s)"
  subprocess.run(
    [sys.executable, "-c", code % "sys.modules"],
    check=True,
    cwd=epath.Path(__file__).parents[2],
  )


def test_an_attribute_that_is_not_there_is_the_usual_error():
  with pytest.raises(AttributeError, match="no attribute 'lod'"):
    vit_jax.lod  # noqa: B018
  assert {"load", "save", "create_model", "list_models"} <= set(dir(vit_jax))
