"""Swins: names, features, image sizes, stochastic depth, dtypes and remat."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.networks import (
  apply,
  assert_trees_close,
  find,
  random_params,
  tiny_swin,
)
from vit_jax import registry, trees
from vit_jax.models import build
from vit_jax.models.features import feature_names
from vit_jax.models.layers import placement
from vit_jax.models.swin import sizes
from vit_jax.models.swin.network import PatchMerging

VERSIONS = pytest.mark.parametrize("version", [1, 2])


@VERSIONS
def test_parameters_are_those_of_the_closed_form(version):
  network = tiny_swin(version=version)
  found = {
    name: tuple(leaf.shape)
    for name, leaf in trees.named_leaves(random_params(network))
  }
  model = build.config_of(network)
  assert found == registry.FAMILIES.get("swin").shapes(model, 5)
  assert build.create(model, num_classes=5) == network


@VERSIONS
def test_every_name_is_found_with_its_shape(version, large_images):
  network = tiny_swin(version=version)
  names = feature_names(network)
  found = find(network, random_params(network), large_images, names)
  shapes = {name: value.shape for name, value in found.items()}
  assert shapes.keys() == set(names)
  first, second = (2, 8, 8, 8), (2, 4, 4, 16)
  assert shapes == {
    "stem": first,
    "stage1/block01": first,
    "stage1/block02": first,
    "stage1": first,
    "stage2/block01": second,
    "stage2/block02": second,
    "stage2": second,
    "encoded": second,
    "pre_logits": (2, 16),
    "logits": (2, 5),
  }
  np.testing.assert_array_equal(found["stage1"], found["stage1/block02"])
  mean = np.mean(found["encoded"], axis=(1, 2))
  np.testing.assert_allclose(found["pre_logits"], mean, rtol=1e-5, atol=1e-6)


def test_a_smaller_map_is_one_window_that_does_not_move():
  size = sizes.SwinSize((2, 2, 6, 2), (3, 6, 12, 24), 96, 4, 7, 1)
  assert size.windows(224) == (7, 7, 7, 7)
  assert size.shifts(224) == (3, 3, 3, 0)
  assert size.windows(96) == (7, 7, 6, 3)
  assert size.shifts(96) == (3, 3, 0, 0)
  assert size.sides(100) == (25, 13, 7, 4)


@pytest.mark.parametrize(
  "image_size, window, depths, wanted",
  [
    (224, 7, (2, 2, 6, 2), False),
    (256, 7, (2, 2, 6, 2), True),
    (96, 7, (2, 2, 6, 2), True),  # Maps of 24, 12, 6 and 3.
    (48, 7, (2, 2, 6, 2), True),  # 12, 6, 3 and 2.
    (48, 7, (1, 2, 6, 2), False),  # One block does not move its windows.
    (24, 7, (2, 2, 6, 2), False),  # One window in each stage.
    (56, 1, (2, 2, 6, 2), False),
    (80, 8, (2, 2, 1, 2), True),  # 20, 10, 5 and 3.
    (80, 8, (2, 1, 1, 2), False),  # Half a window is left of 20.
  ],
)
def test_order_of_padding_and_moving_matters_where_windows_leave_a_rest(
  image_size, window, depths, wanted
):
  size = sizes.SwinSize(depths, (3, 6, 12, 24), 96, 4, window, 1)
  assert size.order_matters(image_size) is wanted


@VERSIONS
def test_order_of_padding_and_moving_reaches_the_blocks(version):
  """Maps of 11 and 6 places."""
  images = np.random.default_rng(0).standard_normal((1, 22, 22, 3))
  first, last = (
    tiny_swin(
      version=version, image_size=22, window_size=3, pad_before_shift=is_first
    )
    for is_first in (True, False)
  )
  params = random_params(first)
  assert build.config_of(last).pad_before_shift is False
  assert last.clone(pad_before_shift=True) == first
  found = [apply(network, params, images) for network in (first, last)]
  assert np.abs(found[0] - found[1]).max() > 1e-3
  images = images[:, :12, :12]  # Maps of 6 and 3 places.
  found = [apply(network, params, images) for network in (first, last)]
  np.testing.assert_array_equal(*found)


def test_blocks_of_version_2_start_as_the_identity(large_images):
  """`_init_respostnorm` of microsoft/Swin-Transformer."""
  network = tiny_swin(version=2)
  params = network.init(jax.random.key(0), large_images)["params"]
  names = ("stem", "stage1/block01", "stage1/block02", "stage1")
  found = find(network, params, large_images, names)
  for name in names[1:]:
    np.testing.assert_array_equal(found[name], found["stem"])
  assert np.std(found["stem"]) > 0.5


@VERSIONS
@pytest.mark.parametrize("shape", [(1, 9, 22, 3), (1, 5, 5, 3)])
def test_images_of_any_size_are_padded(version, shape):
  network = tiny_swin(version=version)
  images = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
  logits = apply(network, random_params(network), images)
  assert logits.shape == (1, 5) and np.isfinite(logits).all()


def test_padding_of_the_image_is_zeros():
  network = tiny_swin(version=2)
  images = np.random.default_rng(0).standard_normal((1, 15, 13, 3))
  images = images.astype(np.float32)
  padded = np.pad(images, ((0, 0), (0, 1), (0, 1), (0, 0)))
  params = random_params(network)
  np.testing.assert_allclose(
    apply(network, params, images), apply(network, params, padded), rtol=1e-5
  )


@pytest.mark.parametrize("platform", ["cpu", "tpu"])
def test_places_of_a_merging_are_in_the_published_order(platform, monkeypatch):
  """Both rows of a column come before the next column."""
  monkeypatch.setattr(placement, "platform", lambda: platform)
  rng = np.random.default_rng(0)
  x = rng.standard_normal((2, 4, 6, 3)).astype(np.float32)
  kernel = rng.standard_normal((12, 6)).astype(np.float32)
  variables = {
    "params": {
      "reduction": {"kernel": kernel},
      "norm": {"scale": np.ones(12, "f"), "bias": np.zeros(12, "f")},
    }
  }
  parts = [x[:, i::2, j::2] for j in range(2) for i in range(2)]
  joined = np.concatenate(parts, axis=-1)
  centred = joined - joined.mean(-1, keepdims=True)
  wanted = centred / centred.std(-1, keepdims=True) @ kernel
  found = PatchMerging(1, "float32").apply(variables, jnp.asarray(x))
  np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_merging_moves_the_same_numbers_on_tpus(dtype, monkeypatch):
  rng = np.random.default_rng(0)
  x = jnp.asarray(rng.standard_normal((2, 4, 6, 3)), dtype)
  merging = PatchMerging(2, dtype)
  variables = merging.init(jax.random.key(0), x)

  def results():
    value, vjp = jax.vjp(lambda x: merging.apply(variables, x), x)
    return value, *vjp(jnp.cos(value))

  plain = results()
  monkeypatch.setattr(placement, "platform", lambda: "tpu")
  jax.tree.map(np.testing.assert_array_equal, results(), plain)


@pytest.mark.parametrize(
  "remat",
  [
    "full",
    pytest.param("dots", marks=pytest.mark.slow),
    pytest.param("named", marks=pytest.mark.slow),
  ],
)
@VERSIONS
def test_what_is_recomputed_changes_nothing(version, remat, large_images):
  images = jnp.asarray(large_images)
  params = random_params(tiny_swin(version=version))

  def gradients(network):
    def loss(params):
      logits = network.apply(
        {"params": params}, images, train=True, rngs={"dropout": key}
      )
      return jnp.sum(jnp.sin(logits))

    return jax.jit(jax.grad(loss))(params)

  key = jax.random.key(0)
  keys = dict(version=version, stochastic_depth_rate=0.5)
  plain = gradients(tiny_swin(**keys))
  found = gradients(tiny_swin(**keys, remat=remat))
  assert_trees_close(found, plain, 1e-3)


@VERSIONS
def test_bfloat16_is_near_float32(version, large_images):
  network = tiny_swin(version=version)
  params = random_params(network)
  wanted = apply(network, params, large_images)
  found = apply(network.clone(dtype="bfloat16"), params, large_images)
  assert found.dtype == jnp.float32
  error = np.abs(found - wanted).max() / np.abs(wanted).max()
  assert 0 < error < 0.1


def test_stochastic_depth_grows_linearly_over_the_blocks():
  network = tiny_swin(stochastic_depth_rate=0.6)
  bound = network.bind({"params": random_params(network)})
  rates = [rate for stage in bound._stages for rate in stage.drop_rates]
  np.testing.assert_allclose(rates, [0, 0.2, 0.4, 0.6])


def test_examples_skip_branches_in_training_only(large_images):
  network = tiny_swin(stochastic_depth_rate=0.5)
  params = random_params(network)

  def logits(seed, *, train):
    rngs = {"dropout": jax.random.key(seed)}
    return jax.jit(network.apply, static_argnames="train")(
      {"params": params}, large_images, train=train, rngs=rngs
    )

  assert not np.allclose(logits(0, train=True), logits(1, train=True))
  wanted = apply(tiny_swin(), params, large_images)
  np.testing.assert_array_equal(logits(0, train=False), wanted)


def test_layers_are_the_blocks_through_all_stages():
  family = registry.FAMILIES.get("swin")
  model = family.find("Swin-T")
  found = {
    path: family.layer_of(model, path)
    for path in family.shapes(model, 10)
    if path.endswith(("kernel", "positions"))
  }
  assert {
    found["stem/conv/kernel"],
    family.layer_of(model, "stem/norm/bias"),
  } == {-1}
  assert found["stage1/block01/attention/positions"] == 0
  assert found["stage1/block02/expand/kernel"] == 1
  assert found["stage1/merge/reduction/kernel"] == 1
  assert found["stage3/block01/attention/keys/kernel"] == 4
  assert found["stage3/block06/project/kernel"] == 9
  assert found["stage3/merge/reduction/kernel"] == 9
  assert found["stage4/block02/project/kernel"] == 11
  assert found["head/kernel"] is None
  assert family.layer_of(model, "norm/scale") is None
