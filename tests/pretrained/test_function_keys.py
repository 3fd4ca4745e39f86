"""Networks that compute something else from the same parameters."""

import re

import numpy as np
import pytest

import vit_jax
from tests import experiments
from tests.models import networks
from vit_jax import convert
from vit_jax.config import named_sections
from vit_jax.errors import UserError
from vit_jax.evaluate import evaluate
from vit_jax.models import build
from vit_jax.models.pvt import sizes as pvt_sizes
from vit_jax.models.swin import sizes as swin_sizes
from vit_jax.pretrained import function_keys, reading
from vit_jax.train import train

OTHERS = {
  "gelu": "exact",
  "layer_norm_eps": 1e-12,
  "normalize": "imagenet",
  "pool": "gap",
  "standardization": "torch",
  "norm_after_pool": True,
  "pos_embedding": "sincos2d",
}


def section(**keys):
  return named_sections.section("model", **keys)


SWIN_V2 = section(name="swin", variant="T", version=2, image_size=256)
PVT = section(name="pvt", variant="b0")


@pytest.mark.parametrize(("key", "value"), OTHERS.items())
def test_every_key_that_changes_the_function_is_compared(key, value):
  found = section(**{key: value})
  with pytest.raises(UserError) as error:
    function_keys.check("runs/x", found, section())
  usual = getattr(section(), key)
  line = f"config.model.{key} is {usual!r}, {value!r} there"
  assert line in str(error.value)
  function_keys.check("runs/x", found, section(), [f"model.{key}"])
  with pytest.raises(UserError, match=f"config.model.{key} is"):
    function_keys.check("runs/x", found, section(), ["model.dtype"])


@pytest.mark.parametrize(("key", "value"), OTHERS.items())
def test_a_key_that_the_file_does_not_tell_is_not_compared(key, value):
  function_keys.check("B_16.npz", section(), section(**{key: value}))


@pytest.mark.parametrize(
  ("key", "value"),
  [
    ("num_classes", 10),
    ("image_size", 384),
    ("dropout_rate", 0.1),
    ("dtype", "bfloat16"),
    ("attention", "flash"),
    ("scan_layers", True),
    ("variant", "S/16"),
  ],
)
def test_keys_of_training_images_and_shapes_may_differ(key, value):
  function_keys.check("runs/x", section(**{key: value}), section())


@pytest.mark.parametrize("key", ["expansions", "reductions"])
def test_numbers_of_a_pvt_that_shapes_tell_may_be_spelled_out(key):
  spelled_out = PVT.updated(**{key: getattr(pvt_sizes.pvt(PVT), key)})
  none = PVT.updated(**{key: None})
  assert spelled_out.model_fields_set >= {key} <= none.model_fields_set
  function_keys.check("runs/x", spelled_out, PVT)
  function_keys.check("runs/x", none, spelled_out)


def test_heads_are_compared_where_no_shape_tells_them():
  found = PVT.updated(num_heads=(2, 4, 10, 16))
  line = "config.model.num_heads is (1, 2, 5, 8), (2, 4, 10, 16) there"
  with pytest.raises(UserError, match=re.escape(line)):
    function_keys.check("runs/x", found, PVT)
  function_keys.check("runs/x", found, PVT, ["model.num_heads"])
  function_keys.check("runs/x", found, found)
  # The published ones may be spelled out.
  spelled_out, none = (
    PVT.updated(num_heads=heads) for heads in (pvt_sizes.HEADS, None)
  )
  function_keys.check("runs/x", spelled_out, PVT)
  function_keys.check("runs/x", none, spelled_out)
  # Shapes of a ViT tell them.
  function_keys.check("runs/x", section(num_heads=3), section())


def test_windows_of_version_2_are_compared_on_images_of_one_size():
  smaller, usual = (
    SWIN_V2.updated(window_size=window) for window in (4, swin_sizes.WINDOWS[2])
  )
  line = "config.model.window_size is 8, 4 there"
  with pytest.raises(UserError, match=re.escape(line)):
    function_keys.check("runs/x", smaller, SWIN_V2)
  function_keys.check("runs/x", smaller, SWIN_V2, ["model.window_size"])
  function_keys.check("runs/x", smaller, smaller)
  # What None stands for may be spelled out.
  function_keys.check("runs/x", usual, SWIN_V2)
  function_keys.check("runs/x", SWIN_V2.updated(window_size=None), usual)
  function_keys.check("runs/x", smaller, SWIN_V2.updated(image_size=384))
  # Tables tell those of version 1.
  older = [model.updated(version=1) for model in (smaller, usual)]
  function_keys.check("runs/x", *older)


def test_order_of_padding_is_compared_where_windows_leave_a_rest():
  found = section(name="swin", variant="T", pad_before_shift=False)
  usual = found.updated(pad_before_shift=True)
  function_keys.check("runs/x", found, usual)  # Windows of 7 divide 56.
  larger = usual.updated(image_size=256)
  line = "config.model.pad_before_shift is True, False there"
  with pytest.raises(UserError, match=line):
    function_keys.check("runs/x", found, larger)
  assert function_keys.taken_over(larger, found).pad_before_shift is False


def test_windows_of_a_tower_are_compared_too():
  """Its size follows from the variant of the whole."""

  def towers(window):
    keys = {"name": "swin", "version": 2, "depths": (2, 2), "num_heads": (2, 4)}
    image = keys | {"width": 8, "patch_size": 2, "window_size": window}
    return section(name="two_towers", variant="T", image=image)

  function_keys.check("runs/x", towers(8), towers(None))
  smaller = towers(4).updated(image_size=112)
  function_keys.check("runs/x", smaller, towers(8))  # As of a Swin alone.
  line = "config.model.image.window_size is 8, 4 there"
  with pytest.raises(UserError, match=line):
    function_keys.check("runs/x", towers(4), towers(8))


def test_what_a_tower_computes_is_taken_over():
  keys = {"pool": "map", "gelu": "exact"}
  text = {"pool": "eot", "causal": True}
  found = section(name="two_towers", normalize="clip", image=keys, text=text)
  usual = section(name="two_towers", num_classes=7, image={"dropout_rate": 0.5})
  with pytest.raises(UserError, match=r"image\.pool is .*\n.*image\.gelu is"):
    function_keys.check("runs/x", found, usual)
  model = function_keys.taken_over(usual, found)
  function_keys.check("runs/x", found, model)
  assert (model.image.pool, model.image.gelu) == ("map", "exact")
  assert (model.text.pool, model.text.causal) == ("eot", True)
  assert (model.num_classes, model.image.dropout_rate) == (7, 0.5)


def test_windows_that_are_assumed_are_not_compared(tmp_path):
  """A lone file's, without a config."""
  network = networks.tiny_swin(version=2, window_size=4)
  params = networks.random_params(network)
  vit_jax.save(str(tmp_path / "x"), network, params, form="timm")
  (tmp_path / "x/config.json").unlink()
  found = reading.read(str(tmp_path / "x"))
  assert "window_size=8" in " ".join(found.assumed)
  wanted = found.model.updated(window_size=4)
  function_keys.check("x", found.model, wanted)


def test_create_model_takes_over_windows_that_no_shape_tells(tmp_path):
  model = SWIN_V2.updated(window_size=4, image_size=64)
  network = build.create(model, num_classes=3)
  params = networks.random_params(network)
  vit_jax.save(str(tmp_path / "x.npz"), network, params)
  found, _ = vit_jax.create_model(
    "SwinV2-T", num_classes=3, image_size=64, pretrained=tmp_path / "x.npz"
  )
  assert found == network


@pytest.mark.parametrize("name", ["timm", "x.npz"])
def test_create_model_takes_over_heads_that_no_shape_tells(tmp_path, name):
  model = PVT.updated(num_heads=(2, 4, 10, 16), image_size=64)
  network = build.create(model, num_classes=3)
  params = networks.random_params(network)
  form = "timm" if name == "timm" else None
  vit_jax.save(str(tmp_path / name), network, params, form=form)
  found, same = vit_jax.create_model(
    "PVTv2-b0", num_classes=3, image_size=64, pretrained=tmp_path / name
  )
  assert found == network
  images = np.random.default_rng(0).integers(0, 256, (1, 64, 64, 3), np.uint8)
  wanted = networks.apply(network, params, images)
  np.testing.assert_array_equal(networks.apply(found, same, images), wanted)
  usual = network.clone(num_heads=pvt_sizes.HEADS)
  assert np.abs(networks.apply(usual, params, images) - wanted).max() > 0.01


def test_the_resizing_of_positions_matters_only_where_they_are_resized():
  found = section(pos_embedding_resize="bicubic", image_size=224)
  function_keys.check("runs/x", found, section(image_size=224))
  with pytest.raises(UserError, match="pos_embedding_resize"):
    function_keys.check("runs/x", found, section(image_size=384))


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
  """A run with the exact GELU, as workdir and as .npz."""
  place = tmp_path_factory.mktemp("exact")
  config = experiments.config(total_steps=2, model__gelu="exact")
  assert train(config, str(place / "run")) == 0
  convert.convert(str(place / "run"), str(place / "file.npz"))
  return place


@pytest.mark.parametrize("form", ["run", "file.npz"])
def test_evaluate_refuses_a_checkpoint_of_another_function(exact, form):
  message = "config.model.gelu is 'tanh', 'exact' there"
  with pytest.raises(UserError, match=re.escape(message)):
    evaluate(experiments.config(), str(exact / form))


@pytest.mark.parametrize("form", ["run", "file.npz"])
def test_train_refuses_to_start_from_it_unless_the_key_is_named(
  exact, form, tmp_path
):
  config = experiments.config(total_steps=2, init_from=str(exact / form))
  with pytest.raises(UserError, match="config.model.gelu is 'tanh'"):
    train(config, str(tmp_path / "refused"))
  allowed = config.model_copy(update={"allow_change": "model.gelu"})
  assert train(allowed, str(tmp_path / "allowed")) == 0
