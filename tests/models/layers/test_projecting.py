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


@pytest.mark.parametrize("layer", ["heads", "flat heads", "dense"])
def test_a_scale_multiplies_the_result(layer):
  """LayerScale, whose factors multiply the weights instead."""
  rng = np.random.default_rng(1)
  scale, wanted = rng.normal(size=WIDTH), rng.normal(size=(2, 5, WIDTH))
  x = rng.normal(size=(2, 5, WIDTH))
  kernel, bias = rng.normal(size=(WIDTH, WIDTH)), rng.normal(size=WIDTH)

  def zeros(rng, shape, kind):
    del rng, kind
    return jnp.zeros(shape)

  if layer == "dense":
    module = projecting.OutputDense(WIDTH, "float32", zeros, zeros)
    shape, given = kernel.shape, x
  else:
    module = projecting.OutputProjection(HEADS, "float32", zeros)
    shape, given = (HEADS, SIZE, WIDTH), x
    if layer == "heads":
      given = x.reshape(2, 5, HEADS, SIZE)

  def loss(kernel, bias, scale):
    params = {"kernel": kernel.reshape(shape), "bias": bias}
    return jnp.sum(
      module.apply({"params": params}, jnp.float32(given), scale) * wanted
    )

  found = jax.grad(loss, (0, 1, 2))(*map(jnp.float32, (kernel, bias, scale)))
  plain = x @ kernel + bias
  np.testing.assert_allclose(
    loss(*map(jnp.float32, (kernel, bias, scale))),
    np.sum(plain * scale * wanted),
    rtol=1e-4,
  )
  by_hand = (
    np.einsum("bni,bnj->ij", x, wanted * scale),
    (wanted * scale).sum(axis=(0, 1)),
    (wanted * plain).sum(axis=(0, 1)),
  )
  for one, other in zip(found, by_hand, strict=True):
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
