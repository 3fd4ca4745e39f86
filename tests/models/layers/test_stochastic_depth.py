"""Parts of groups of examples that skip a branch, and are not computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import experiments
from tests.models import oracle
from tests.models.networks import (
  assert_trees_close,
  random_params,
  tiny,
)
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.models.layers.skipping_groups import Groups
from vit_jax.models.layers.stochastic_depth import add_branch

KEYS = dict(stochastic_depth="constant", stochastic_depth_group=8)
TOKENS = jnp.asarray(np.random.default_rng(0).normal(size=(24, 3, 2)))


def image_batch(count):
  rng = np.random.default_rng(3)
  return rng.normal(size=(count, 8, 8, 3)).astype(np.float32)


def apply(model, params, images, seed=0):
  return jax.jit(
    lambda params, key: model.apply(
      {"params": params}, images, train=True, rngs={"dropout": key}
    )
  )(params, jax.random.key(seed))


@pytest.mark.parametrize(
  ("rate", "size", "num", "groups", "kept"),
  [
    # int(b (1 - rate)) of dinov2's block.py.
    (0.4, 8, 24, 3, 4),
    (0.3, 64, 24, 3, 5),  # Groups of 8, the common divisor.
    (0.9, 4, 24, 6, 1),
  ],
)
def test_a_fixed_share_of_each_group_has_a_scaled_branch(
  rate, size, num, groups, kept
):
  seen = []

  def branch(tokens, mask):
    seen.append((tokens.shape, mask.shape))
    return tokens * mask[:, :, None] + 1

  mask = jnp.arange(24.0 * 3).reshape(24, 3)
  found = add_branch(
    branch, TOKENS, Groups(rate, size), jax.random.key(1), mask
  )
  assert seen == [((groups * kept, 3, 2), (groups * kept, 3))]
  change = np.asarray(found) - TOKENS
  size = num // groups
  whole = size / kept * (TOKENS * mask[:, :, None] + 1)
  has = np.abs(change).max(axis=(1, 2)) > 0
  assert (has.reshape(groups, size).sum(axis=1) == kept).all()
  np.testing.assert_allclose(change[has], whole[has], rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_a_branch_that_is_multiplied_by_zero_or_more():
  key, groups = jax.random.key(1), Groups(0.4, 8)
  constant = add_branch(jnp.ones_like, jnp.zeros_like(TOKENS), groups, key)
  weights = jnp.asarray(np.random.default_rng(1).normal(size=TOKENS.shape))

  def skipped(tokens, scale):
    found = add_branch(lambda x: jnp.sin(scale * x), tokens, groups, key)
    return jnp.sum(weights * found)

  def whole(tokens, scale):
    return jnp.sum(weights * (tokens + constant * jnp.sin(scale * tokens)))

  found = jax.jit(jax.grad(skipped, argnums=(0, 1)))(TOKENS, 1.5)
  wanted = jax.jit(jax.grad(whole, argnums=(0, 1)))(TOKENS, 1.5)
  assert_trees_close(found, wanted)


def test_the_expectation_is_that_of_the_whole_branch():
  draw = jax.jit(
    jax.vmap(lambda key: add_branch(jnp.cos, TOKENS, Groups(0.4, 8), key))
  )
  mean = draw(jax.random.split(jax.random.key(0), 2000)).mean(axis=0)
  # Standard deviation of the mean: 2000^-1/2 of that of 0 or 2 at most.
  np.testing.assert_allclose(mean, TOKENS + np.cos(TOKENS), atol=5 / 2000**0.5)


@pytest.mark.parametrize("changes", [{"scan_layers": True}, {"remat": "full"}])
def test_scanned_and_recomputed_layers_draw_anew_in_each(changes):
  """Of blocks that add a bias alone, each adds 2 to half of every group."""
  model = tiny(stochastic_depth_rate=0.5, **KEYS, **changes)
  params = jax.tree.map(np.zeros_like, random_params(model))
  encoder = params["Transformer"]
  for name in encoder:
    if name.startswith("encoderblock"):
      encoder[name]["MlpBlock_0"]["Dense_1"]["bias"][...] = 1.0
  _, sown = model.apply(
    {"params": params},
    np.zeros((64, 8, 8, 3), np.float32),
    train=True,
    rngs={"dropout": jax.random.key(0)},
    mutable=["intermediates"],
  )
  sown = sown["intermediates"]["Transformer"]
  if "scan_layers" in changes:
    layers = np.asarray(sown["encoderblock"]["tokens"][0])
  else:
    names = [f"encoderblock_{i}" for i in range(3)]
    layers = np.stack([sown[name]["tokens"][0] for name in names])
  added = np.diff(layers[:, :, 0, 0], axis=0, prepend=0)
  assert set(np.unique(added)) == {0.0, 2.0}
  assert (added.reshape(3, 8, 8).sum(axis=2) == 8).all()
  assert (added[0] != added[1]).any() and (added[1] != added[2]).any()


def test_gradients_are_the_same_when_layers_are_computed_again():
  params, images = random_params(tiny()), image_batch(8)

  def gradient(**changes):
    model = tiny(stochastic_depth_rate=0.4, **KEYS, **changes)
    return jax.grad(lambda p: jnp.sin(apply(model, p, images)).sum())(params)

  assert_trees_close(gradient(), gradient(remat="full"))


def test_a_rate_of_zero_is_the_network_without():
  params, images = random_params(tiny()), image_batch(8)
  np.testing.assert_array_equal(
    apply(tiny(**KEYS), params, images), apply(tiny(), params, images)
  )


def test_what_is_kept_is_each_block_of_the_equations():
  """Of one layer, a group of two: one example has twice each branch."""
  model = tiny(
    depth=1,
    stochastic_depth_rate=0.5,
    stochastic_depth="constant",
    stochastic_depth_group=2,
    num_classes=None,
    gelu="exact",
  )
  params, images = random_params(model), image_batch(2)
  _, sown = model.apply(
    {"params": params},
    images,
    train=True,
    rngs={"dropout": jax.random.key(4)},
    mutable=["intermediates"],
  )
  sown = sown["intermediates"]["Transformer"]
  before = np.float64(sown["embedded"][0])
  after = np.float64(sown["encoderblock_0"]["tokens"][0])
  block = params["Transformer"]["encoderblock_0"]
  num_branches = 0
  for tokens, found in zip(before, after, strict=True):
    x = oracle.layer_norm(tokens, block["LayerNorm_0"])
    x, _ = oracle.attention(x, x, block["MultiHeadDotProductAttention_0"])
    distances = {}
    for attends, once in ((0, tokens), (1, tokens + 2 * x)):
      y = oracle.layer_norm(once, block["LayerNorm_1"])
      y = oracle.mlp(y, block["MlpBlock_0"], "exact")
      for is_mlp, twice in ((0, once), (1, once + 2 * y)):
        distances[attends + is_mlp, attends] = np.abs(found - twice).max()
    (count, _), least = min(distances.items(), key=lambda item: item[1])
    assert least < 1e-4
    num_branches += count
  # Each branch is one example's.
  assert num_branches == 2


def test_examples_that_skip_a_branch_cost_nothing():
  """A step's FLOPs by the compiler, of blocks that are nearly all of it."""
  images = image_batch(16)

  def flops(**changes):
    keys = dict(width=64, mlp_dim=256, depth=2)
    model = tiny(stochastic_depth_rate=0.5, **keys, **(KEYS | changes))
    params = random_params(model)
    key = jax.random.key(0)

    def loss(params):
      rngs = {"dropout": key}
      return model.apply(
        {"params": params}, images, train=True, rngs=rngs
      ).sum()

    compiled = jax.jit(jax.grad(loss)).lower(params).compile()
    return compiled.cost_analysis()["flops"]

  ratio = flops() / flops(stochastic_depth_group=None)
  assert 0.48 < ratio < 0.6


def test_layers_of_low_rates_draw_each_example():
  assert Groups.of(0.1, 8) is None
  assert Groups.of(0.2, None) is None
  assert Groups.of(0.2, 8) == Groups(0.2, 8)


@pytest.mark.parametrize(
  ("changes", "words"),
  [
    (
      {"model__scan_layers": True, "model__stochastic_depth_rate": 0.4},
      ["scan_layers = True", "stochastic_depth='constant'"],
    ),
    (
      {"train__batch_size": 9, "model__stochastic_depth_rate": 0.4},
      ["group = 8", "micro-batches of 9"],
    ),
  ],
)
def test_groups_that_cannot_be_are_refused(changes, words):
  with pytest.raises(UserError) as error:
    config = experiments.config(
      **({"model__stochastic_depth_group": 8} | changes)
    )
    build.check(config.model)
  for word in words:
    assert word in str(error.value)


def test_without_stochastic_depth_groups_may_be_of_any_size():
  config = experiments.config(
    model__stochastic_depth_group=8,
    model__stochastic_depth_rate=0.0,
    train__batch_size=9,
  )
  build.check(config.model)
