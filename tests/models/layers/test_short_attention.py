"""The kernel for short sequences, emulated, against attention as products."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from tests.models import oracle
from tests.models.networks import assert_trees_close
from vit_jax.config import named_sections, schema
from vit_jax.errors import UserError
from vit_jax.models.layers import (
  placement,
  rope_table,
  short_attention,
  short_attention_memory,
)
from vit_jax.models.layers.attention import MultiHeadAttention
from vit_jax.models.layers.mlp import LayerConfig
from vit_jax.models.layers.short_attention import Summands
from vit_jax.models.vit import checks
from vit_jax.sharding import activations
from vit_jax.sharding import mesh as mesh_lib

# Tokens, heads, head size: heads that share registers, that are a register,
# that lie across their borders, and one that is alone.
SIZES = [(19, 4, 64), (17, 3, 64), (8, 2, 128), (13, 8, 80), (9, 2, 88)]


def _arrays(length, num_heads, head_size, batch=2, dtype=jnp.float32):
  rng = np.random.default_rng(0)
  shape = (batch, length, num_heads * head_size)
  arrays = [jnp.asarray(rng.standard_normal(shape), dtype) for _ in range(4)]
  biases = tuple(jnp.float32(rng.standard_normal(shape[-1])) for _ in range(3))
  return *arrays, biases


def _plain(query, key, value, biases, num_heads, added=None, scale=None):
  """Softmax attention, written for one head of (b, n, heads, k) arrays.

  Args:
    added: To the scores, (b or 1, heads, keys, queries).
    scale: Of the scores; None: 1 / sqrt(k).
  """
  heads = []
  for x, bias in zip((query, key, value), biases, strict=True):
    x = x.astype(jnp.float32) + bias[None, None]
    heads.append(jnp.split(x, num_heads, axis=-1))
  results = []
  for i, (q, k, v) in enumerate(zip(*heads, strict=True)):
    scores = jnp.einsum("bqk,bnk->bqn", q, k)
    scores = scores * (scale or 1 / np.sqrt(q.shape[-1]))
    if added is not None:
      scores = scores + jnp.swapaxes(added[:, i], 1, 2)
    results.append(jnp.einsum("bqn,bnk->bqk", jax.nn.softmax(scores), v))
  return jnp.concatenate(results, -1)


def _kernel(
  query, key, value, biases, num_heads, softmax_dtype="float32", **more
):
  return short_attention.attend(
    query, key, value, biases, num_heads, softmax_dtype, True, **more
  )


@pytest.mark.parametrize(("length", "num_heads", "head_size"), SIZES)
def test_result_and_gradients_are_those_of_attention(
  length, num_heads, head_size
):
  *arrays, grad, biases = _arrays(length, num_heads, head_size)
  result, pull = jax.vjp(lambda *x: _kernel(*x, num_heads), *arrays, biases)
  expected, pull_expected = jax.vjp(
    lambda *x: _plain(*x, num_heads), *arrays, biases
  )
  np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
  assert_trees_close(pull(grad), pull_expected(grad), rtol=1e-4, atol=1e-4)


def _summands(length, num_heads, num_masks):
  rng = np.random.default_rng(1)
  bias = jnp.float32(rng.standard_normal((num_heads, length, length)))
  masks = jnp.float32(rng.standard_normal((num_masks, length, length)))
  return Summands(bias, masks if num_masks else None)


# The second image of 16 sequences begins another step of the grid.
@pytest.mark.parametrize("num_masks", [0, 1, 4, 16])
@pytest.mark.parametrize(("length", "num_heads"), [(19, 4), (70, 3)])
def test_summands_of_scores_and_their_gradient(length, num_heads, num_masks):
  *arrays, grad, biases = _arrays(length, num_heads, 32, batch=32)
  summands = _summands(length, num_heads, num_masks)

  def ours(bias, *arrays):
    added = summands._replace(bias=bias)
    return _kernel(*arrays, num_heads, summands=added, scale=0.3)

  def plain(bias, *arrays):
    added = bias[None]
    if num_masks:
      masks = jnp.tile(summands.mask, (32 // num_masks, 1, 1))
      added = added + masks[:, None]
    return _plain(*arrays, num_heads, added, 0.3)

  arguments = (summands.bias, *arrays, biases)
  result, pull = jax.vjp(ours, *arguments)
  expected, pull_expected = jax.vjp(plain, *arguments)
  np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
  assert_trees_close(pull(grad), pull_expected(grad), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("with_summands", [False, True])
def test_heads_in_several_steps_are_heads_in_one(monkeypatch, with_summands):
  *arrays, grad, biases = _arrays(11, 8, 32)
  summands = _summands(11, 8, 2) if with_summands else None

  def kernel(summands, *arrays):
    return _kernel(*arrays, 8, summands=summands)

  result, pull = jax.vjp(kernel, summands, *arrays, biases)
  monkeypatch.setattr(short_attention, "lanes_per_step", lambda *_: 128)
  in_steps, pull_in_steps = jax.vjp(kernel, summands, *arrays, biases)
  np.testing.assert_array_equal(result, in_steps)
  assert_trees_close(pull(grad), pull_in_steps(grad), rtol=1e-6, atol=1e-6)


def test_large_scores_do_not_overflow():
  query, key, value, _, biases = _arrays(9, 2, 64)
  result = _kernel(1e3 * query, key, value, biases, 2)
  expected = _plain(1e3 * query, key, value, biases, 2)
  np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("softmax_dtype", ["float32", "bfloat16"])
def test_bfloat16_is_near_float32(softmax_dtype):
  *arrays, grad, biases = _arrays(19, 4, 64, dtype=jnp.bfloat16)
  result, pull = jax.vjp(
    lambda *x: _kernel(*x, 4, softmax_dtype), *arrays, biases
  )
  expected, pull_expected = jax.vjp(lambda *x: _plain(*x, 4), *arrays, biases)
  assert result.dtype == jnp.bfloat16
  for ours, theirs in zip(
    jax.tree.leaves((result, pull(grad))),
    jax.tree.leaves((expected, pull_expected(grad.astype(jnp.float32)))),
    strict=True,
  ):
    error = np.linalg.norm(np.float32(ours) - np.float32(theirs))
    # The bias of the keys moves all scores of a row: its gradient is 0, and
    # here what rounding leaves of it.
    size = max(np.linalg.norm(np.float32(theirs)), np.sqrt(ours.size))
    assert error < 0.03 * size


@pytest.mark.parametrize(
  ("data", "fsdp", "tensor", "num_heads"),
  [(4, 1, 1, 2), (1, 2, 2, 4), (1, 1, 4, 4), (1, 1, 4, 6)],
)
def test_a_mesh_changes_nothing(data, fsdp, tensor, num_heads):
  if len(jax.devices()) < 4:
    pytest.skip("needs 4 devices")
  mesh = mesh_lib.create_mesh(
    schema.Mesh(data=data, fsdp=fsdp, tensor=tensor), jax.devices()[:4]
  )
  *arrays, grad, biases = _arrays(9, num_heads, 32, batch=8)

  def loss(kernel, arrays, biases, grad):
    return jnp.vdot(grad, kernel(*arrays, biases, num_heads))

  expected = jax.value_and_grad(loss, (1, 2))(_kernel, arrays, biases, grad)
  whole = NamedSharding(mesh, PartitionSpec())
  split = mesh_lib.batch_sharding(mesh)
  laid = jax.device_put((arrays, biases, grad), (split, whole, split))
  # The backward pass is traced outside of what says where activations lie.
  step = jax.value_and_grad(
    functools.partial(loss, activations.on(mesh, _kernel)), (0, 1)
  )
  compiled = jax.jit(step).lower(*laid).compile()
  assert_trees_close(compiled(*laid), expected, rtol=1e-5, atol=1e-5)
  if tensor == 1:
    # Each device works on its own examples: only sums over all are sent.
    assert "all-gather" not in compiled.as_text()


@pytest.mark.parametrize(
  ("data", "fsdp", "tensor", "num_images"),
  [(4, 1, 1, 4), (4, 1, 1, 2), (1, 2, 2, 2), (1, 1, 4, 2)],
)
def test_a_mesh_changes_no_summands(data, fsdp, tensor, num_images):
  if len(jax.devices()) < 4:
    pytest.skip("needs 4 devices")
  mesh = mesh_lib.create_mesh(
    schema.Mesh(data=data, fsdp=fsdp, tensor=tensor), jax.devices()[:4]
  )
  *arrays, grad, biases = _arrays(9, 4, 32, batch=4 * num_images)
  summands = _summands(9, 4, 4)

  def loss(kernel, bias, arrays, biases, grad):
    return jnp.vdot(grad, kernel(bias, *arrays, biases))

  def kernel(bias, *arrays):
    return _kernel(*arrays, 4, summands=summands._replace(bias=bias))

  whole = NamedSharding(mesh, PartitionSpec())
  split = mesh_lib.batch_sharding(mesh)
  arguments = (summands.bias, arrays, biases, grad)
  laid = jax.device_put(arguments, (whole, split, whole, split))
  expected = jax.value_and_grad(loss, (1, 2, 3))(kernel, *arguments)
  step = jax.value_and_grad(
    functools.partial(loss, activations.on(mesh, kernel)), (0, 1, 2)
  )
  assert_trees_close(jax.jit(step)(*laid), expected, rtol=1e-5, atol=1e-5)


def _on_a_tpu(monkeypatch, device_kind):
  monkeypatch.setattr(placement, "platform", lambda: "tpu")
  monkeypatch.setattr(placement, "device_kind", lambda: device_kind)


def _attention(monkeypatch, **settings):
  monkeypatch.setattr(
    short_attention,
    "attend",
    functools.partial(short_attention.attend, interpret=True),
  )
  _on_a_tpu(monkeypatch, "TPU v5 lite")
  config = LayerConfig(num_heads=3, mlp_dim=8, attention="pallas", **settings)
  attention = MultiHeadAttention(config)
  rng = np.random.default_rng(0)
  tokens = jnp.float32(rng.standard_normal((2, 5, 12)))
  params = attention.init(jax.random.key(0), tokens, tokens)["params"]
  params = jax.tree.map(
    lambda x: x + 0.1 * rng.standard_normal(x.shape).astype(np.float32),
    params,
  )
  return attention, params, tokens


@pytest.mark.parametrize("qkv_bias", [True, False])
def test_layer_is_the_equations(monkeypatch, qkv_bias):
  attention, params, tokens = _attention(monkeypatch, qkv_bias=qkv_bias)
  assert ("bias" in params["query"]) == qkv_bias
  result = attention.apply({"params": params}, tokens, tokens)
  expected = np.stack(
    [oracle.attention(x, x, params)[0] for x in np.float64(tokens)]
  )
  np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
  "biases", [{}, {"qkv_bias": False}, {"key_bias": False}], ids=str
)
def test_layer_has_the_gradients_of_the_plain_one(monkeypatch, biases):
  attention, params, tokens = _attention(monkeypatch, **biases)
  plain = MultiHeadAttention(LayerConfig(num_heads=3, mlp_dim=8, **biases))

  def loss(layer, params, x):
    return jnp.sum(layer.apply({"params": params}, x, x) ** 2)

  assert_trees_close(
    jax.grad(functools.partial(loss, attention), (0, 1))(params, tokens),
    jax.grad(functools.partial(loss, plain), (0, 1))(params, tokens),
  )


def test_layer_adds_what_the_plain_one_adds_to_scores(monkeypatch):
  attention, params, tokens = _attention(monkeypatch)
  plain = MultiHeadAttention(LayerConfig(num_heads=3, mlp_dim=8))
  bias = _summands(5, 3, 0).bias

  def loss(layer, params, bias):
    result = layer.apply({"params": params}, tokens, tokens, bias=bias)
    return jnp.sum(jnp.sin(result))

  assert_trees_close(
    jax.grad(functools.partial(loss, attention), (0, 1))(params, bias),
    jax.grad(functools.partial(loss, plain), (0, 1))(params, bias),
  )


@pytest.mark.parametrize(
  "biases", [{}, {"qkv_bias": False}, {"key_bias": False}], ids=str
)
def test_layer_turns_queries_and_keys_as_the_plain_one(monkeypatch, biases):
  attention, params, tokens = _attention(monkeypatch, **biases)
  plain = MultiHeadAttention(LayerConfig(num_heads=3, mlp_dim=8, **biases))
  turns = jnp.asarray(rope_table.table((2, 2), 4, reference=16, num_prefix=1))

  def loss(layer, params, x, turns):
    result = layer.apply({"params": params}, x, x, turns=turns)
    return jnp.sum(jnp.sin(result))

  run = jax.value_and_grad(loss, (1, 2))
  found = run(attention, params, tokens, turns)
  assert_trees_close(found, run(plain, params, tokens, turns))
  not_turned = loss(attention, params, tokens, None)
  assert abs(found[0] - not_turned) > 1e-3


def test_a_query_that_pools_takes_the_plain_way(monkeypatch):
  attention, params, tokens = _attention(monkeypatch)
  result = attention.apply({"params": params}, tokens[:, :1], tokens)
  expected = np.stack(
    [oracle.attention(x[:1], x, params)[0] for x in np.float64(tokens)]
  )
  np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_all_heads_of_the_papers_networks_fit_at_once():
  for length, width, head_size in [(197, 768, 64), (197, 1024, 64)]:
    lanes = short_attention_memory.lanes_per_step(length, width, head_size, 2)
    assert lanes == width
  assert short_attention_memory.lanes_per_step(257, 1280, 80, 2) in (640, 1280)


def test_many_tokens_are_worked_on_in_steps_of_whole_registers():
  lanes = short_attention_memory.lanes_per_step(400, 768, 64, 4)
  assert lanes < 768 and lanes % 128 == 0 and 768 % lanes == 0


def test_too_many_tokens_name_the_way_out():
  assert short_attention_memory.lanes_per_step(1370, 1280, 80, 2) is None
  model = named_sections.section(
    "model",
    variant="H/14",
    image_size=518,
    dtype="bfloat16",
    attention="pallas",
  )
  with pytest.raises(UserError, match="1370 tokens.*attention='flash'"):
    checks.check(model)
  checks.check(model.model_copy(update={"image_size": 224}))


def test_biases_of_scores_take_room_of_their_own():
  lanes = short_attention_memory.lanes_per_step
  assert lanes(49, 96, 32, 2, has_bias=True) == 96
  assert lanes(577, 768, 64, 2) and not lanes(577, 768, 64, 2, has_bias=True)
  keys = dict(pos_embedding="relative_bias", pos_embedding_at="every_layer")
  model = named_sections.section(
    "model",
    variant="B/16",
    image_size=384,
    dtype="bfloat16",
    attention="pallas",
    **keys,
  )
  with pytest.raises(UserError, match="577 tokens.*attention='xla'"):
    checks.check(model)
  checks.check(model.model_copy(update={"image_size": 224}))


def test_relative_positions_are_refused():
  model = named_sections.section(
    "model", variant="Ti/16", attention="pallas", pos_embedding="relative"
  )
  with pytest.raises(UserError, match="pos_embedding = 'relative'"):
    checks.check(model)


def test_without_a_tpu_says_what_to_use():
  if jax.default_backend() == "tpu":
    pytest.skip("needs a machine without a TPU")
  config = LayerConfig(3, 8, attention="pallas")
  tokens = jnp.zeros((1, 4, 12))
  params = MultiHeadAttention(config).init(jax.random.key(0), tokens, tokens)
  with pytest.raises(UserError, match="needs a TPU.*attention='xla'"):
    MultiHeadAttention(config).apply(params, tokens, tokens)


@pytest.mark.parametrize("device_kind", ["TPU v2", "TPU v3"])
def test_the_first_tpus_are_named(monkeypatch, device_kind):
  _on_a_tpu(monkeypatch, device_kind)
  config = LayerConfig(3, 8, attention="pallas")
  tokens = jnp.zeros((1, 4, 12))
  params = MultiHeadAttention(config).init(jax.random.key(0), tokens, tokens)
  with pytest.raises(UserError, match=f"v4 or later.*a {device_kind}.*'xla'"):
    MultiHeadAttention(config).apply(params, tokens, tokens)
