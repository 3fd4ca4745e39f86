"""PVTs: NumPy, dtypes, stochastic depth, features, layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models import oracle
from tests.models.networks import (
  apply,
  assert_trees_close,
  find,
  random_params,
  tiny_pvt,
)
from vit_jax import registry
from vit_jax.config import named_sections
from vit_jax.models.features import feature_names
from vit_jax.models.layers import placement
from vit_jax.models.pvt import reduced_attention, shapes

KINDS = pytest.mark.parametrize("linear", [False, True])


def dense(x, params):
  return x @ params["kernel"] + params["bias"]


def convolution(x, params, stride, padding):
  found = oracle.convolution(x, params["kernel"], stride, (padding, padding))
  return found + params["bias"]


def depthwise(x, params):
  """Channel by channel; `oracle.convolution` sums over channels."""
  kernel = params["kernel"]
  channels = [
    oracle.convolution(x[..., c : c + 1], kernel[..., c : c + 1], 1, (1, 1))
    for c in range(x.shape[-1])
  ]
  return np.concatenate(channels, axis=-1) + params["bias"]


def pooled(x, side):
  """Averages as PyTorch's AdaptiveAvgPool2d cuts a map into parts."""
  batch, rows, columns, channels = x.shape
  found = np.zeros((batch, side, side, channels))
  for i in range(side):
    for j in range(side):
      y = slice(i * rows // side, -(-(i + 1) * rows // side))
      z = slice(j * columns // side, -(-(j + 1) * columns // side))
      found[:, i, j] = x[:, y, z].mean(axis=(1, 2))
  return found


def attention(x, params, heads, reduction, linear):
  """One example, one head after the other."""
  smaller = x
  if linear:
    smaller = convolution(pooled(x, 7), params["reduce"], 1, 0)
    smaller = oracle.layer_norm(smaller, params["reduce_norm"], 1e-5)
    smaller = oracle.gelu(smaller, "exact")
  elif reduction > 1:
    rows, columns = (n // reduction * reduction for n in x.shape[1:3])
    cut = x[:, :rows, :columns]
    smaller = convolution(cut, params["reduce"], reduction, 0)
    smaller = oracle.layer_norm(smaller, params["reduce_norm"], 1e-5)
  result = np.zeros_like(x)
  for n, (image, keys) in enumerate(zip(x, smaller, strict=True)):
    query = dense(image.reshape(-1, x.shape[-1]), params["queries"])
    key, value = (
      dense(keys.reshape(-1, x.shape[-1]), params[name])
      for name in ("keys", "values")
    )
    parts = []
    for head in range(heads):
      q, k, v = (np.split(a, heads, axis=1)[head] for a in (query, key, value))
      scores = np.exp(q @ k.T / np.sqrt(q.shape[1]))
      parts.append(scores / scores.sum(axis=1, keepdims=True) @ v)
    joined = dense(np.concatenate(parts, axis=1), params["output"])
    result[n] = joined.reshape(image.shape)
  return result


def block(x, params, heads, reduction, linear):
  y = oracle.layer_norm(x, params["attention_norm"])
  x = x + attention(y, params["reduced_attention"], heads, reduction, linear)
  y = dense(oracle.layer_norm(x, params["mlp_norm"]), params["mlp"]["expand"])
  y = np.maximum(y, 0) if linear else y
  y = oracle.gelu(depthwise(y, params["mlp"]["depthwise"]), "exact")
  return x + dense(y, params["mlp"]["project"])


def network(images, params, linear):
  """The whole of `tiny_pvt`."""
  params = oracle.float64(params)
  x = images
  for name, side, stride, heads, reduction, blocks in (
    ("stage1", 7, 4, 1, 2, 1),
    ("stage2", 3, 2, 2, 1, 2),
  ):
    stage = params[name]
    x = convolution(x, stage["embed"]["conv"], stride, side // 2)
    x = oracle.layer_norm(x, stage["embed"]["norm"], 1e-5)
    for i in range(1, blocks + 1):
      x = block(x, stage[f"block0{i}"], heads, reduction, linear)
    x = oracle.layer_norm(x, stage["norm"])
  return dense(x.mean(axis=(1, 2)), params["head"])


@KINDS
@pytest.mark.parametrize("rows, columns", [(16, 16), (15, 12), (9, 16)])
def test_the_network_is_that_of_the_paper(linear, rows, columns, large_images):
  model = tiny_pvt(linear_attention=linear)
  images = large_images[:, :rows, :columns]
  params = random_params(model)
  np.testing.assert_allclose(
    apply(model, params, images),
    network(images, params, linear),
    rtol=1e-3,
    atol=1e-3,
  )


@pytest.mark.parametrize("rows, columns", [(7, 14), (4, 9), (1, 20)])
def test_pooling_has_pytorchs_parts(rows, columns):
  maps = np.random.default_rng(0).standard_normal((2, rows, columns, 3))
  found = reduced_attention.average_pool(jnp.asarray(maps), 7)
  np.testing.assert_allclose(found, pooled(maps, 7), rtol=1e-5, atol=1e-6)


def test_parameters_start_as_published(large_images):
  """0.02 of dense layers, sqrt(2 / fan-out) of convolutions, zeros."""
  model = tiny_pvt(
    depths=(1,), widths=(64,), num_heads=(1,), reductions=(2,), expansions=(8,)
  )
  stage = model.init(jax.random.key(0), large_images)["params"]["stage1"]
  first = stage["block01"]
  deviations = {
    "expand": (first["mlp"]["expand"], 0.02),
    "depthwise": (first["mlp"]["depthwise"], np.sqrt(2 / 9)),
    "reduce": (first["reduced_attention"]["reduce"], np.sqrt(2 / (4 * 64))),
    "conv": (stage["embed"]["conv"], np.sqrt(2 / (49 * 64))),
  }
  for params, wanted in deviations.values():
    assert np.std(params["kernel"]) == pytest.approx(wanted, rel=0.05)
    assert not np.any(params["bias"])


def test_features_have_their_names_and_shapes(large_images):
  model = tiny_pvt()
  names = feature_names(model)
  found = find(model, random_params(model), large_images, names)
  assert {name: found[name].shape for name in names} == {
    "stage1/embed": (2, 4, 4, 4),
    "stage1/block01": (2, 4, 4, 4),
    "stage1": (2, 4, 4, 4),
    "stage2/embed": (2, 2, 2, 6),
    "stage2/block01": (2, 2, 2, 6),
    "stage2/block02": (2, 2, 2, 6),
    "stage2": (2, 2, 2, 6),
    "encoded": (2, 2, 2, 6),
    "pre_logits": (2, 6),
    "logits": (2, 5),
  }
  np.testing.assert_allclose(
    found["pre_logits"], found["encoded"].mean(axis=(1, 2)), rtol=1e-5
  )


@pytest.mark.parametrize(
  "remat",
  [
    "full",
    pytest.param("dots", marks=pytest.mark.slow),
    pytest.param("named", marks=pytest.mark.slow),
  ],
)
@KINDS
def test_remat_changes_no_gradient(linear, remat, large_images):
  images = jnp.asarray(large_images)
  keys = dict(linear_attention=linear, stochastic_depth_rate=0.5)
  params = random_params(tiny_pvt(**keys))

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

  wanted = grads(tiny_pvt(**keys))
  found = grads(tiny_pvt(remat=remat, **keys))
  assert_trees_close(found, wanted, rtol=1e-3, atol=1e-4)


def test_kept_products_are_not_computed_again_on_tpus(
  large_images, monkeypatch
):
  monkeypatch.setattr(placement, "platform", lambda: "tpu")
  images = jnp.asarray(large_images)
  params = random_params(tiny_pvt())

  def num_convolutions(remat):
    def loss(params):
      model = tiny_pvt(remat=remat)
      return jnp.sum(model.apply({"params": params}, images, train=True))

    text = str(jax.make_jaxpr(jax.grad(loss))(params))
    return text.count(" conv_general_dilated[")

  # Both compute depthwise convolutions again, and neither a block's last
  # product, which is only added to. Two products are left, and a third where
  # the map of keys and values is reduced.
  kept = num_convolutions("full") - num_convolutions("dots")
  depths, reductions = tiny_pvt().depths, tiny_pvt().reductions
  reduced = [d for d, r in zip(depths, reductions, strict=True) if r > 1]
  assert 0 < len(reduced) < len(depths)
  assert kept == 2 * sum(depths) + sum(reduced)


@KINDS
def test_bfloat16_stays_bfloat16_until_the_logits(linear, large_images):
  images = jnp.asarray(large_images)
  params = random_params(tiny_pvt(linear_attention=linear))
  model = tiny_pvt(linear_attention=linear, dtype="bfloat16")

  def loss(params):
    logits = model.apply({"params": params}, images)
    assert logits.dtype == jnp.float32
    return jnp.sum(logits)

  with jax.numpy_dtype_promotion("strict"):
    grads = jax.eval_shape(jax.grad(loss), params)
  assert {x.dtype for x in jax.tree.leaves(grads)} == {jnp.dtype("float32")}
  name = "stage2/block02"
  assert find(model, params, images, [name])[name].dtype == jnp.bfloat16


def test_rates_of_stochastic_depth_grow_over_all_blocks(large_images):
  """0, 0.4 and 0.8, of each branch; examples are skipped one by one."""
  model = tiny_pvt(stochastic_depth_rate=0.8)
  params = jax.tree.map(jnp.asarray, random_params(model))
  examples = 400
  images = np.repeat(large_images[:1], examples, axis=0)
  # Op by op: a map that a fused program computes twice is rounded twice.
  _, sown = model.apply(
    {"params": params},
    images,
    train=True,
    mutable=["intermediates"],
    rngs={"dropout": jax.random.key(0)},
  )
  maps = oracle.float64(sown["intermediates"])
  first = maps["stage1"]["block01"]["map"][0]
  assert (first == first[0]).all()
  embed = maps["stage2"]["embed_map"][0]
  second, last = (maps["stage2"][f"block0{i}"]["map"][0] for i in (1, 2))
  for before, after, rate in ((embed, second, 0.4), (second, last, 0.8)):
    skipped = (before == after).all(axis=(1, 2, 3)).mean()
    both = rate**2
    deviation = np.sqrt(both * (1 - both) / examples)
    assert skipped == pytest.approx(both, abs=4 * deviation)


def test_blocks_are_layers_and_embeddings_join_the_next():
  model = named_sections.section("model", name="pvt", variant="b2")
  family = registry.FAMILIES.get("pvt")
  found = {
    path: family.layer_of(model, path) for path in shapes.shapes(model, 1000)
  }
  assert found["stage1/embed/conv/kernel"] == -1
  assert found["stage1/block01/mlp/expand/bias"] == 0
  assert found["stage1/norm/scale"] == 2
  assert found["stage2/embed/norm/bias"] == 3
  assert found["stage3/block06/attention_norm/scale"] == 3 + 4 + 5
  assert found["stage4/block03/reduced_attention/keys/kernel"] == 15
  assert found["stage4/norm/bias"] == 15
  assert found["head/kernel"] is None
