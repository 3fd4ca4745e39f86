"""Projections to heads: as each kernel wants them, beside the plain ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.models.layers import placement, projecting
from vit_jax.models.layers.projecting import Projection

HEADS, SIZE = 3, 4
WIDTH = HEADS * SIZE


def projections(rng, biases):
  return [
    Projection(
      jnp.float32(rng.normal(size=(WIDTH, HEADS, SIZE))),
      jnp.float32(rng.normal(size=(HEADS, SIZE))) if has else None,
    )
    for has in biases
  ]


@pytest.mark.parametrize(
  "biases", [(True,) * 3, (True, False, True), (False,) * 3]
)
@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_values_and_gradients_are_those_of_einsum(
  biases, platform, monkeypatch
):
  rng = np.random.default_rng(0)
  x = jnp.float32(rng.normal(size=(2, 5, WIDTH)))
  arrays = projections(rng, biases)
  grads = list(jnp.float32(rng.normal(size=(3, 2, 5, HEADS, SIZE))))

  def plain(x, arrays):
    return [
      jnp.einsum("bnd,dhk->bnhk", x, kernel)
      + (0 if bias is None else bias[None, None])
      for kernel, bias in arrays
    ]

  wanted, pull = jax.vjp(plain, x, arrays)

  def ours(x, arrays):
    return [projecting.by_head(x, projection) for projection in arrays]

  monkeypatch.setattr(placement, "platform", lambda: platform)
  found, pull_found = jax.vjp(ours, x, arrays)
  for one, other in zip(
    jax.tree.leaves((found, pull_found(grads))),
    jax.tree.leaves((wanted, pull(grads))),
    strict=True,
  ):
    assert one.shape == other.shape
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_scattered_gradient_has_the_same_values():
  rng = np.random.default_rng(1)
  x = jnp.float32(rng.normal(size=(2, 5, WIDTH)))
  kernel = jnp.float32(rng.normal(size=(WIDTH, HEADS, SIZE)))

  def value_and_grad(flat):
    return jax.value_and_grad(lambda kernel: jnp.sum((x @ flat(kernel)) ** 2))

  for transform in (lambda f: f, jax.jit):
    found = transform(value_and_grad(projecting.flat_scattered))(kernel)
    wanted = transform(value_and_grad(projecting.flat))(kernel)
    jax.tree.map(np.testing.assert_array_equal, found, wanted)
