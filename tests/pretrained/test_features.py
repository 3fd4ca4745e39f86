"""Tokens and pooled features of networks of any family."""

import jax
import numpy as np
import pytest

import vit_jax
from tests.weights import published
from vit_jax.errors import UserError


@pytest.fixture
def images():
  return np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), np.uint8)


def test_a_transformer_gives_its_tokens_and_the_one_that_a_head_sees(images):
  model, params = vit_jax.create_model(
    "ViT-Ti/16", num_classes=None, image_size=32
  )
  found = jax.jit(vit_jax.features, static_argnums=0)(model, params, images)
  assert found["tokens"].shape == (2, 5, 192)
  np.testing.assert_array_equal(found["pooled"], found["tokens"][:, 0])
  np.testing.assert_allclose(
    found["pooled"], model.apply({"params": params}, images), atol=1e-5
  )


def test_the_head_of_a_classifier_is_left_out(images):
  model, params = vit_jax.create_model(
    "ViT-Ti/16", num_classes=3, image_size=32
  )
  params["head"]["kernel"] = params["head"]["kernel"] + 1.0
  found = vit_jax.features(model, params, images)
  logits = found["pooled"] @ params["head"]["kernel"]
  np.testing.assert_allclose(
    logits, model.apply({"params": params}, images), rtol=1e-4, atol=1e-4
  )


@pytest.mark.parametrize("name", ["ConvNeXt-atto", "PVTv2-b0", "Swin-T"])
def test_places_of_a_map_are_tokens(name, images):
  side = 224 if name == "Swin-T" else 32

  def found_by_random_weights():
    network, params = vit_jax.create_model(name, image_size=side)
    images = np.zeros((2, side, side, 3), np.uint8)
    return vit_jax.features(network, params, images)

  found = jax.eval_shape(found_by_random_weights)
  assert found["tokens"].shape[:2] == (2, (side // 32) ** 2)
  assert found["pooled"].shape == (2, found["tokens"].shape[2])


@pytest.fixture(scope="module")
def registers():
  """A small ViT with a class token and two registers, and its parameters."""
  return vit_jax.load("tests/golden/timm_dinov2_registers")


@pytest.fixture
def photos(registers):
  side = registers[0].image_size
  rng = np.random.default_rng(0)
  return rng.integers(0, 256, (2, side, side, 3), np.uint8)


def test_features_are_given_by_name(registers, photos):
  names = vit_jax.feature_names(registers[0])
  assert {"layer_00/tokens", "layer_00/attention", "encoded"} <= {*names}
  found = vit_jax.features(*registers, photos, names[-2:])
  assert list(found) == names[-2:]
  with pytest.raises(UserError, match="Did you mean 'layer_00/tokens'"):
    vit_jax.features(*registers, photos, ["layer_0/tokens"])


def test_maps_of_a_transformer_are_its_patches_after_each_layer(
  registers, photos
):
  model, params = registers
  maps = vit_jax.feature_maps(model, params, photos)
  assert len(maps) == model.depth
  tokens = vit_jax.features(model, params, photos, ["layer_00/tokens"])
  patches = tokens["layer_00/tokens"][:, model.num_prefix :]
  side = maps[0].shape[1]
  assert maps[0].shape == (2, side, side, model.width)
  # Row by row, as the patches come.
  np.testing.assert_array_equal(
    maps[0].reshape(2, side**2, model.width), patches
  )


def test_the_last_map_normalised_is_what_the_encoder_returns(registers, photos):
  model, params = registers
  (last,) = vit_jax.feature_maps(model, params, photos, [-1], norm=True)
  tokens = vit_jax.features(model, params, photos)["tokens"]
  np.testing.assert_allclose(
    last.reshape(2, -1, model.width),
    tokens[:, model.num_prefix :],
    rtol=1e-5,
    atol=1e-5,
  )


@pytest.mark.parametrize(
  ("name", "image_size"),
  [("ConvNeXt-atto", 32), ("PVTv2-b0", 64), ("Swin-T", 224), ("R50x1", 64)],
)
def test_maps_of_a_hierarchical_network_halve_from_stage_to_stage(
  name, image_size
):
  def maps_of_random_weights():
    network, params = vit_jax.create_model(name, image_size=image_size)
    images = np.zeros((2, image_size, image_size, 3), np.uint8)
    return vit_jax.feature_maps(network, params, images)

  maps = jax.eval_shape(maps_of_random_weights)
  sides = [image_size // stride for stride in (4, 8, 16, 32)]
  assert [x.shape[:3] for x in maps] == [(2, side, side) for side in sides]


def test_the_last_map_of_a_convnext_is_what_is_pooled():
  network, params = vit_jax.create_model("ConvNeXt-atto", image_size=64)
  images = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), np.uint8)
  (last,) = vit_jax.feature_maps(network, params, images, [-1])
  mean = np.asarray(last, np.float64).mean(axis=(1, 2))
  centred = mean - mean.mean(axis=1, keepdims=True)
  # A new norm has the scale 1 and the bias 0.
  deviation = np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + 1e-6)
  pooled = vit_jax.features(network, params, images)["pooled"]
  np.testing.assert_allclose(pooled, centred / deviation, rtol=1e-3, atol=1e-4)


def maps_of_timm():
  """'timm_swin/images_64' -> its maps, in the order of the stages."""
  with np.load(published.GOLDEN / "timm_maps.npz") as file:
    found = {}
    for name in file:
      found.setdefault(name.rpartition("/")[0], []).append(file[name])
  return found


MAPS_OF_TIMM = maps_of_timm()


@pytest.mark.parametrize("case", MAPS_OF_TIMM)
def test_maps_are_those_of_timm_with_channels_last(case):
  name, images, *norm = case.split("/")
  images = published.expected(name)[images][:1]
  network, params = vit_jax.load(
    published.folder(name), image_size=images.shape[1]
  )
  maps = jax.jit(
    lambda params, images: vit_jax.feature_maps(
      network, params, images, norm=bool(norm)
    )
  )(params, images)
  assert len(maps) == len(MAPS_OF_TIMM[case])
  # Cosines that SwinV2 multiplies by up to 100 lose as much in float32.
  allowed = 3e-5 if name == "timm_swinv2" else 1e-5
  for found, wanted in zip(maps, MAPS_OF_TIMM[case], strict=True):
    kept = np.asarray(found)[..., :: published.KEPT_CHANNELS]
    assert published.relative_error(kept, wanted) < allowed


def test_layers_and_norms_that_are_not_there_are_sentences(registers, photos):
  with pytest.raises(UserError, match=r"layers = \[7\]: 7 is none of"):
    vit_jax.feature_maps(*registers, photos, [7])
  network, params = vit_jax.create_model("ConvNeXt-atto", image_size=32)
  images = np.zeros((1, 32, 32, 3), np.uint8)
  with pytest.raises(UserError, match="a ConvNeXt has no norm"):
    vit_jax.feature_maps(network, params, images, norm=True)
