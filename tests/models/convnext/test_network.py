"""ConvNeXts: NumPy, published counts, dtypes, stochastic depth, features."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from tests.models import oracle
from tests.models.networks import (
  apply,
  assert_trees_close,
  find,
  random_params,
  tiny_convnext,
)
from vit_jax import trees
from vit_jax.errors import UserError
from vit_jax.models.features import feature_names, features

VERSIONS = pytest.mark.parametrize("version", [1, 2])


def depthwise(x, params):
  """Channel by channel; `oracle.convolution` sums over channels."""
  kernel = params["kernel"]
  channels = [
    oracle.convolution(x[..., c : c + 1], kernel[..., c : c + 1], 1, (3, 3))
    for c in range(x.shape[-1])
  ]
  return np.concatenate(channels, axis=-1) + params["bias"]


def dense(x, params):
  return x @ params["kernel"] + params["bias"]


def grn(x, params):
  """Equations 1 to 3 of arXiv 2301.00808, one example after the other."""
  result = np.zeros_like(x)
  for n, maps in enumerate(x):
    norms = [np.linalg.norm(maps[..., c]) for c in range(x.shape[-1])]
    strength = np.array(norms) / (np.mean(norms) + 1e-6)
    result[n] = params["scale"] * (maps * strength) + params["bias"] + maps
  return result


def block(x, params):
  params = oracle.float64(params)
  y = oracle.layer_norm(depthwise(x, params["depthwise"]), params["norm"])
  y = oracle.gelu(dense(y, params["expand"]), "exact")
  if "grn" in params:
    y = grn(y, params["grn"])
  y = dense(y, params["project"])
  return x + y * params.get("gamma", 1.0)


def patches(x, params, side):
  return oracle.convolution(x, params["kernel"], side, (0, 0)) + params["bias"]


def network(images, params):
  """The whole of `tiny_convnext`."""
  params = oracle.float64(params)
  x = patches(images, params["stem"]["conv"], 4)
  x = oracle.layer_norm(x, params["stem"]["norm"])
  x = block(x, params["stage1"]["block01"])
  down = params["stage2"]["downsample"]
  x = patches(oracle.layer_norm(x, down["norm"]), down["conv"], 2)
  for name in ("block01", "block02"):
    x = block(x, params["stage2"][name])
  pooled = oracle.layer_norm(x.mean(axis=(1, 2)), params["norm"])
  return dense(pooled, params["head"])


@VERSIONS
def test_a_block_is_that_of_the_papers(version, large_images):
  model = tiny_convnext(version=version)
  params = random_params(model)
  found = find(model, params, large_images, ["stem", "stage1/block01"])
  wanted = block(oracle.float64(found["stem"]), params["stage1"]["block01"])
  np.testing.assert_allclose(
    found["stage1/block01"], wanted, rtol=1e-4, atol=1e-4
  )


@VERSIONS
@pytest.mark.parametrize("side", [16, 15, 11])
def test_the_network_is_that_of_the_papers(version, side, large_images):
  """Rows and columns that fill no patch are dropped."""
  images = large_images[:, :side, :side]
  params = random_params(tiny_convnext(version=version))
  np.testing.assert_allclose(
    apply(tiny_convnext(version=version), params, images),
    network(images, params),
    rtol=1e-3,
    atol=1e-3,
  )


@pytest.mark.parametrize(
  "name, millions",
  [("ConvNeXt-T", 28.6), ("ConvNeXtV2-atto", 3.7)],
)
def test_a_model_by_name_has_the_published_parameters(name, millions):
  _, params = vit_jax.create_model(name, image_size=32)
  assert round(trees.num_elements(params) / 1e6, 1) == millions


def test_parameters_start_as_published(large_images):
  """Deviation 0.02, zeros, and factors of 1e-6."""
  for version in (1, 2):
    model = tiny_convnext(version=version, depths=(1,), widths=(64,))
    params = model.init(jax.random.key(0), large_images)["params"]
    first = params["stage1"]["block01"]
    for kernel in (first["expand"], first["depthwise"], first["project"]):
      assert np.std(kernel["kernel"]) == pytest.approx(0.02, rel=0.05)
      assert not np.any(kernel["bias"])
    if version == 1:
      np.testing.assert_array_equal(
        first["gamma"], np.full(64, np.float32(1e-6))
      )
    else:
      assert not np.any(first["grn"]["scale"])
      assert not np.any(first["grn"]["bias"])


def test_without_a_head_the_normalised_mean_is_given(large_images):
  params = random_params(tiny_convnext())
  params.pop("head")
  bare = tiny_convnext(num_classes=None)
  found = find(bare, params, large_images, ["encoded", "pre_logits"])
  wanted = oracle.layer_norm(found["encoded"].mean(axis=(1, 2)), params["norm"])
  np.testing.assert_allclose(found["pre_logits"], wanted, rtol=1e-4, atol=1e-4)
  np.testing.assert_array_equal(
    apply(bare, params, large_images), found["pre_logits"]
  )


def test_features_have_their_names_and_shapes(large_images):
  model = tiny_convnext()
  names = feature_names(model)
  found = find(model, random_params(model), large_images, names)
  assert {name: found[name].shape for name in names} == {
    "stem": (2, 4, 4, 6),
    "stage1/block01": (2, 4, 4, 6),
    "stage1": (2, 4, 4, 6),
    "stage2/block01": (2, 2, 2, 8),
    "stage2/block02": (2, 2, 2, 8),
    "stage2": (2, 2, 2, 8),
    "encoded": (2, 2, 2, 8),
    "pre_logits": (2, 8),
    "logits": (2, 5),
  }
  np.testing.assert_array_equal(found["stage2"], found["stage2/block02"])
  with pytest.raises(UserError, match="stage2/block02"):
    features(model, {}, large_images, ["stage2/block2"])


@pytest.mark.parametrize(
  "remat",
  [
    "full",
    pytest.param("dots", marks=pytest.mark.slow),
    pytest.param("named", marks=pytest.mark.slow),
  ],
)
@VERSIONS
def test_remat_changes_no_gradient(version, remat, large_images):
  images = jnp.asarray(large_images)
  keys = dict(version=version, stochastic_depth_rate=0.5)
  params = random_params(tiny_convnext(**keys))

  def grads(model):
    def loss(params):
      logits = model.apply(
        {"params": params},
        images,
        train=True,
        rngs={"dropout": jax.random.key(3)},
      )
      return jnp.sum(jnp.sin(logits))

    return jax.jit(jax.grad(loss))(params)

  wanted = grads(tiny_convnext(**keys))
  found = grads(tiny_convnext(remat=remat, **keys))
  assert_trees_close(found, wanted, rtol=1e-3, atol=1e-4)


def test_remat_keeps_the_products_that_it_names(large_images):
  """The backward pass has as many more products as are not kept."""
  images = jnp.asarray(large_images)

  def products(remat):
    model = tiny_convnext(remat=remat)
    params = jax.tree.map(jnp.asarray, random_params(model))

    def loss(params):
      return jnp.sum(model.apply({"params": params}, images))

    return str(jax.make_jaxpr(jax.grad(loss))(params)).count("dot_general[")

  none, dots, named, full = map(products, ("none", "dots", "named", "full"))
  assert none == dots < named <= full


@VERSIONS
def test_bfloat16_stays_bfloat16_until_the_logits(version, large_images):
  images = jnp.asarray(large_images)
  params = random_params(tiny_convnext(version=version))
  model = tiny_convnext(version=version, dtype="bfloat16")

  def loss(params):
    logits = model.apply({"params": params}, images)
    assert logits.dtype == jnp.float32
    return jnp.sum(logits)

  with jax.numpy_dtype_promotion("strict"):
    grads = jax.eval_shape(jax.grad(loss), params)
  assert {x.dtype for x in jax.tree.leaves(grads)} == {jnp.dtype("float32")}
  name = "stage2/block02"
  assert find(model, params, images, [name])[name].dtype == jnp.bfloat16
  np.testing.assert_allclose(
    apply(model, params, images),
    apply(tiny_convnext(version=version), params, images),
    rtol=0.1,
    atol=0.15,
  )


def test_rates_of_stochastic_depth_grow_over_all_blocks(large_images):
  """0, 0.3 and 0.6; the branches of other examples are scaled up for it."""
  model = tiny_convnext(stochastic_depth_rate=0.6)
  params = random_params(model)
  examples = 400
  images = np.repeat(large_images[:1], examples, axis=0)
  apply_train = functools.partial(
    model.apply, train=True, mutable=["intermediates"]
  )
  _, sown = jax.jit(apply_train)(
    {"params": params}, images, rngs={"dropout": jax.random.key(0)}
  )
  maps = oracle.float64(sown["intermediates"])
  last, before = (maps["stage2"][f"block0{i}"]["map"][0] for i in (2, 1))
  skips = (last == before).all(axis=(1, 2, 3))
  deviation = np.sqrt(0.6 * 0.4 / examples)
  assert np.mean(skips) == pytest.approx(0.6, abs=4 * deviation)
  kept = np.flatnonzero(~skips)[:1]
  wanted = block(before[kept], params["stage2"]["block02"]) - before[kept]
  np.testing.assert_allclose(
    last[kept] - before[kept], wanted / 0.4, rtol=1e-3, atol=1e-3
  )
  # All examples are alike: without a first block that is ever skipped, the
  # second one's results are of two kinds, three in ten without its branch.
  kinds, counts = np.unique(before[:, 0, 0, 0].round(3), return_counts=True)
  assert len(kinds) == 2
  deviation = np.sqrt(0.3 * 0.7 / examples)
  assert min(counts) / examples == pytest.approx(0.3, abs=4 * deviation)


def test_nothing_is_skipped_where_nothing_is_trained(large_images):
  model = tiny_convnext(stochastic_depth_rate=0.9)
  params = random_params(model)
  np.testing.assert_array_equal(
    apply(model, params, large_images),
    apply(tiny_convnext(), params, large_images),
  )


def test_one_set_of_parameters_takes_images_of_any_size(large_images):
  model = tiny_convnext(image_size=48)
  np.testing.assert_array_equal(
    apply(model, random_params(model), large_images),
    apply(tiny_convnext(), random_params(model), large_images),
  )
