"""Patches and positions."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.models.layers.embeddings import (
  PatchEmbedding,
  PositionEmbedding,
  RelativeKeys,
  mae_sincos2d,
  sincos2d,
)


@pytest.mark.parametrize("size", [(8, 8), (11, 9)])
def test_patch_embedding_is_a_strided_valid_convolution(size):
  rng = np.random.default_rng(0)
  images = jnp.asarray(rng.standard_normal((2, *size, 3)), jnp.float32)
  ours = PatchEmbedding(width=7, patch_size=4, dtype="float32")
  conv = nn.Conv(7, (4, 4), strides=(4, 4), padding="VALID")
  params = ours.init(jax.random.key(0), images)
  params["params"]["bias"] = jnp.arange(7.0)
  expected = conv.apply(params, images).reshape(2, -1, 7)
  np.testing.assert_allclose(
    ours.apply(params, images), expected, rtol=1e-5, atol=1e-5
  )


def test_patch_embedding_starts_as_the_convolution_does():
  images = jnp.zeros((1, 8, 8, 3))
  params = PatchEmbedding(7, 4, "float32").init(jax.random.key(3), images)
  conv = nn.Conv(7, (4, 4), strides=(4, 4), padding="VALID")
  jax.tree.map(
    np.testing.assert_array_equal,
    params,
    conv.init(jax.random.key(3), images),
  )


@pytest.mark.parametrize("has_cls", [True, False])
def test_learned_1d_has_a_row_per_token(has_cls):
  embedding = PositionEmbedding("learned_1d")
  table, params = embedding.init_with_output(
    jax.random.key(0), (2, 3), 8, has_cls
  )
  assert params["params"]["pos_embedding"].shape == (1, 6 + has_cls, 8)
  np.testing.assert_array_equal(table, params["params"]["pos_embedding"])


def test_learned_1d_starts_normal_of_deviation_002():
  params = PositionEmbedding("learned_1d").init(
    jax.random.key(0), (16, 16), 64, True
  )
  table = params["params"]["pos_embedding"]
  assert table.std() == pytest.approx(0.02, rel=0.05)


def test_learned_2d_joins_a_column_and_a_row_table():
  embedding = PositionEmbedding("learned_2d", num_tables=2)
  tables, params = embedding.init_with_output(
    jax.random.key(0), (2, 3), 8, True
  )
  params = params["params"]
  assert params["x_embedding"].shape == (2, 3, 4)
  assert params["y_embedding"].shape == (2, 2, 4)
  for i in range(2):
    np.testing.assert_array_equal(tables[i, 0], params["cls_embedding"][i, 0])
    for row in range(2):
      for column in range(3):
        token = tables[i, 1 + 3 * row + column]
        np.testing.assert_array_equal(
          token[:4], params["x_embedding"][i, column]
        )
        np.testing.assert_array_equal(token[4:], params["y_embedding"][i, row])


def test_sincos2d_is_big_visions_formula():
  height, width, dim = 3, 2, 16
  y, x = np.mgrid[:height, :width]
  omega = np.arange(dim // 4) / (dim // 4 - 1)
  omega = 1.0 / (10_000.0**omega)
  y = np.einsum("m,d->md", y.flatten(), omega)
  x = np.einsum("m,d->md", x.flatten(), omega)
  expected = np.concatenate([np.sin(x), np.cos(x), np.sin(y), np.cos(y)], 1)
  np.testing.assert_allclose(
    sincos2d((height, width), dim), expected, rtol=1e-6, atol=1e-7
  )


def test_a_learned_table_may_start_at_the_positions_of_mae():
  """As util/pos_embed.py: `omega /= dim / 4`, columns before rows."""
  table = PositionEmbedding("learned_1d", start="sincos2d")
  variables = table.init(jax.random.key(0), (2, 3), 8, num_prefix=1)
  found = variables["params"]["pos_embedding"]
  wanted = [[0.0] * 8]
  for row, column in np.ndindex(2, 3):
    wanted.append([])
    for place in (column, row):
      angles = [place / 10_000 ** (i / 2) for i in range(2)]
      wanted[-1] += [*np.sin(angles), *np.cos(angles)]
  np.testing.assert_allclose(found, [wanted], rtol=1e-6, atol=1e-7)
  np.testing.assert_array_equal(found[0, 1:], mae_sincos2d((2, 3), 8))


def test_sincos2d_learns_nothing_and_leaves_cls_alone():
  embedding = PositionEmbedding("sincos2d", num_tables=2)
  tables, params = embedding.init_with_output(
    jax.random.key(0), (2, 3), 8, True
  )
  assert not params
  np.testing.assert_array_equal(tables[:, 0], np.zeros((2, 8)))
  np.testing.assert_array_equal(tables[1, 1:], sincos2d((2, 3), 8))


def test_relative_keys_have_one_key_per_offset_and_head():
  keys, _ = RelativeKeys(num_heads=2, num_tables=3).init_with_output(
    jax.random.key(0), 5, 8
  )
  assert keys.shape == (3, 9, 2, 4)
