"""What is seen of an image, against the features themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.inspection.networks import network_of
from tests.models.networks import (
  find,
  random_params,
  stack_layers,
  tiny,
  tiny_hybrid,
  tiny_resnet,
  unflatten,
)
from vit_jax import registry
from vit_jax.config import named_sections
from vit_jax.inspection import observation
from vit_jax.models import build

IMAGE = np.random.default_rng(5).integers(0, 256, (8, 8, 3), np.uint8)


def look(model, params=None):
  network = network_of(model, params)
  image = np.resize(IMAGE, (model.image_size, model.image_size, 3))
  seen = jax.device_get(observation.observer(network)(network.params, image))
  names = ["encoded", *observation.layer_names(network)]
  if model.pool == "map":
    names.append("pool_attention")
  return seen, find(network.module, network.params, image[None], names)


def layers(found):
  return [found[f"layer_{i:02d}/attention"][0] for i in range(3)]


def rolled_by_hand(found):
  product = 1
  for maps in layers(found):
    mixed = np.mean(maps, axis=0) + np.eye(maps.shape[-1])
    product = mixed / 2 @ product if np.ndim(product) else mixed / 2
  return product


def test_a_cls_network_is_asked_what_its_cls_token_attends_to():
  seen, found = look(tiny(pool="cls"))
  for ours, maps in zip(seen.attention.heads, layers(found), strict=True):
    np.testing.assert_allclose(
      ours.reshape(2, 4), maps[:, 0, 1:], rtol=1e-4, atol=1e-6
    )
  np.testing.assert_allclose(
    seen.attention.rollout.ravel(), rolled_by_hand(found)[0, 1:], rtol=1e-4
  )
  np.testing.assert_allclose(
    seen.tokens.reshape(4, 16), found["encoded"][0, 1:], rtol=1e-4, atol=1e-5
  )


@pytest.mark.parametrize("pool", ["gap", "none"])
def test_a_network_that_pools_the_mean_is_asked_by_all_patches(pool):
  seen, found = look(tiny(pool=pool))
  for ours, maps in zip(seen.attention.heads, layers(found), strict=True):
    np.testing.assert_allclose(
      ours.reshape(2, 4), np.mean(maps, axis=1), rtol=1e-4, atol=1e-6
    )
  rolled = rolled_by_hand(found).mean(axis=0)
  np.testing.assert_allclose(seen.attention.rollout.ravel(), rolled, rtol=1e-4)


def test_a_cls_token_that_is_not_pooled_is_not_asked():
  seen, found = look(tiny(pool="gap", cls_token=True))
  rolled = rolled_by_hand(found)[1:, 1:].mean(axis=0)
  np.testing.assert_allclose(seen.attention.rollout.ravel(), rolled, rtol=1e-4)


def test_a_network_that_pools_by_attention_is_asked_by_its_query():
  seen, found = look(tiny(pool="map"))
  weights = np.mean(found["pool_attention"][0, :, 0], axis=0)
  np.testing.assert_allclose(weights.sum(), 1, rtol=1e-5)
  np.testing.assert_allclose(
    seen.attention.rollout.ravel(), weights @ rolled_by_hand(found), rtol=1e-4
  )


@pytest.mark.parametrize("pool", ["cls", "gap", "cls_gap", "map"])
def test_registers_are_neither_shown_nor_asked(pool):
  seen, found = look(tiny(pool=pool, registers=2))
  extra = 3 if "cls" in pool else 2
  weights = np.full(extra + 4, 1 / 4)
  weights[:extra] = 0
  if pool == "cls":
    weights = np.eye(extra + 4)[0]
  elif pool == "cls_gap":
    weights = (weights + np.eye(extra + 4)[0]) / 2
  elif pool == "map":
    weights[extra:] = np.mean(found["pool_attention"][0, :, 0], axis=0)
  rolled = (weights @ rolled_by_hand(found))[extra:]
  np.testing.assert_allclose(seen.attention.rollout.ravel(), rolled, rtol=1e-4)
  np.testing.assert_allclose(
    seen.tokens.reshape(4, 16),
    found["encoded"][0, extra:],
    rtol=1e-4,
    atol=1e-5,
  )


def test_distances_are_between_zero_and_the_diagonal():
  seen, _ = look(tiny())
  assert seen.attention.distances.shape == (3, 2)
  assert (seen.attention.distances > 0).all()
  assert (seen.attention.distances < np.hypot(4, 4)).all()


def test_layers_in_a_scan_are_seen_as_in_a_loop():
  params = random_params(tiny())
  loop, _ = look(tiny(), params)
  scan, _ = look(tiny(scan_layers=True), stack_layers(params))
  jax.tree.map(np.testing.assert_array_equal, loop, scan)


def test_a_hybrids_distances_are_those_of_its_grid():
  model = tiny_hybrid()
  network = network_of(model)
  assert (network.grid, network.stride) == ((2, 2), 8)
  image = np.resize(IMAGE, (16, 16, 3))
  seen = observation.observer(network)(network.params, image)
  assert seen.tokens.shape == (2, 2, 16)
  assert (np.asarray(seen.attention.distances) < np.hypot(8, 8)).all()


def test_a_resnet_has_features_and_no_attention():
  network = network_of(tiny_resnet())
  image = np.resize(IMAGE, (16, 16, 3))
  seen = observation.observer(network)(network.params, image)
  assert seen.attention is None
  assert seen.tokens.shape == (*network.grid, 256)


def test_the_patches_of_an_image_tower_lie_on_its_grid():
  """With a cls token before them, though a text tower keeps no maps."""
  image_keys = dict(width=16, depth=1, num_heads=2, mlp_dim=24, pool="cls")
  text_keys = dict(width=16, depth=1, num_heads=2, mlp_dim=24)
  section = named_sections.section(
    "model",
    name="two_towers",
    variant="Ti/8",
    image_size=16,
    image={"name": "vit", **image_keys},
    text={**text_keys, "vocab_size": 50, "length": 6},
  )
  rng = np.random.default_rng(0)
  shapes = registry.FAMILIES.get("two_towers").shapes(section, None)
  params = {path: rng.normal(size=size) for path, size in shapes.items()}
  model = build.create(section, num_classes=None)
  network = network_of(model, unflatten(params))
  image = np.resize(IMAGE, (16, 16, 3))
  seen = observation.observer(network)(network.params, image)
  encoded = find(network.module, network.params, image[None], ["encoded"])
  patches = encoded["encoded"][0, 1:]
  assert seen.attention is None
  np.testing.assert_allclose(seen.tokens, patches.reshape(2, 2, 16), rtol=1e-5)


def observe(params, image):
  """An observation full of the image's first byte, times the parameter."""
  value = params * image[0, 0, 0]
  attention = observation.Attention(
    jnp.full((3, 2), value), jnp.full((3, 2, 1, 1), value), value[None, None]
  )
  return observation.Observation(jnp.full((1, 1, 4), value), attention)


def images(count):
  return [np.full((2, 2, 3), n % 256, np.uint8) for n in range(count)]


def test_all_images_count_and_the_first_are_shown():
  found = observation.survey(observe, np.float32(2), images(5), num_shown=2)
  assert found.distances.shape == (5, 3, 2)
  np.testing.assert_array_equal(found.distances[:, 0, 0], [0, 2, 4, 6, 8])
  np.testing.assert_array_equal(found.rollout.ravel(), [0, 2])
  assert found.heads.shape == (2, 3, 2, 1, 1)
  assert found.tokens.shape == (5, 1, 1, 4)


def test_features_are_kept_of_so_many_images_only():
  count = observation.MAX_FEATURES + 3
  found = observation.survey(observe, np.float32(1), images(count), num_shown=1)
  assert len(found.tokens) == observation.MAX_FEATURES
  assert len(found.distances) == count


def test_a_network_without_attention_has_features_only():
  def look(params, image):
    return observation.Observation(observe(params, image).tokens, None)

  found = observation.survey(look, np.float32(1), images(3), num_shown=2)
  assert found.distances is found.rollout is found.heads is None
  assert len(found.tokens) == 3
