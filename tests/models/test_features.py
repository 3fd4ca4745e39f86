"""Features by name."""

import jax
import numpy as np
import pytest

from tests.models.networks import (
  random_params,
  stack_layers,
  tiny,
  tiny_convnext,
  tiny_hybrid,
)
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.models.features import (
  feature_maps,
  feature_names,
  features,
  last_layers,
)


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


def _layer_norm(x, params, epsilon=1e-6):
  centred = x - x.mean(-1, keepdims=True)
  deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
  ones = (1,) * (x.ndim - 1)
  scale, bias = (params[key].reshape(*ones, -1) for key in ("scale", "bias"))
  return centred / deviation * scale + bias


@pytest.mark.parametrize(
  "keys, prefix",
  [({}, 1), ({"distillation": "average"}, 2), ({"scan_layers": True}, 1)],
)
def test_last_layers_are_normalised_class_tokens(keys, prefix, images):
  model = tiny(**keys)
  loop = tiny(**{**keys, "scan_layers": False})
  params = random_params(loop)
  ours = stack_layers(params) if model.scan_layers else params
  tokens, mean = jax.jit(lambda p, x: last_layers(model, p, x, 2))(ours, images)
  names = ["layer_01/tokens", "layer_02/tokens", "encoded"]
  found = features(loop, params, images, names)
  norm = params["Transformer"]["encoder_norm"]
  for index, name in enumerate(names[:2]):
    wanted = _layer_norm(np.asarray(found[name][:, 0]), norm)
    np.testing.assert_allclose(tokens[:, index], wanted, rtol=1e-4, atol=1e-5)
  encoded = np.asarray(found["encoded"])
  np.testing.assert_allclose(tokens[:, 1], encoded[:, 0], rtol=1e-4, atol=1e-5)
  wanted = encoded[:, prefix:].mean(1)
  np.testing.assert_allclose(mean, wanted, rtol=1e-4, atol=1e-5)


def test_a_norm_after_the_pool_normalises_the_mean(images):
  model = tiny(pool="gap", cls_token=True, norm_after_pool=True)
  params = random_params(model)
  tokens, mean = last_layers(model, params, images, 1)
  found = features(model, params, images, ["pre_logits", "encoded"])
  np.testing.assert_allclose(mean, found["pre_logits"], rtol=1e-4, atol=1e-5)
  wanted = _layer_norm(np.asarray(found["encoded"][:, 0]), params["fc_norm"])
  np.testing.assert_allclose(tokens[:, 0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
  "model, count, message",
  [
    (tiny(pool="gap"), 1, "no class token in its layers"),
    (tiny_convnext(), 1, "no class token in its layers"),
    (tiny(), 4, "no more than 3 layers, not 4"),
  ],
)
def test_networks_without_such_layers_say_so(model, count, message):
  with pytest.raises(UserError, match=message):
    build.check_last_layers(build.config_of(model), count)


def test_maps_of_a_hybrid_have_the_places_of_its_stem():
  model = tiny_hybrid(None)
  params = random_params(model)
  image = np.random.default_rng(0).integers(0, 256, (1, 33, 20, 3), np.uint8)

  def found(params, image):
    stem = features(model, params, image, ["stem"])["stem"]
    return stem, feature_maps(model, params, image)[0]

  stem, maps = jax.eval_shape(found, params, image)
  # A stride of 8, rounded up.
  assert stem.shape[:3] == maps.shape[:3] == (1, 5, 3)
