"""Features by name."""

import jax
import numpy as np
import pytest

from tests.models.networks import random_params, stack_layers, tiny
from vit_jax.errors import UserError
from vit_jax.models.features import feature_names, features


def test_every_name_is_found_with_its_shape(images):
  model = tiny(representation_size=6)
  names = feature_names(model)
  found = features(model, random_params(model), images, names)
  assert list(found) == names
  shapes = {name: value.shape for name, value in found.items()}
  for i in range(3):
    assert shapes.pop(f"layer_{i:02d}/tokens") == (4, 5, 16)
    assert shapes.pop(f"layer_{i:02d}/attention") == (4, 2, 5, 5)
  assert shapes == {
    "embedded": (4, 5, 16),
    "encoded": (4, 5, 16),
    "pre_logits": (4, 6),
    "logits": (4, 5),
  }


def test_attention_maps_are_distributions(images):
  model = tiny()
  name = "layer_01/attention"
  maps = features(model, random_params(model), images, [name])[name]
  assert np.min(maps) >= 0
  np.testing.assert_allclose(np.sum(maps, axis=-1), 1, rtol=1e-5)


def test_a_query_that_pools_has_maps_of_its_own(images):
  model = tiny(pool="map")
  names = feature_names(model)
  found = features(model, random_params(model), images, names)
  assert list(found) == names
  maps = found["pool_attention"]
  assert maps.shape == (4, 2, 1, 4)
  np.testing.assert_allclose(np.sum(maps, axis=-1), 1, rtol=1e-5)
  assert "pool_attention" not in feature_names(tiny(pool="gap"))


@pytest.mark.parametrize("remat", ["none", "full"])
def test_scan_gives_the_loops_features(remat, images):
  loop, scan = tiny(), tiny(scan_layers=True, remat=remat)
  params = random_params(loop)
  names = feature_names(loop)
  ours = features(scan, stack_layers(params), images, names)
  for name, value in features(loop, params, images, names).items():
    np.testing.assert_allclose(ours[name], value, rtol=1e-4, atol=1e-5)


def test_logits_are_those_of_a_call_and_jit_changes_nothing(images):
  model = tiny()
  params = random_params(model)
  found = jax.jit(lambda p, x: features(model, p, x, ["logits"]))(
    params, images
  )
  np.testing.assert_allclose(
    found["logits"],
    model.apply({"params": params}, images),
    rtol=1e-5,
    atol=1e-6,
  )


@pytest.mark.parametrize(
  "name, words",
  [
    ("prelogits", ["'prelogits'", "'pre_logits'"]),
    ("layer_03/tokens", ["'layer_03/tokens'", "'layer_02/tokens'"]),
    ("layer_1/tokens", ["'layer_1/tokens'", "'layer_01/tokens'"]),
  ],
)
def test_unknown_name_gets_the_nearest(name, words, images):
  with pytest.raises(UserError) as error:
    features(tiny(), {}, images, [name])
  for word in words:
    assert word in str(error.value)


def test_a_model_without_head_has_no_logits(images):
  with pytest.raises(UserError, match="no head"):
    features(tiny(num_classes=None), {}, images, ["logits"])
