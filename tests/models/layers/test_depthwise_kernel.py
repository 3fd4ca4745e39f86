"""The kernel for depthwise convolutions, emulated, against a convolution."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from tests.models.networks import assert_trees_close
from vit_jax.config import schema
from vit_jax.models.convnext.network import ConvNeXt
from vit_jax.models.layers import depthwise_kernel, placement
from vit_jax.sharding import activations
from vit_jax.sharding import mesh as mesh_lib


def _arrays(images, rows, columns, channels, side, dtype=jnp.float32):
  rng = np.random.default_rng(0)

  def draw(*shape):
    return jnp.asarray(rng.standard_normal(shape), dtype)

  x = draw(images, rows, columns, channels)
  kernel, bias = draw(side, side, 1, channels), draw(channels)
  return (x, kernel, bias), draw(*x.shape)


def _plain(x, kernel, bias):
  """A sum over the taps of maps that NumPy pads."""
  border = len(kernel) // 2
  sides = ((0, 0), (border, border), (border, border), (0, 0))
  padded = jnp.pad(x, sides)
  _, rows, columns, channels = x.shape
  total = jnp.broadcast_to(bias, x.shape)
  for i, j in np.ndindex(kernel.shape[:2]):
    shifted = padded[:, i : i + rows, j : j + columns]
    total = total + shifted * kernel[i, j].reshape(1, 1, 1, channels)
  return total


def _refused(x, kernel, bias):
  raise AssertionError("The kernel was not used.")


# The function itself, as one test replaces it.
def _kernel(
  x, kernel, bias, otherwise=_refused, convolve=depthwise_kernel.depthwise_conv
):
  return convolve(x, kernel, bias, otherwise, interpret=True)


def _grid(*arrays):
  """Numbers of steps over channels, images and rows."""
  traced = jax.make_jaxpr(lambda *arrays: _kernel(*arrays))(*arrays)
  (convolution,) = traced.eqns
  equations = convolution.params["call_jaxpr"].eqns
  (call,) = (x for x in equations if x.primitive.name == "pallas_call")
  return call.params["grid_mapping"].grid


def assert_same(arrays, gradient):
  result, pull = jax.vjp(_kernel, *arrays)
  expected, pull_expected = jax.vjp(_plain, *arrays)
  np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)
  assert_trees_close(
    pull(gradient), pull_expected(gradient), rtol=1e-4, atol=1e-3
  )


@pytest.mark.parametrize(
  ("images", "rows", "columns", "channels", "side"),
  [
    (8, 7, 7, 256, 7),  # Two steps of 128 channels.
    (16, 9, 14, 40, 7),  # Two steps of 8 images; 14 places are two parts.
    (8, 4, 5, 160, 3),  # A register of 128 channels and one of 32.
    (8, 2, 1, 3, 5),  # Filters that are larger than the map.
  ],
)
def test_result_and_gradients_are_those_of_the_convolution(
  images, rows, columns, channels, side
):
  assert_same(*_arrays(images, rows, columns, channels, side))


@pytest.mark.parametrize(
  ("kilobytes", "steps"), [(1400, 2), (900, 4), (700, 6)]
)
def test_rows_may_be_computed_in_several_steps(monkeypatch, kilobytes, steps):
  arrays, gradient = _arrays(8, 12, 6, 4, 3)
  monkeypatch.setattr(depthwise_kernel, "VMEM_BYTES", kilobytes * 1000)
  assert _grid(*arrays) == (1, 1, steps)
  assert_same(arrays, gradient)


# The map above or below a step has fewer rows than the border of 3.
@pytest.mark.parametrize(("rows", "steps"), [(7, 7), (10, 5), (6, 2)])
def test_a_step_may_have_fewer_rows_than_the_border(monkeypatch, rows, steps):
  arrays, gradient = _arrays(8, rows, 3, 4, 7)
  monkeypatch.setattr(depthwise_kernel, "VMEM_BYTES", 1_500_000)
  assert _grid(*arrays) == (1, 1, steps)
  assert_same(arrays, gradient)


def test_what_the_kernel_cannot_do_is_left_to_the_other_form(monkeypatch):
  def used(*arrays):
    calls = []
    _kernel(*arrays, otherwise=lambda *x: calls.append(x) or _plain(*x))
    return not calls

  (x, kernel, bias), _ = _arrays(8, 12, 6, 4, 3)
  assert used(x, kernel, bias)
  assert not used(x[:7], kernel, bias)
  monkeypatch.setattr(depthwise_kernel, "VMEM_BYTES", 400_000)
  assert not used(x, kernel, bias)


def test_sums_of_bfloat16_are_not_rounded_one_by_one():
  arrays, gradient = _arrays(8, 9, 8, 40, 7, jnp.bfloat16)
  result, pull = jax.vjp(_kernel, *arrays)
  wide = [x.astype(jnp.float32) for x in arrays]
  expected, pull_expected = jax.vjp(_plain, *wide)
  found = (result, *pull(gradient))
  exact = (expected, *pull_expected(gradient.astype(jnp.float32)))
  for ours, theirs in zip(found, exact, strict=True):
    assert ours.dtype == jnp.bfloat16
    ours = ours.astype(jnp.float32)
    np.testing.assert_allclose(ours, theirs, rtol=2**-8, atol=1e-4)


@pytest.mark.parametrize(
  ("data", "fsdp", "tensor", "images"),
  [
    (4, 1, 1, 32),
    (1, 2, 2, 16),
    (1, 1, 4, 8),
    (4, 1, 1, 8),  # Two images on a device.
    (4, 1, 1, 6),  # All images on each device, which are no multiple of 8.
  ],
)
def test_a_mesh_changes_nothing(data, fsdp, tensor, images):
  mesh = mesh_lib.create_mesh(
    schema.Mesh(data=data, fsdp=fsdp, tensor=tensor), jax.devices()[:4]
  )
  arrays, gradient = _arrays(images, 5, 6, 8, 3)
  uses = []

  def otherwise(*arrays):
    uses.append(True)
    return _plain(*arrays)

  def loss(convolve, x, kernel, bias, gradient):
    return jnp.vdot(gradient, convolve(x, kernel, bias))

  expected = jax.value_and_grad(loss, (1, 2, 3))(_plain, *arrays, gradient)
  whole = NamedSharding(mesh, PartitionSpec())
  split = (
    mesh_lib.batch_sharding(mesh) if images % (data * fsdp) == 0 else whole
  )
  laid = jax.device_put((*arrays, gradient), (split, whole, whole, split))
  # The backward pass is traced outside of what says where activations lie.
  convolve = activations.on(
    mesh, functools.partial(_kernel, otherwise=otherwise)
  )
  step = jax.value_and_grad(functools.partial(loss, convolve), (0, 1, 2))
  compiled = jax.jit(step).lower(*laid).compile()
  assert_trees_close(compiled(*laid), expected, rtol=1e-5, atol=1e-4)
  assert bool(uses) == (images < 8 * data * fsdp)
  # Each device works on its own images: only sums over all are sent.
  assert "all-gather" not in compiled.as_text()


def _network(**settings):
  return ConvNeXt((1, 1), (4, 6), num_classes=3, stem_stride=2, **settings)


@pytest.mark.parametrize(("platform", "calls"), [("tpu", 2), ("gpu", 0)])
def test_a_network_is_the_same_with_the_kernel(monkeypatch, platform, calls):
  rng = np.random.default_rng(0)
  images = jnp.asarray(rng.standard_normal((8, 12, 12, 3)), jnp.float32)
  plain, ours = _network(), _network(depthwise="pallas")

  def loss(network, params):
    return jnp.sum(jnp.sin(network.apply({"params": params}, images)))

  made = []

  def emulated(*arrays, otherwise):
    made.append(arrays)
    return _kernel(*arrays, otherwise)

  monkeypatch.setattr(placement, "platform", lambda: platform)
  params = ours.init(jax.random.key(0), images)["params"]
  params = jax.tree.map(
    lambda x: x + np.float32(0.1 * rng.standard_normal(x.shape)), params
  )
  expected = jax.value_and_grad(loss, 1)(plain, params)
  monkeypatch.setattr(depthwise_kernel, "depthwise_conv", emulated)
  found = jax.value_and_grad(loss, 1)(ours, params)
  assert len(made) == calls
  assert_trees_close(found, expected, rtol=1e-4, atol=1e-5)
