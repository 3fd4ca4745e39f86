"""The stack of blocks: against the equations, and against itself rearranged."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models import oracle
from tests.models.networks import (
  assert_trees_close,
  random_params,
  stack_layers,
  tiny,
)
from vit_jax.models.features import features

POSITIONS = [
  ("none", "stem"),
  *[
    (kind, place)
    for kind in ("learned_1d", "learned_2d", "sincos2d", "relative")
    for place in ("stem", "every_layer", "every_layer_shared")
  ],
]


def _loss(model, images, **keys):
  def loss(params):
    logits = model.apply({"params": params}, images, **keys)
    return jnp.sum(jnp.sin(logits))

  return loss


def _value_and_grad(model, images, **keys):
  return jax.jit(jax.value_and_grad(_loss(model, images, **keys)))


@pytest.mark.parametrize("kind", ["tanh", "exact"])
def test_each_block_is_equations_2_and_3(images, kind):
  model = tiny(gelu=kind)
  params = random_params(model)
  names = ["embedded", *(f"layer_{i:02d}/tokens" for i in range(3)), "encoded"]
  found = features(model, params, images, names)
  values = [np.float64(found[name]) for name in names]
  encoder = params["Transformer"]
  for i in range(3):
    block = encoder[f"encoderblock_{i}"]
    for before, after in zip(values[i], values[i + 1], strict=True):
      np.testing.assert_allclose(
        after, oracle.block(before, block, kind=kind), rtol=1e-4, atol=1e-4
      )
  np.testing.assert_allclose(
    values[-1],
    oracle.layer_norm(values[-2], encoder["encoder_norm"]),
    rtol=1e-4,
    atol=1e-4,
  )


@pytest.mark.parametrize(
  "kind, place",
  [
    ("learned_1d", "stem"),
    ("learned_1d", "every_layer"),
    ("learned_2d", "every_layer_shared"),
    ("relative", "every_layer"),
    ("relative", "every_layer_shared"),
    ("relative_bias", "every_layer"),
    ("relative_bias", "every_layer_shared"),
  ],
)
def test_scan_equals_loop(kind, place, images):
  keys = dict(pos_embedding=kind, pos_embedding_at=place, depth=2)
  loop, scan = tiny(**keys), tiny(**keys, scan_layers=True)
  params = random_params(loop)
  # Scanned layers compute all tokens, whether they are read or not.
  whole = dict(method=lambda model, x: model.head(model.encode(model.embed(x))))
  value, grads = _value_and_grad(loop, images, **whole)(params)
  scan_value, scan_grads = _value_and_grad(scan, images)(stack_layers(params))
  np.testing.assert_allclose(value, scan_value, rtol=1e-5)
  assert_trees_close(stack_layers(grads), scan_grads, rtol=1e-3)
  structure = jax.tree.map(np.shape, random_params(scan))
  assert structure == jax.tree.map(np.shape, stack_layers(params))


@pytest.mark.parametrize("scan_layers", [False, True])
@pytest.mark.parametrize("remat", ["full", "dots", "named", "offload"])
def test_remat_changes_neither_value_nor_gradient(remat, scan_layers, images):
  plain = tiny(scan_layers=scan_layers)
  params = random_params(plain)
  model = tiny(scan_layers=scan_layers, remat=remat)
  value, grads = _value_and_grad(plain, images)(params)
  again, again_grads = _value_and_grad(model, images)(params)
  np.testing.assert_allclose(value, again, rtol=1e-6)
  assert_trees_close(grads, again_grads)


def test_remat_saves_less_the_more_it_recomputes(images):
  """Bytes kept between the passes: full < named < dots < none."""
  saved = {}
  for remat in ("none", "dots", "named", "full"):
    model = tiny(remat=remat, depth=2, width=32, mlp_dim=128)
    params = random_params(model)
    loss = _loss(model, images)
    backward = jax.eval_shape(lambda p, f=loss: jax.vjp(f, p)[1], params)
    saved[remat] = sum(
      x.size * x.dtype.itemsize for x in jax.tree.leaves(backward)
    )
  assert saved["full"] < saved["named"] < saved["dots"] < saved["none"]


def test_offloaded_activations_go_to_the_host_and_come_back(images):
  """As many copies to the host's memory as from it, and those of 'named'."""
  text = {}
  for remat in ("named", "offload"):
    model = tiny(remat=remat)
    loss = jax.grad(_loss(model, images))
    text[remat] = str(jax.make_jaxpr(loss)(random_params(model)))
  assert "host" not in text["named"]
  out = text["offload"].count("MemorySpace.Host")
  back = text["offload"].count("MemorySpace.Device")
  assert out == back > 0, text["offload"]


def test_remat_with_dropout_repeats_the_same_masks(images):
  keys = dict(dropout_rate=0.3, stochastic_depth_rate=0.3)
  params = random_params(tiny())
  results = [
    jax.jit(
      jax.grad(
        _loss(
          tiny(**keys, remat=remat),
          images,
          train=True,
          rngs={"dropout": jax.random.key(2)},
        )
      )
    )(params)
    for remat in ("none", "full")
  ]
  assert_trees_close(*results)


def _sown_tokens(model, params, images, train, seed=0):
  _, sown = model.apply(
    {"params": params},
    images,
    train=train,
    rngs={"dropout": jax.random.key(seed)},
    mutable=["intermediates"],
  )
  return sown["intermediates"]["Transformer"]


@pytest.mark.parametrize("scan_layers", [False, True])
def test_dropout_differs_by_layer_and_by_key(scan_layers):
  """With blocks that only pass a bias on, the masks can be read off."""
  model = tiny(dropout_rate=0.5, scan_layers=scan_layers, depth=2)
  params = jax.tree.map(np.zeros_like, random_params(model))
  encoder = params["Transformer"]
  for name in encoder:
    if name.startswith("encoderblock"):
      encoder[name]["MlpBlock_0"]["Dense_1"]["bias"][...] = 1.0
  images = np.zeros((2, 8, 8, 3), np.float32)

  def masks(seed):
    sown = _sown_tokens(model, params, images, True, seed)
    if scan_layers:
      first, second = sown["encoderblock"]["tokens"][0]
    else:
      first, second = (sown[f"encoderblock_{i}"]["tokens"][0] for i in (0, 1))
    return np.asarray(first), np.asarray(second - first)

  first, second = masks(0)
  assert set(np.unique(first)) == set(np.unique(second)) == {0.0, 2.0}
  assert (first != second).any()
  assert (first != masks(1)[0]).any()
  np.testing.assert_array_equal(first, masks(0)[0])


def test_dropout_acts_after_positions_attention_and_both_dense_layers(images):
  """One place at a time is left to act, the others multiply zeros."""
  model = tiny(dropout_rate=0.5, depth=1)
  params = random_params(model)
  embedded = _sown_tokens(model, params, images, True)["embedded"][0]
  assert 0.35 < np.mean(np.asarray(embedded) == 0) < 0.65
  still = _sown_tokens(model, params, images, False)["embedded"][0]
  np.testing.assert_allclose(
    embedded, np.where(embedded == 0, 0, 2 * np.asarray(still)), rtol=1e-5
  )

  params = jax.tree.map(np.zeros_like, params)
  block = params["Transformer"]["encoderblock_0"]
  block["MultiHeadDotProductAttention_0"]["out"]["bias"][...] = 1.0
  sown = _sown_tokens(model, params, images, True)
  tokens = np.asarray(sown["encoderblock_0"]["tokens"][0])
  assert set(np.unique(tokens)) == {0.0, 2.0}


def test_nothing_is_dropped_outside_training(images):
  params = random_params(tiny())
  model = tiny(dropout_rate=0.5, stochastic_depth_rate=0.5)
  np.testing.assert_array_equal(
    model.apply({"params": params}, images),
    tiny().apply({"params": params}, images),
  )


@pytest.mark.parametrize("scan_layers", [False, True])
def test_stochastic_depth_skips_whole_examples_more_often_in_late_layers(
  scan_layers,
):
  model = tiny(stochastic_depth_rate=0.6, depth=3, scan_layers=scan_layers)
  params = jax.tree.map(np.zeros_like, random_params(model))
  encoder = params["Transformer"]
  for name in encoder:
    if name.startswith("encoderblock"):
      encoder[name]["MlpBlock_0"]["Dense_1"]["bias"][...] = 1.0
  images = np.zeros((400, 8, 8, 3), np.float32)
  sown = _sown_tokens(model, params, images, True)
  if scan_layers:
    layers = list(np.asarray(sown["encoderblock"]["tokens"][0]))
  else:
    layers = [
      np.asarray(sown[f"encoderblock_{i}"]["tokens"][0]) for i in range(3)
    ]
  branches = [layers[0], layers[1] - layers[0], layers[2] - layers[1]]
  for branch, rate in zip(branches, (0.0, 0.3, 0.6), strict=True):
    per_example = branch[:, 0, 0]
    np.testing.assert_array_equal(
      branch, np.broadcast_to(per_example[:, None, None], branch.shape)
    )
    assert np.mean(per_example == 0) == pytest.approx(rate, abs=0.08)
    # Kept branches grow, so that the mean stays: exact up to rounding.
    kept = per_example[per_example != 0]
    np.testing.assert_allclose(kept, 1 / (1 - rate), rtol=1e-5)


def test_positions_at_every_layer_are_added_before_each_block(images):
  for place, index in (
    ("every_layer", [0, 1, 2]),
    ("every_layer_shared", [0] * 3),
  ):
    model = tiny(pos_embedding_at=place)
    params = random_params(model)
    names = ["embedded", *(f"layer_{i:02d}/tokens" for i in range(3))]
    found = features(model, params, images, names)
    encoder = params["Transformer"]
    table = encoder["posembed_input"]["pos_embedding"]
    assert len(table) == max(index) + 1
    for i in (1, 2):
      before = np.float64(found[names[i]][0]) + table[index[i]]
      np.testing.assert_allclose(
        found[names[i + 1]][0],
        oracle.block(before, encoder[f"encoderblock_{i}"]),
        rtol=1e-4,
        atol=1e-4,
      )
    stem = tiny(pos_embedding="none")
    without = features(stem, params, images, ["embedded"])["embedded"]
    np.testing.assert_allclose(
      found["embedded"], without + table[:1], rtol=1e-5, atol=1e-6
    )


def test_relative_tables_are_shared_only_on_request():
  for place, tables in (
    ("stem", 3),
    ("every_layer", 3),
    ("every_layer_shared", 1),
  ):
    model = tiny(pos_embedding="relative", pos_embedding_at=place)
    params = random_params(model)["Transformer"]
    assert params["posembed"]["relative_keys"].shape == (tables, 9, 2, 8)
    assert "posembed_input" not in params


def test_positions_tell_tokens_apart(images):
  """Only without them is the cls feature blind to the order of patches."""
  swapped = np.roll(images, 4, axis=1)
  for kind, place in POSITIONS:
    model = tiny(pos_embedding=kind, pos_embedding_at=place)
    params = random_params(model)
    left, right = (
      np.asarray(model.apply({"params": params}, x)) for x in (images, swapped)
    )
    same = np.allclose(left, right, rtol=1e-4, atol=1e-4)
    assert same == (kind == "none")
