"""Tokens of masked images that are read in some places alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models import networks
from vit_jax.objectives import masked_tokens

PLACES = np.array([[0, 5, 6], [15, 3, 9], [8, 8, 1], [2, 4, 10]])


@pytest.mark.parametrize(
  "keys",
  [
    {},
    dict(pool="gap"),
    dict(pos_embedding="relative_bias", pos_embedding_at="every_layer"),
    dict(pos_embedding="none", rope=True, num_heads=2),
    dict(stochastic_depth_rate=0.5, stochastic_depth_group=2),
    dict(stochastic_depth_rate=0.5),
    dict(scan_layers=True),
    dict(remat="full"),
    dict(pos_embedding="relative", pos_embedding_at="every_layer"),
  ],
  ids=str,
)
def test_they_and_their_gradients_are_those_of_all_tokens(keys):
  network = networks.tiny(None, image_size=16, depth=2, **keys)
  images = jax.random.normal(jax.random.key(0), (4, 16, 16, 3))
  params = network.init(jax.random.key(1), images)["params"]
  token = jax.random.normal(jax.random.key(2), (1, 1, network.width))
  mask = jax.random.bernoulli(jax.random.key(3), 0.4, (4, 16))
  weights = jax.random.normal(jax.random.key(4), (4, 3, network.width))
  places = jnp.asarray(PLACES)

  def read(params, token, read_at):
    found = masked_tokens.encode(
      network,
      params,
      images,
      token,
      mask,
      dropout=jax.random.key(5),
      read_at=read_at,
    )
    if read_at is None:
      rows = network.num_prefix + places
      found = jnp.take_along_axis(found, rows[:, :, None], axis=1)
    return jnp.sum(weights * found), found

  def with_gradients(read_at):
    return jax.jit(jax.value_and_grad(read, argnums=(0, 1), has_aux=True))(
      params, token, read_at
    )

  ((_, wanted), of_all), ((_, found), of_some) = map(
    with_gradients, (None, places)
  )
  np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
  for a, b in zip(
    jax.tree.leaves(of_some), jax.tree.leaves(of_all), strict=True
  ):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
