"""Attention within windows against a loop over all pairs of places."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.networks import assert_trees_close, unflatten
from tests.models.oracle import float64
from vit_jax.errors import UserError
from vit_jax.models.layers import placement, short_attention
from vit_jax.models.swin import window_attention
from vit_jax.models.swin.window_attention import WindowAttention

HEADS, CHANNELS = 2, 6


def position_bias(params, version, window, pretrained, dy, dx):
  """Of a query that lies dy below and dx to the right of a key, per head."""
  if version == 1:
    row = (dy + window - 1) * (2 * window - 1) + dx + window - 1
    return params["positions"][row]
  offsets = np.asarray([dy, dx]) * 8 / (pretrained - 1)
  offsets = np.sign(offsets) * np.log2(1 + np.abs(offsets)) / 3
  layers = params["position_hidden"], params["position_bias"]
  hidden = offsets @ layers[0]["kernel"] + layers[0]["bias"]
  biases = np.maximum(hidden, 0) @ layers[1]["kernel"]
  return 16 / (1 + np.exp(-biases))


def score(params, version, head, query, key):
  if version == 1:
    return query @ key / math.sqrt(len(query))
  lengths = math.sqrt((query @ query) * (key @ key))
  cosine = query @ key / lengths if lengths else 0  # Padding is zeros.
  return cosine * min(math.exp(params["log_scale"][head]), 100)


def looped(
  x, params, *, version, window, shift, pretrained, pad_before_shift=True
):
  """Every query looks at every key, if one window holds both.

  Windows are moved by `shift` over a map that is closed to a torus; where one
  crosses the border, the two sides of it do not see each other. If the map is
  padded after that, it is closed without the padding, which follows; windows
  are parted as if it were padded before.
  """
  params, x = float64((params, x))
  height, width, _ = x.shape
  sides = tuple(-(-side // window) * window for side in (height, width))
  rows, columns = sides
  padded = np.zeros((rows, columns, CHANNELS))
  padded[:height, :width] = x
  places = [(y, x) for y in range(rows) for x in range(columns)]
  parts = {}
  for name in ("queries", "keys", "values"):
    layer = params[name]
    part = padded @ layer["kernel"] + layer.get("bias", 0)
    parts[name] = part.reshape(rows, columns, HEADS, -1)

  def moved(place):
    closed = sides if pad_before_shift else (height, width)
    return [
      (i - shift) % n if i < n else i
      for i, n in zip(place, closed, strict=True)
    ]

  def window_of(place):
    at = moved(place)
    crossed = [i >= n - shift for i, n in zip(at, sides, strict=True)]
    return [i // window for i in at], crossed

  result = np.zeros((rows, columns, HEADS, CHANNELS // HEADS))
  for query in places:
    seen = [key for key in places if window_of(key) == window_of(query)]
    for head in range(HEADS):
      scores = np.asarray(
        [
          score(
            params,
            version,
            head,
            parts["queries"][query][head],
            parts["keys"][key][head],
          )
          + position_bias(
            params,
            version,
            window,
            pretrained,
            *np.subtract(moved(query), moved(key)),
          )[head]
          for key in seen
        ]
      )
      weights = np.exp(scores - scores.max())
      weights /= weights.sum()
      values = np.stack([parts["values"][key][head] for key in seen])
      result[query][head] = weights @ values
  output = params["output"]
  result = result.reshape(rows, columns, -1) @ output["kernel"]
  return (result + output["bias"])[:height, :width]


def random_params(version, window, log_scale=2.5, seed=0):
  rng = np.random.default_rng(seed)
  c = CHANNELS
  shapes = {
    "queries/kernel": (c, c),
    "queries/bias": (c,),
    "keys/kernel": (c, c),
    "values/kernel": (c, c),
    "values/bias": (c,),
    "output/kernel": (c, c),
    "output/bias": (c,),
  }
  if version == 1:
    shapes["keys/bias"] = (c,)
    shapes["positions"] = ((2 * window - 1) ** 2, HEADS)
  else:
    shapes["position_hidden/kernel"] = (2, 512)
    shapes["position_hidden/bias"] = (512,)
    shapes["position_bias/kernel"] = (512, HEADS)
  params = {
    name: rng.standard_normal(shape).astype(np.float32)
    / math.sqrt(shape[0] if name.endswith("kernel") else 1)
    for name, shape in shapes.items()
  }
  if version == 2:
    params["log_scale"] = np.asarray([1.5, log_scale], np.float32)
  return unflatten(params)


def maps(height, width):
  rng = np.random.default_rng(height)
  return rng.standard_normal((2, height, width, CHANNELS)).astype(np.float32)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
  "height, width, window, shift",
  [
    (6, 6, 3, 0),
    (6, 6, 3, 1),
    (8, 4, 4, 2),
    (7, 5, 3, 1),  # Padded on both sides.
    (5, 4, 2, 1),
    (3, 3, 3, 0),  # One window.
  ],
)
def test_places_see_those_of_their_window_and_side(
  version, height, width, window, shift
):
  # Scores of 100, the most that version 2 has, can outweigh a mask of -100.
  params = random_params(version, window, log_scale=2.5 if shift else 5.0)
  images = maps(height, width)
  pretrained = window if height % 2 else window + 2
  module = WindowAttention(HEADS, window, shift, version, pretrained, "float32")
  found = jax.jit(module.apply)({"params": params}, images)
  for image, ours in zip(images, found, strict=True):
    wanted = looped(
      image,
      params,
      version=version,
      window=window,
      shift=shift,
      pretrained=pretrained,
    )
    np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=2e-5)


def check_padding_after_the_move(version, height, width, window, shift):
  params, images = random_params(version, window), maps(height, width)
  keys = (HEADS, window, shift, version, window, "float32")
  module = WindowAttention(*keys, pad_before_shift=False)
  found = jax.jit(module.apply)({"params": params}, images)
  numbers = dict(version=version, window=window, shift=shift, pretrained=window)
  for image, ours in zip(images, found, strict=True):
    wanted = looped(image, params, **numbers, pad_before_shift=False)
    np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=2e-5)
  others = jax.jit(WindowAttention(*keys).apply)({"params": params}, images)
  assert np.abs(found - others).max() > 0.01


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
  "height, width, window, shift", [(7, 5, 3, 1), (8, 6, 3, 1), (9, 4, 4, 2)]
)
def test_padding_after_the_move_follows_what_crossed_the_border(
  version, height, width, window, shift
):
  check_padding_after_the_move(version, height, width, window, shift)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("window, shift", [(3, 1), (4, 2)])
def test_no_padding_or_half_a_window_is_the_same_in_either_order(
  version, window, shift
):
  params, images = random_params(version, window), maps(6, 18)
  found = [
    jax.jit(
      WindowAttention(
        HEADS,
        window,
        shift,
        version,
        window,
        "float32",
        pad_before_shift=is_first,
      ).apply
    )({"params": params}, images)
    for is_first in (True, False)
  ]
  np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-5)


@pytest.fixture
def as_on_tpus(monkeypatch):
  """The form that TPUs get, for this machine."""
  monkeypatch.setattr(placement, "platform", lambda: "tpu")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
  "height, width, window, shift",
  [(6, 6, 3, 1), (6, 4, 2, 0), (8, 5, 3, 1), (9, 9, 3, 2), (16, 8, 8, 4)],
)
def test_two_windows_in_a_sequence_do_not_see_each_other(
  as_on_tpus, version, height, width, window, shift
):
  params = random_params(version, window)
  images = maps(height, width)
  module = WindowAttention(HEADS, window, shift, version, window, "float32")
  found = jax.jit(module.apply)({"params": params}, images)
  for image, ours in zip(images, found, strict=True):
    wanted = looped(
      image,
      params,
      version=version,
      window=window,
      shift=shift,
      pretrained=window,
    )
    np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("version", [1, 2])
def test_padding_after_the_move_is_there_on_tpus_too(as_on_tpus, version):
  check_padding_after_the_move(version, 8, 5, 3, 1)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("shift", [0, 1])
def test_gradients_on_tpus_are_those_elsewhere(monkeypatch, version, shift):
  params, images = random_params(version, 2), jnp.asarray(maps(4, 6))
  module = WindowAttention(HEADS, 2, shift, version, 2, "float32")

  def gradients(platform):
    monkeypatch.setattr(placement, "platform", lambda: platform)

    def loss(params, images):
      return jnp.sum(jnp.sin(module.apply({"params": params}, images)))

    return jax.jit(jax.grad(loss, argnums=(0, 1)))(params, images)

  assert_trees_close(gradients("tpu"), gradients("cpu"))


@pytest.fixture
def emulated(monkeypatch):
  """The kernel for TPUs, on this machine."""
  monkeypatch.setattr(placement, "platform", lambda: "tpu")
  monkeypatch.setattr(placement, "device_kind", lambda: "TPU v5 lite")
  monkeypatch.setattr(
    short_attention,
    "attend",
    functools.partial(short_attention.attend, interpret=True),
  )


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
  "height, width, window, shift, pad_before_shift",
  [
    (6, 6, 3, 1, True),
    (6, 4, 2, 0, True),
    (8, 5, 3, 1, True),
    (8, 5, 3, 1, False),
    (3, 3, 3, 0, True),
  ],
)
def test_kernel_sees_what_products_see(
  emulated, version, height, width, window, shift, pad_before_shift
):
  params, images = (
    random_params(version, window),
    jnp.asarray(maps(height, width)),
  )

  def results(attention):
    module = WindowAttention(
      HEADS,
      window,
      shift,
      version,
      window,
      "float32",
      attention,
      pad_before_shift,
    )

    def loss(params, images):
      found = module.apply({"params": params}, images)
      return jnp.sum(jnp.sin(found)), found

    return jax.grad(loss, argnums=(0, 1), has_aux=True)(params, images)

  found, wanted = map(results, ("pallas", "xla"))
  for one, other in zip(*map(jax.tree.leaves, (found, wanted)), strict=True):
    # Sums of many terms are rounded by the largest of them.
    largest = max(1.0, np.abs(other).max())
    np.testing.assert_allclose(one, other, rtol=0, atol=2e-5 * largest)


def test_kernel_without_a_tpu_says_what_to_use():
  if jax.default_backend() == "tpu":
    pytest.skip("needs a machine without a TPU")
  module = WindowAttention(HEADS, 3, 0, 1, 3, "float32", "pallas")
  params, images = random_params(1, 3), jnp.asarray(maps(6, 6))
  with pytest.raises(UserError, match="needs a TPU.*attention='xla'"):
    module.apply({"params": params}, images)


@pytest.mark.parametrize("places", [-3, -1, 0, 2, 4])
def test_moving_closes_the_map_to_a_torus(as_on_tpus, places):
  images = maps(5, 7)
  found = window_attention.moved(jnp.asarray(images), places)
  wanted = np.roll(images, (places, places), axis=(1, 2))
  np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("version", [1, 2])
def test_gradients_are_the_loops_differences(version):
  params, images = random_params(version, 2), maps(4, 6)[:1]
  module = WindowAttention(HEADS, 2, 1, version, 2, "float32")

  @jax.jit
  @jax.grad
  def gradients(params):
    result = module.apply({"params": params}, jnp.asarray(images))
    return jnp.sum(jnp.sin(result))

  def loss(params):
    sizes = dict(version=version, window=2, shift=1, pretrained=2)
    return np.sum(np.sin(looped(images[0], params, **sizes)))

  rng = np.random.default_rng(3)
  found, params = gradients(params), float64(params)
  for name, layer in params.items():
    step = jax.tree.map(lambda x: 1e-5 * rng.standard_normal(x.shape), layer)
    above = {**params, name: jax.tree.map(np.add, layer, step)}
    below = {**params, name: jax.tree.map(np.subtract, layer, step)}
    slopes = jax.tree.map(lambda g, d: np.sum(g * d), found[name], step)
    np.testing.assert_allclose(
      sum(jax.tree.leaves(slopes)) * 1e5,
      (loss(above) - loss(below)) / 2 * 1e5,
      rtol=1e-3,
      atol=1e-4,
      err_msg=name,
    )


def test_partition_and_merge_are_inverse():
  images = jnp.asarray(maps(6, 9))
  windows = window_attention.partition(images, 3)
  assert windows.shape == (2, 6, 9, CHANNELS)
  np.testing.assert_array_equal(windows[:, 1, 5], images[:, 1, 5])
  merged = window_attention.merge(windows, 6, 9, 3)
  np.testing.assert_array_equal(merged, images)


def test_bfloat16_products_keep_a_float32_softmax():
  """Two scores of 80 and 80.25 are told apart, which bfloat16 cannot."""
  params = random_params(1, 2)
  for name in ("queries", "keys"):
    params[name] = jax.tree.map(np.zeros_like, params[name])
  params["positions"][:] = 80.0
  params["positions"][4] = 80.25  # A place and itself.
  module = WindowAttention(HEADS, 2, 0, 1, 2, "bfloat16")
  images = maps(2, 2)
  found = module.apply({"params": params}, jnp.asarray(images, "bfloat16"))
  assert found.dtype == jnp.bfloat16
  wanted = looped(images[0], params, version=1, window=2, shift=0, pretrained=2)
  np.testing.assert_allclose(
    np.asarray(found[0], np.float32), wanted, rtol=0.05, atol=0.02
  )
