"""Rotary positions: against complex numbers, and inside the network."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.networks import (
  assert_trees_close,
  random_params,
  stack_layers,
  tiny,
)
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.layers import placement, rope, rope_table
from vit_jax.models.layers.attention import MultiHeadAttention
from vit_jax.models.layers.mlp import LayerConfig
from vit_jax.sharding import activations
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.weights import flat


def table(grid, head_size, **keys):
  return jnp.asarray(rope_table.table(grid, head_size, **keys))


def turned(x, grid, reference, num_prefix, base=10000, unit=False):
  """Pairs of units as complex numbers, token by token; in float64."""
  batch, length, heads, size = x.shape
  found = np.zeros((batch, length, heads, size // 2), np.complex128)
  pairs = x[..., 0::2] + 1j * x[..., 1::2]
  for token in range(length):
    angles = np.zeros(size // 2)
    if token >= num_prefix:
      row, column = divmod(token - num_prefix, grid[1])
      for axis, place in enumerate((row, column)):
        if unit:  # Of the centre, between the borders at -1 and 1.
          place = 2 * np.pi * np.interp(place + 0.5, [0, grid[axis]], [-1, 1])
        elif reference:
          place = place / grid[axis] * reference
        for i in range(size // 4):
          angles[axis * size // 4 + i] = place / base ** (i / (size // 4))
    found[:, token] = pairs[:, token] * np.exp(1j * angles)
  return np.stack([found.real, found.imag], axis=-1).reshape(x.shape)


@pytest.fixture(params=["cpu", "gpu"])
def platform(request, monkeypatch):
  """Those with a form of their own."""
  monkeypatch.setattr(placement, "platform", lambda: request.param)


@pytest.mark.parametrize("grid", [(2, 3), (20, 4)])
@pytest.mark.parametrize("reference", [16, None])
def test_pairs_turn_as_complex_numbers(grid, reference, platform):
  num_tokens = 2 + grid[0] * grid[1]
  x = np.random.default_rng(0).normal(size=(2, num_tokens, 3, 12))
  turns = table(grid, 12, reference=reference, num_prefix=2)
  found = rope.rotate(jnp.asarray(x, jnp.float32), turns)
  wanted = turned(x, grid, reference, 2)
  np.testing.assert_allclose(found, wanted, atol=2e-6)
  np.testing.assert_array_equal(found[:, :2], np.float32(x[:, :2]))
  half = rope.rotate(jnp.asarray(x, jnp.bfloat16), turns)
  assert half.dtype == jnp.bfloat16
  np.testing.assert_allclose(np.float32(half), wanted, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("grid", [(2, 3), (20, 4), (1, 1)])
@pytest.mark.parametrize("base", [100.0, 10.0])
def test_pairs_turn_by_places_in_the_image(grid, base):
  num_tokens = 5 + grid[0] * grid[1]
  x = np.random.default_rng(0).normal(size=(2, num_tokens, 3, 12))
  keys = dict(base=base, coordinates="unit", reference=16, num_prefix=5)
  found = rope.rotate(jnp.asarray(x, jnp.float32), table(grid, 12, **keys))
  wanted = turned(x, grid, None, 5, base, unit=True)
  np.testing.assert_allclose(found, wanted, atol=2e-6)
  np.testing.assert_array_equal(found[:, :5], np.float32(x[:, :5]))


def test_networks_turn_by_their_keys(images):
  """The outputs follow the base and the coordinates, also with a scan."""
  params = random_params(tiny(rope=True))
  keys = dict(rope=True, rope_base=100.0, rope_coordinates="unit")

  def run(params, **keys):
    return jax.jit(tiny(**keys).apply)({"params": params}, images)

  found = run(params, **keys)
  for other in (dict(rope_base=10.0), dict(rope_coordinates="patches")):
    assert np.abs(run(params, **keys | other) - found).max() > 1e-4
  scanned = run(stack_layers(params), scan_layers=True, **keys)
  np.testing.assert_allclose(scanned, found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_turn_back(dtype, platform):
  grid, rng = (3, 2), np.random.default_rng(3)
  x, gradient = (
    jnp.asarray(rng.normal(size=(2, 8, 3, 12)), dtype) for _ in range(2)
  )
  turns = table(grid, 12, reference=16, num_prefix=2)
  found, pull = jax.vjp(rope.rotate, x, turns)
  assert found.dtype == x.dtype
  found, of_turns = pull(gradient)
  assert found.dtype == x.dtype
  # The transpose of a linear map, one column after another.
  wide = np.float64(gradient)
  wanted = np.zeros(x.shape)
  for unit in range(12):
    one = np.zeros(x.shape)
    one[..., unit] = 1
    wanted[..., unit] = np.sum(turned(one, grid, 16, 2) * wide, axis=-1)
  rounding = {"float32": 2e-6, "bfloat16": 2**-8}[dtype]
  np.testing.assert_allclose(
    np.float64(found), wanted, rtol=rounding, atol=2e-6
  )
  np.testing.assert_array_equal(of_turns, 0)


def test_scores_depend_on_distance_alone():
  x = np.random.default_rng(1).normal(size=(2, 1, 1, 1, 8))
  query, key = jnp.broadcast_to(jnp.asarray(x, jnp.float32), (2, 1, 16, 1, 8))
  turns = table((4, 4), 8, reference=None)
  scores = np.einsum(
    "qk,nk->qn",
    *(np.asarray(rope.rotate(one, turns))[0, :, 0] for one in (query, key)),
  ).reshape(4, 4, 4, 4)
  # One row down and two columns to the right, from everywhere.
  found = [scores[r, c, r + 1, c + 2] for r in range(3) for c in range(2)]
  np.testing.assert_allclose(found, found[0], rtol=1e-5)
  assert abs(scores[0, 0, 2, 1] - found[0]) > 1e-3


@pytest.mark.parametrize(
  "keys", [{}, dict(fsdp=4), dict(fsdp=1, tensor=2)], ids=str
)
def test_heads_side_by_side_turn_on_any_mesh(keys):
  if len(jax.devices()) < 4:
    pytest.skip("needs 4 devices")
  rng = np.random.default_rng(4)
  x, gradient = (
    jnp.asarray(rng.normal(size=(8, 6, 4 * 12)), jnp.float32) for _ in range(2)
  )
  turns = table((2, 3), 12, reference=16)
  mesh = mesh_lib.create_mesh(schema.Mesh(**keys), jax.devices()[:4])

  def run(turn, x, gradient):
    found, pull = jax.vjp(lambda x: turn(x, turns), x)
    return found, *pull(gradient)

  side_by_side = activations.on(
    mesh, functools.partial(run, rope.rotate_side_by_side)
  )
  x, gradient = jax.device_put((x, gradient), mesh_lib.batch_sharding(mesh))
  found = jax.jit(side_by_side)(x, gradient)
  apart = (one.reshape(8, 6, 4, 12) for one in (x, gradient))
  for one, wanted in zip(found, run(rope.rotate, *apart), strict=True):
    np.testing.assert_allclose(one, wanted.reshape(8, 6, 48), atol=1e-6)


def test_attention_turns_queries_and_keys_alone():
  config = LayerConfig(num_heads=2, mlp_dim=8)
  rng = np.random.default_rng(2)
  x = jnp.asarray(rng.normal(size=(1, 7, 16)), jnp.float32)
  attention = MultiHeadAttention(config)
  params = attention.init(jax.random.key(0), x, x)
  params = jax.tree.map(
    lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32) / 4,
    params,
  )
  turns = table((2, 3), 8, reference=16, num_prefix=1)
  found = attention.apply(params, x, x, turns=turns)
  layers = jax.tree.map(np.float64, params["params"])
  query, key, value = (
    np.einsum("bnd,dhk->bnhk", x, layers[name]["kernel"]) + layers[name]["bias"]
    for name in ("query", "key", "value")
  )
  query, key = (turned(one, (2, 3), 16, 1) for one in (query, key))
  scores = np.exp(np.einsum("bqhk,bnhk->bhqn", query, key) / np.sqrt(8))
  weights = scores / scores.sum(-1, keepdims=True)
  wanted = np.einsum(
    "bhqn,bnhk,hkd->bqd", weights, value, layers["out"]["kernel"]
  )
  np.testing.assert_allclose(found, wanted + layers["out"]["bias"], atol=1e-5)


def test_scanned_and_rematerialized_layers_turn_alike(images):
  """On a grid of another form than the one that positions are learned for."""
  images = np.concatenate([images, images], axis=2)
  params = random_params(tiny(rope=True))
  assert not any("rope" in name for name in flat.flatten(params))

  def value_and_grad(params, **keys):
    model = tiny(**keys)

    def loss(params):
      return jnp.sum(jnp.sin(model.apply({"params": params}, images)))

    return jax.jit(jax.value_and_grad(loss))(params)

  value, grads = value_and_grad(params, rope=True, remat="named")
  assert abs(value - value_and_grad(params)[0]) > 1e-4
  found, other = value_and_grad(
    stack_layers(params), rope=True, scan_layers=True, remat="full"
  )
  np.testing.assert_allclose(found, value, rtol=1e-5)
  assert_trees_close(other, stack_layers(grads), rtol=1e-3, atol=1e-4)


def test_some_of_the_tokens_are_refused(images):
  model = tiny(rope=True)
  params = random_params(model)

  def encode(model, images):
    return model.encode(model.embed(images)[:, :-1])

  with pytest.raises(UserError, match="turns the 5 tokens .* there are 4; use"):
    model.apply({"params": params}, images, method=encode)


@pytest.mark.parametrize(
  ("keys", "words"),
  [
    (dict(num_heads=8), "heads of 2 units .*width=32\\."),
    (dict(pos_embedding="relative"), "pos_embedding='learned_1d'"),
  ],
)
def test_what_does_not_go_with_it_is_refused(keys, words):
  with pytest.raises(UserError, match=words):
    tiny(rope=True, **keys)
