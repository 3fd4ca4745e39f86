"""Biases of attention scores, against BEiT's index written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.networks import random_params, tiny
from vit_jax.config import schema
from vit_jax.models.layers.attention import ATTENTION_MAPS
from vit_jax.models.layers.relative_bias import Places, RelativeBias
from vit_jax.models.layers.relative_bias_rows import num_rows
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.sharding import rules

HEADS = 3


def bias_of(table, learned, wanted=None, resize="bilinear_half_pixel"):
  module = RelativeBias(HEADS, Places(learned, wanted or learned, resize))
  return np.asarray(module.apply({"params": {"table": table}}))


def by_index(table, rows, columns):
  """[heads, n, n] keys by queries: the row of the table of every pair."""
  places = [(y, x) for y in range(rows) for x in range(columns)]
  num_offsets = (2 * rows - 1) * (2 * columns - 1)
  bias = np.zeros((len(places) + 1, len(places) + 1, HEADS), np.float32)
  bias[:, 0] = table[num_offsets]  # The class token asks.
  bias[0, :] = table[num_offsets + 1]  # It is asked.
  bias[0, 0] = table[num_offsets + 2]
  for k, key in enumerate(places):
    for q, query in enumerate(places):
      y, x = query[0] - key[0] + rows - 1, query[1] - key[1] + columns - 1
      bias[k + 1, q + 1] = table[y * (2 * columns - 1) + x]
  return bias.transpose(2, 0, 1)


@pytest.mark.parametrize("grid", [(1, 1), (3, 3), (2, 4)])
def test_every_pair_has_the_row_of_its_offset(grid):
  rng = np.random.default_rng(0)
  table = rng.normal(size=(num_rows(grid), HEADS)).astype(np.float32)
  np.testing.assert_array_equal(bias_of(table, grid), by_index(table, *grid))


@pytest.mark.parametrize("resize", ["bilinear_half_pixel", "geometric"])
def test_another_grid_keeps_what_is_alike_for_all_and_the_class_tokens_rows(
  resize,
):
  table = np.ones((num_rows((4, 4)), HEADS), np.float32)
  table[-3:] = [[2] * HEADS, [3] * HEADS, [4] * HEADS]
  wanted = np.ones((num_rows((2, 6)), HEADS), np.float32)
  wanted[-3:] = table[-3:]
  found = bias_of(table, (4, 4), (2, 6), resize)
  np.testing.assert_allclose(found, by_index(wanted, 2, 6), rtol=1e-6)


def test_gradient_of_the_table_counts_the_pairs_of_each_row():
  places = Places((2, 2), (2, 2), "geometric")
  module = RelativeBias(HEADS, places)
  params = module.init(jax.random.key(0))
  assert not np.any(params["params"]["table"])
  grads = jax.grad(lambda p: module.apply(p).sum())(params)["params"]["table"]
  # Offsets (-1, 0, 1) occur (1, 2, 1) times along a side of 2.
  counts = np.outer([1, 2, 1], [1, 2, 1]).ravel()
  np.testing.assert_array_equal(
    grads, np.tile([*counts, 4, 4, 1], (HEADS, 1)).T
  )


@pytest.mark.parametrize("place", ["every_layer", "every_layer_shared"])
def test_scores_take_the_bias_and_masks_go_on_hiding(place, images):
  """Attention maps of a network without keys are the softmax of the bias."""
  model = tiny(pos_embedding="relative_bias", pos_embedding_at=place, depth=2)
  params = random_params(model)
  for layer in range(2):
    block = params["Transformer"][f"encoderblock_{layer}"]
    key = block["MultiHeadDotProductAttention_0"]["key"]
    key.update(jax.tree.map(np.zeros_like, dict(key)))
  seen = np.array([True, True, False, True, True])
  mask = np.broadcast_to(seen, (len(images), 5))

  def encode(model, images):
    return model.encode(model.embed(images), mask=jnp.asarray(mask))

  _, sown = model.apply(
    {"params": params}, images, method=encode, mutable=[ATTENTION_MAPS]
  )
  for layer in range(2):
    room = params["Transformer"]
    if place == "every_layer":
      room = room[f"encoderblock_{layer}"]
    module = RelativeBias(2, Places((2, 2), (2, 2), "bilinear"))
    bias = np.asarray(module.apply({"params": room["relative_bias"]}))
    weights = np.exp(bias) * seen[None, :, None]
    wanted = (weights / weights.sum(axis=1, keepdims=True)).transpose(0, 2, 1)
    maps = sown[ATTENTION_MAPS]["Transformer"][f"encoderblock_{layer}"]
    (found,) = maps["MultiHeadDotProductAttention_0"]["attention"]
    for one in np.asarray(found):
      np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-6)


def test_heads_over_a_mesh_give_the_gradients_of_one_device(images):
  model = tiny(
    pos_embedding="relative_bias", pos_embedding_at="every_layer", depth=1
  )
  params = random_params(model)

  def loss(params, images):
    return jnp.sum(jnp.sin(model.apply({"params": params}, images)))

  wanted = jax.jit(jax.value_and_grad(loss))(params, images)
  mesh = mesh_lib.create_mesh(schema.Mesh(data=2, tensor=2))
  placed = jax.device_put(params, rules.param_shardings(params, mesh))
  table = placed["Transformer"]["encoderblock_0"]["relative_bias"]["table"]
  assert table.sharding.spec == jax.P(None, "tensor")
  found = jax.jit(jax.value_and_grad(loss))(placed, images)
  jax.tree.map(
    lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5),
    found,
    wanted,
  )
