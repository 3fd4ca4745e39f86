"""The parts of a Vision Transformer, and images of other sizes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.networks import (
  apply,
  assert_trees_close,
  random_params,
  tiny,
  tiny_hybrid,
)
from vit_jax.errors import UserError
from vit_jax.models.features import features
from vit_jax.models.layers import placement
from vit_jax.weights import position_embeddings

METHODS = ["bilinear", "bicubic", "bicubic_antialias", "bicubic_offset"]


def _images(*size, count=2):
  rng = np.random.default_rng(4)
  return rng.standard_normal((count, *size, 3)).astype(np.float32)


def _run(model, params, function, *args):
  return jax.jit(lambda p: model.apply({"params": p}, *args, method=function))(
    params
  )


@pytest.mark.parametrize(
  "keys",
  [
    {},
    dict(pool="map", scan_layers=True),
    dict(pool="cls_gap", representation_size="width"),
    dict(pos_embedding="relative"),
    dict(pos_embedding="relative_bias", pos_embedding_at="every_layer"),
    dict(pos_embedding_at="every_layer", norm_after_pool=True),
  ],
)
def test_calling_it_composes_embed_encode_and_head(keys, images):
  model = tiny(**keys)
  params = random_params(model)

  def by_parts(model, images):
    tokens = model.embed(images)
    assert tokens.shape[1] == 4 + model.num_prefix
    return model.head(model.encode(tokens, num_read=model.num_read))

  np.testing.assert_array_equal(
    _run(model, params, by_parts, images), apply(model, params, images)
  )


@pytest.mark.parametrize(
  "keys",
  [
    {},
    dict(distillation="average", registers=2),
    dict(rope=True, mlp="swiglu", mlp_norm=True),
    dict(pos_embedding="relative_bias", pos_embedding_at="every_layer"),
    dict(pos_embedding="relative_bias", pos_embedding_at="every_layer_shared"),
    dict(pos_embedding_at="every_layer", norm_after_pool=True, remat="named"),
    dict(stochastic_depth_rate=0.4, layer_scale=0.1),
    dict(stochastic_depth_rate=0.4, stochastic_depth_group=4),
  ],
  ids=str,
)
def test_tokens_that_nothing_reads_change_neither_value_nor_gradient(keys):
  """The last layer computes the class token alone, or all: as one wishes."""
  model = tiny(**keys)
  params, images = random_params(model), _images(8, 8, count=4)

  def loss(by_parts, params):
    def logits(model, images):
      if not by_parts:
        return model(images, train=True)
      tokens = model.encode(model.embed(images), train=True)
      assert tokens.shape[1] == 4 + model.num_prefix
      return model.head(tokens)

    rngs = {"dropout": jax.random.key(1)}
    found = model.apply({"params": params}, images, method=logits, rngs=rngs)
    return jnp.sum(found * jnp.cos(jnp.arange(found.size)).reshape(found.shape))

  value, grads = jax.jit(jax.value_and_grad(functools.partial(loss, False)))(
    params
  )
  wanted, wanted_grads = jax.jit(
    jax.value_and_grad(functools.partial(loss, True))
  )(params)
  np.testing.assert_allclose(value, wanted, rtol=1e-5)
  assert_trees_close(grads, wanted_grads)


@pytest.mark.parametrize(
  "platform, pool, fixed",
  [("tpu", "cls", True), ("tpu", "gap", False), ("cpu", "cls", False)],
)
def test_a_slice_of_the_tokens_does_not_choose_their_order_on_tpus(
  platform, pool, fixed, images, monkeypatch
):
  model = tiny(pool=pool)
  params = random_params(model)

  def gradients():
    monkeypatch.setattr(placement, "platform", lambda: platform)
    return jax.jit(
      jax.grad(lambda p: jnp.sum(jnp.sin(apply(model, p, images))))
    )

  assert ("@LayoutConstraint" in gradients().lower(params).as_text()) == fixed
  found = gradients()(params)
  monkeypatch.undo()
  wanted = jax.grad(lambda p: jnp.sum(jnp.sin(apply(model, p, images))))(params)
  assert_trees_close(found, wanted)


@pytest.mark.parametrize("each_query", [False, True])
def test_first_tokens_alone_see_what_a_mask_lets_them_see(each_query, images):
  model = tiny()
  params = random_params(model)
  rng = np.random.default_rng(3)
  shape = (len(images), 5, 5) if each_query else (len(images), 5)
  mask = jnp.asarray(rng.random(shape) < 0.7).at[..., 0].set(True)

  def encoded(model, images, num_read):
    return model.encode(model.embed(images), mask=mask, num_read=num_read)

  found = _run(model, params, encoded, images, 2)
  assert found.shape[1] == 2
  wanted = _run(model, params, encoded, images, None)[:, :2]
  np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_features_that_are_asked_for_are_those_of_all_tokens(images):
  model = tiny()
  found = features(model, random_params(model), images, ["encoded"])
  assert found["encoded"].shape[1] == 5


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("place", ["stem", "every_layer"])
@pytest.mark.parametrize("pool", ["cls", "gap"])
def test_positions_are_resized_as_those_of_a_loaded_checkpoint(
  method, place, pool
):
  keys = dict(pool=pool, pos_embedding_at=place, pos_embedding_resize=method)
  model, larger = tiny(**keys), tiny(**keys, image_size=20)
  params = random_params(model)
  found = apply(model, params, _images(20, 20))
  positions = params["Transformer"]["posembed_input"]
  positions["pos_embedding"] = position_embeddings.resize(
    positions["pos_embedding"],
    (2, 2),
    (5, 5),
    num_prefix=model.num_prefix,
    method=method,
  )
  expected = apply(larger, params, _images(20, 20))
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_learned_2d_is_resized_along_each_axis():
  keys = dict(pos_embedding="learned_2d")
  model = tiny(**keys)
  params = random_params(model)
  found = apply(model, params, _images(12, 8))
  positions = params["Transformer"]["posembed_input"]
  rows = positions["y_embedding"]
  middle = rows.mean(axis=1, keepdims=True)
  positions["y_embedding"] = np.concatenate(
    [rows[:, :1], middle, rows[:, 1:]], axis=1
  )
  x, y = positions["x_embedding"], positions["y_embedding"]
  table = np.concatenate(
    [
      np.broadcast_to(x[:, None], (1, 3, 2, 8)),
      np.broadcast_to(y[:, :, None], (1, 3, 2, 8)),
    ],
    axis=-1,
  ).reshape(1, 6, 16)
  none = tiny(pos_embedding="none")
  added = np.concatenate([positions["cls_embedding"], table], axis=1)

  def with_table(model, images):
    tokens = model.embed(images) + added
    return model.head(model.encode(tokens))

  expected = _run(none, params, with_table, _images(12, 8))
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_one_step_takes_several_sizes_and_trains_one_table():
  model = tiny()
  params = random_params(model)

  def loss(params):
    logits = [
      model.apply({"params": params}, _images(side, side)) for side in (8, 16)
    ]
    return sum((x**2).sum() for x in logits)

  grads = jax.jit(jax.grad(loss))(params)
  table = grads["Transformer"]["posembed_input"]["pos_embedding"]
  assert table.shape == (1, 5, 16)
  assert np.all(np.any(np.asarray(table), axis=-1))


def test_a_hybrid_takes_other_sizes_too():
  model = tiny_hybrid()
  assert apply(model, random_params(model), _images(24, 16)).shape == (2, 5)


@pytest.mark.parametrize("place", ["stem", "every_layer"])
@pytest.mark.parametrize("kind", ["learned_1d", "learned_2d", "sincos2d"])
@pytest.mark.parametrize("side", [8, 12])
def test_a_class_token_without_a_position_has_one_of_zeros(kind, place, side):
  keys = dict(pos_embedding=kind, pos_embedding_at=place)
  model = tiny(**keys, cls_position=False)
  params = random_params(model)
  found = apply(model, params, _images(side, side))
  tables = 3 if place == "every_layer" else 1
  positions = params["Transformer"].get("posembed_input", {})
  if kind == "learned_1d":
    table = positions["pos_embedding"]
    assert table.shape == (tables, 4, 16)
    positions["pos_embedding"] = np.pad(table, ((0, 0), (1, 0), (0, 0)))
  elif kind == "learned_2d":
    positions["cls_embedding"] = np.zeros((tables, 1, 16), np.float32)
  np.testing.assert_allclose(
    found, apply(tiny(**keys), params, _images(side, side)), rtol=1e-6
  )


@pytest.mark.parametrize("kind", ["learned_1d", "learned_2d", "relative"])
def test_positions_start_with_the_deviation_of_the_key(kind):
  keys = dict(pos_embedding=kind, width=64, image_size=64, depth=1)
  for value, stddev in ((0.02, 0.02), ("width", 1 / 8)):
    model = tiny(**keys, pos_embedding_stddev=value)
    params = jax.jit(model.init)(jax.random.key(0), _images(64, 64))["params"]
    rooms = ("posembed_input", "posembed")
    for room in rooms:
      for table in params["Transformer"].get(room, {}).values():
        assert np.std(table) == pytest.approx(stddev, rel=0.15)


@pytest.mark.parametrize("place", ["stem", "every_layer_shared"])
def test_relative_keys_are_resized_along_their_offsets(place):
  """From 9 offsets of 5 tokens to 19 of 10, as NumPy interpolates them."""
  keys = dict(pos_embedding="relative", pos_embedding_at=place)
  model, other = tiny(**keys), tiny(**keys, image_size=12)
  params = random_params(model)
  found = apply(model, params, _images(12, 12))
  room = params["Transformer"]["posembed"]
  old = room["relative_keys"]
  places = np.linspace(-4, 4, 19)
  room["relative_keys"] = np.apply_along_axis(
    lambda values: np.interp(places, np.arange(-4, 5), values), 1, old
  ).astype(np.float32)
  expected = apply(other, params, _images(12, 12))
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scan_layers", [False, True])
def test_encode_takes_any_number_of_tokens(scan_layers, images):
  """Tokens that a mask hides are as good as left out."""
  model = tiny(scan_layers=scan_layers, pool="gap", cls_token=True)
  params = random_params(model)
  seen = np.array([True, True, False, True, False])

  def left_out(model, images):
    tokens = model.encode(model.embed(images)[:, seen])
    return model.head(tokens)

  def masked(model, images):
    mask = jnp.broadcast_to(seen, (len(images), 5))
    tokens = model.encode(model.embed(images), mask=mask)
    return model.head(tokens, mask=mask)

  np.testing.assert_allclose(
    _run(model, params, masked, images),
    _run(model, params, left_out, images),
    rtol=1e-5,
    atol=1e-5,
  )


def test_the_class_token_and_the_mean_are_joined(images):
  model = tiny(pool="cls_gap", registers=2, num_classes=None)
  params = random_params(model)
  both = apply(model, params, images)

  def alone(model, images, pool):
    return model.head(model.encode(model.embed(images)), pool=pool)

  for pool, part in zip(("cls", "gap"), np.split(both, 2, 1), strict=True):
    found = _run(model, params, functools.partial(alone, pool=pool), images)
    np.testing.assert_allclose(found, part, rtol=1e-6)


def test_attention_pooling_heeds_the_mask(images):
  model = tiny(pool="map")
  params = random_params(model)
  seen = np.array([True, False, True, True])

  def left_out(model, images):
    return model.head(model.encode(model.embed(images))[:, seen])

  def masked(model, images):
    mask = jnp.broadcast_to(seen, (len(images), 4))
    return model.head(model.encode(model.embed(images)), mask=mask)

  np.testing.assert_allclose(
    _run(model, params, masked, images),
    _run(model, params, left_out, images),
    rtol=1e-5,
    atol=1e-5,
  )


def test_a_mask_for_each_query_hides_later_tokens(images):
  """Of causal attention, a token does not change when later ones go."""
  model = tiny(pool="gap")
  params = random_params(model)
  causal = np.tril(np.ones((4, 4), bool))

  def encoded(model, images):
    mask = jnp.broadcast_to(causal, (len(images), 4, 4))
    return model.encode(model.embed(images), mask=mask)

  def first_two(model, images):
    mask = jnp.broadcast_to(causal[:2, :2], (len(images), 2, 2))
    return model.encode(model.embed(images)[:, :2], mask=mask)

  np.testing.assert_allclose(
    np.asarray(_run(model, params, encoded, images))[:, :2],
    _run(model, params, first_two, images),
    rtol=1e-5,
    atol=1e-5,
  )


def test_positions_in_every_layer_need_all_tokens(images):
  model = tiny(pos_embedding_at="every_layer")

  def some(model, images):
    return model.encode(model.embed(images)[:, :3])

  with pytest.raises(UserError, match="5 tokens in every layer.* are 3"):
    _run(model, random_params(model), some, images)


def test_a_kernel_refuses_a_mask(images):
  params = random_params(tiny())

  def masked(model, images):
    return model.encode(model.embed(images), mask=jnp.ones((4, 5), bool))

  with pytest.raises(UserError, match="'flash' does not take the mask"):
    _run(tiny(attention="flash"), params, masked, images)


def test_an_offset_moves_a_side_that_stays():
  model = tiny(pos_embedding_resize="bicubic_offset")
  params = random_params(model)
  found = apply(model, params, _images(8, 12))
  positions = params["Transformer"]["posembed_input"]
  resized = position_embeddings.resize(
    positions["pos_embedding"],
    (2, 2),
    (2, 3),
    num_prefix=1,
    method="bicubic_offset",
  )
  none = tiny(pos_embedding="none")

  def with_table(model, images):
    tokens = model.embed(images) + resized
    return model.head(model.encode(tokens))

  expected = _run(none, params, with_table, _images(8, 12))
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
