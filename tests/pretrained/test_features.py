"""Tokens and pooled features of networks of any family."""

import jax
import numpy as np
import pytest

import vit_jax


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
  network, params = vit_jax.create_model(
    name, num_classes=None, image_size=side
  )
  found = jax.eval_shape(
    lambda params, images: vit_jax.features(network, params, images),
    params,
    jax.ShapeDtypeStruct((2, side, side, 3), np.uint8),
  )
  assert found["tokens"].shape[:2] == (2, (side // 32) ** 2)
  assert found["pooled"].shape == (2, found["tokens"].shape[2])
