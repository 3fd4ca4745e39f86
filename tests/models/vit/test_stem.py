"""Hybrids: the published numbers, names and counts, and plain Flax."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.networks import (
  assert_trees_close,
  find,
  random_params,
  stack_layers,
  tiny_hybrid,
  unflatten,
)
from vit_jax import trees
from vit_jax.benchmarking.plain_vit import PlainViT
from vit_jax.config import named_sections
from vit_jax.models import build
from vit_jax.models.features import feature_names
from vit_jax.models.vit.network import ViT

GOLDEN = ViT(
  48,
  1,
  3,
  96,
  8,
  num_classes=10,
  stem_blocks=(1, 1),
  stem_width=32,
  image_size=64,
)
PLAIN = PlainViT(
  width=16,
  depth=1,
  num_heads=2,
  mlp_dim=24,
  patch_size=8,
  num_classes=5,
  stem_blocks=(1, 1),
  stem_width=32,
)


@pytest.mark.parametrize("scan_layers", [False, True])
def test_golden_logits(shared, scan_layers):
  """Parameters and logits that another implementation has written."""
  params = unflatten(np.load(shared / "golden" / "hybrid.npz"))
  io = np.load(shared / "golden" / "hybrid.io.npz")
  model = GOLDEN.clone(scan_layers=scan_layers)
  if scan_layers:
    params = stack_layers(params)
  logits = jax.jit(model.apply)({"params": params}, io["x"])
  error = np.abs(logits - io["y"]).max() / np.abs(io["y"]).max()
  assert error < 1e-5


def test_parameters_have_the_published_names(shared):
  golden = np.load(shared / "golden" / "hybrid.npz")
  params = random_params(GOLDEN)
  ours = {name: x.shape for name, x in trees.named_leaves(params)}
  assert ours == {name: golden[name].shape for name in golden.files}


def _count(variant, image_size=224):
  keys = dict(variant=variant, image_size=image_size, scan_layers=True)
  model = build.create(
    named_sections.section("model", **keys), num_classes=1000
  )
  images = jax.ShapeDtypeStruct((1, image_size, image_size, 3), jnp.uint8)
  shapes = jax.eval_shape(model.init, jax.random.key(0), images)
  return trees.num_elements(shapes["params"])


@pytest.mark.parametrize(
  "variant, count",
  [
    ("R50+B/16", 98_659_112),
    ("R+Ti/16", 6_337_704),
    ("R26+S/32", 36_431_912),
    ("R26+B/32", 101_383_976),
    ("R50+L/32", 328_994_856),
  ],
)
def test_parameters_are_counted_to_the_last(variant, count):
  """R50+B/16 is published so; R+Ti/16 as 6.34 million; for the others."""
  assert _count(variant) == count


@pytest.mark.parametrize(
  "variant, image_size, side",
  [("R50+B/16", 384, 24), ("R50+B/16", 225, 15), ("R26+S/32", 250, 8)],
)
def test_convolutions_round_the_grid_up(variant, image_size, side):
  width = {"B": 768, "S": 384}[variant[4]]
  tokens = side**2 - (224 // int(variant[-2:])) ** 2
  assert _count(variant, image_size) - _count(variant) == tokens * width


def test_results_and_gradients_are_those_of_plain_flax(large_images):
  images = jnp.asarray(large_images)
  params = random_params(tiny_hybrid())

  @functools.partial(jax.jit, static_argnums=1)
  @functools.partial(jax.value_and_grad, has_aux=True)
  def loss_and_grads(params, model):
    logits = model.apply({"params": params}, images, train=True)
    return jnp.sum(jnp.sin(logits)), logits

  (_, ours), our_grads = loss_and_grads(params, tiny_hybrid())
  (_, plain), grads = loss_and_grads(params, PLAIN)
  np.testing.assert_allclose(ours, plain, rtol=1e-5, atol=1e-5)
  assert_trees_close(our_grads, grads, rtol=1e-3, atol=1e-4)


def test_plain_and_ours_start_from_the_same_parameters(large_images):
  images = jnp.asarray(large_images)
  assert_trees_close(
    jax.jit(tiny_hybrid().init)(jax.random.key(0), images),
    jax.jit(PLAIN.init)(jax.random.key(0), images),
    rtol=1e-6,
    atol=0,
  )


def test_remat_changes_no_gradient(large_images):
  images = jnp.asarray(large_images)
  params = random_params(tiny_hybrid())

  def grads(model):
    def loss(params):
      return jnp.sum(jnp.sin(model.apply({"params": params}, images)))

    return jax.jit(jax.grad(loss))(params)

  assert_trees_close(
    grads(tiny_hybrid(remat="full")), grads(tiny_hybrid()), rtol=1e-3, atol=1e-4
  )


def test_bfloat16_stays_bfloat16_until_the_logits(large_images):
  images = jnp.asarray(large_images)
  params = random_params(tiny_hybrid())
  model = tiny_hybrid(dtype="bfloat16")

  def loss(params):
    return jnp.sum(model.apply({"params": params}, images))

  with jax.numpy_dtype_promotion("strict"):
    grads = jax.eval_shape(jax.grad(loss), params)
  assert {x.dtype for x in jax.tree.leaves(grads)} == {jnp.dtype("float32")}
  names = ["stem", "logits"]
  found = find(model, params, images, names)
  assert found["stem"].dtype == jnp.bfloat16
  exact = find(tiny_hybrid(), params, images, names)
  np.testing.assert_allclose(
    found["logits"], exact["logits"], rtol=0.1, atol=0.15
  )


def test_the_stems_maps_are_a_feature(large_images):
  model = tiny_hybrid()
  names = feature_names(model)
  found = find(model, random_params(model), large_images, names)
  assert names[:2] == ["stem", "embedded"]
  assert found["stem"].shape == (2, 2, 2, 256)
  assert found["embedded"].shape == (2, 5, 16)


def test_units_start_as_their_shortcuts():
  """A stage's maps are then those of its first unit's projection."""
  images = np.ones((1, 16, 16, 3), np.float32)
  model = tiny_hybrid(stem_blocks=(2,), variant="Ti/4")
  params = jax.jit(model.init)(jax.random.key(0), images)["params"]
  one = dict(params, block1={"unit1": params["block1"]["unit1"]})
  model_of_one = model.clone(stem_blocks=(1,))
  np.testing.assert_array_equal(
    find(model, params, images, ["stem"])["stem"],
    find(model_of_one, one, images, ["stem"])["stem"],
  )


def test_patches_are_cut_from_the_maps():
  """R+Ti/16: a root of stride 4, then patches of 8 x 8."""
  model = build.create(
    named_sections.section("model", variant="R+Ti/16"), num_classes=3
  )
  images = jax.ShapeDtypeStruct((1, 224, 224, 3), jnp.uint8)
  params = jax.eval_shape(model.init, jax.random.key(0), images)["params"]
  assert params["embedding"]["kernel"].shape == (8, 8, 64, 192)
  embedding = params["Transformer"]["posembed_input"]["pos_embedding"]
  assert embedding.shape == (1, 50, 192)
  assert "block1" not in params
