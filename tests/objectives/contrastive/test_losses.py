"""Softmax and sigmoid losses beside NumPy, on one device and on a mesh."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from scipy import special

from vit_jax.aot import hlo_cost, hlo_text
from vit_jax.objectives import contrastive
from vit_jax.sharding import activations, topologies


def embeddings(rows=16, width=12, seed=0):
  rng = np.random.default_rng(seed)
  pair = rng.normal(size=(2, rows, width))
  pair[1] += pair[0]
  return np.float32(pair / np.linalg.norm(pair, axis=-1, keepdims=True))


def softmax_in_numpy(image, text, scale):
  logits = scale * np.float64(image) @ np.float64(text).T
  rows = special.logsumexp(logits, axis=1) - np.diag(logits)
  columns = special.logsumexp(logits, axis=0) - np.diag(logits)
  return (rows.mean() + columns.mean()) / 2


def sigmoid_in_numpy(image, text, scale, bias):
  logits = scale * np.float64(image) @ np.float64(text).T + bias
  z = 2 * np.eye(len(image)) - 1
  return -np.log(special.expit(z * logits)).sum() / len(image)


LOSSES = {
  "softmax": (contrastive.softmax_loss, softmax_in_numpy, (14.3,)),
  "sigmoid": (contrastive.sigmoid_loss, sigmoid_in_numpy, (10.0, -10.0)),
}
every_loss = pytest.mark.parametrize("name", LOSSES)


def plain(name):
  """The loss in a few lines of jax, differentiated automatically."""

  def softmax(image, text, scale):
    logits = scale * jnp.matmul(image, text.T, precision="highest")
    own = jnp.arange(len(image))
    by_row = jax.nn.log_softmax(logits, axis=1)[own, own]
    by_column = jax.nn.log_softmax(logits, axis=0)[own, own]
    return -(by_row + by_column).mean() / 2

  def sigmoid(image, text, scale, bias):
    logits = scale * jnp.matmul(image, text.T, precision="highest") + bias
    z = 2 * jnp.eye(len(image)) - 1
    return -jax.nn.log_sigmoid(z * logits).sum() / len(image)

  return {"softmax": softmax, "sigmoid": sigmoid}[name]


@every_loss
@pytest.mark.parametrize("rows", [1, 2, 16])
def test_values_are_those_of_numpy(name, rows):
  loss, reference, scalars = LOSSES[name]
  image, text = embeddings(rows)
  np.testing.assert_allclose(
    loss(image, text, *scalars), reference(image, text, *scalars), rtol=3e-6
  )


@every_loss
def test_gradients_are_those_of_automatic_differentiation(name):
  loss, _, scalars = LOSSES[name]
  arguments = (*embeddings(), *map(jnp.float32, scalars))
  every = tuple(range(len(arguments)))
  ours = jax.grad(loss, every)(*arguments)
  wanted = jax.grad(plain(name), every)(*arguments)
  for one, other in zip(ours, wanted, strict=True):
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-7)


@every_loss
def test_a_loss_of_many_steps_apart_stays_finite(name):
  loss, reference, scalars = LOSSES[name]
  image, text = embeddings()
  scalars = (1e4, *scalars[1:])
  value, slopes = jax.value_and_grad(loss, (0, 1))(
    jnp.asarray(image), jnp.asarray(text), *scalars
  )
  assert np.isfinite(value)
  assert all(np.isfinite(slope).all() for slope in slopes)
  if name == "softmax":
    np.testing.assert_allclose(
      value, reference(image, text, *scalars), rtol=1e-4
    )


@every_loss
def test_half_precision_is_computed_in_float32(name):
  loss, reference, scalars = LOSSES[name]
  image, text = (jnp.asarray(x, jnp.bfloat16) for x in embeddings())
  value = loss(image, text, *scalars)
  assert value.dtype == jnp.float32
  rounded = (np.float32(x) for x in (image, text))
  np.testing.assert_allclose(value, reference(*rounded, *scalars), rtol=1e-6)
  slopes = jax.grad(loss, (0, 1))(image, text, *scalars)
  assert {slope.dtype for slope in slopes} == {jnp.dtype(jnp.bfloat16)}


MESHES = {
  "data": {"data": 4},
  "data and fsdp": {"data": 2, "fsdp": 2},
  "all": {"data": 2, "fsdp": 1, "tensor": 2},
  "tensor alone": {"data": 1, "fsdp": 1, "tensor": 4},
}


def mesh_of(shape):
  count = int(np.prod(list(shape.values())))
  return jax.make_mesh(
    tuple(shape.values()),
    tuple(shape),
    axis_types=(AxisType.Auto,) * len(shape),
    devices=jax.devices()[:count],
  )


@every_loss
@pytest.mark.parametrize("shape", MESHES.values(), ids=MESHES)
@pytest.mark.parametrize("how", ["set_mesh", "activations", "sharded rows"])
def test_a_mesh_computes_what_one_device_does(name, shape, how):
  loss, _, scalars = LOSSES[name]
  arguments = (*embeddings(), *map(jnp.float32, scalars))
  every = tuple(range(len(arguments)))
  wanted, slopes = jax.value_and_grad(loss, every)(*arguments)
  mesh = mesh_of(shape)
  rows = tuple(axis for axis in ("data", "fsdp") if axis in shape)
  split = NamedSharding(mesh, PartitionSpec(rows))
  whole = NamedSharding(mesh, PartitionSpec())
  placed = [
    jax.device_put(x, split if x.ndim else whole)
    for x in map(jnp.asarray, arguments)
  ]

  def of_loss(*arguments):
    return jax.value_and_grad(loss, every)(*arguments)

  if how == "activations":
    of_loss = jax.value_and_grad(activations.on(mesh, loss), every)
  if how == "set_mesh":
    with jax.set_mesh(mesh):
      value, found = jax.jit(of_loss)(*placed)
  else:
    value, found = jax.jit(of_loss)(*placed)
  np.testing.assert_allclose(value, wanted, rtol=1e-6)
  for one, other in zip(found, slopes, strict=True):
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-7)


@every_loss
def test_rows_that_do_not_divide_over_the_devices_are_not_split(name):
  loss, reference, scalars = LOSSES[name]
  image, text = embeddings(rows=6)
  with jax.set_mesh(mesh_of({"data": 4})):
    value = jax.jit(loss)(image, text, *scalars)
  np.testing.assert_allclose(value, reference(image, text, *scalars), rtol=1e-6)


@every_loss
@pytest.mark.parametrize("shape", [{"data": 4}, {"data": 2, "fsdp": 2}])
def test_no_device_holds_more_than_its_block_of_logits(name, shape):
  loss, _, scalars = LOSSES[name]
  rows, devices = 64, 4
  mesh = mesh_of(shape)
  split = NamedSharding(mesh, PartitionSpec(tuple(shape)))
  given = jax.ShapeDtypeStruct((rows, 8), jnp.float32, sharding=split)
  with jax.set_mesh(mesh):
    program = jax.jit(jax.grad(loss, (0, 1))).lower(given, given, *scalars)
  text = program.compile().as_text()
  local = rows // devices
  assert f"f32[{local},{local}]" in text
  assert f"f32[{local},{rows}]" not in text
  assert f"f32[{rows},{rows}]" not in text
  assert f"f32[{rows},8]" not in text


@every_loss
def test_blocks_go_round_neighbours_before_they_leave_a_host(name):
  loss, _, scalars = LOSSES[name]
  mesh = mesh_of({"data": 2, "fsdp": 2})
  split = NamedSharding(mesh, PartitionSpec(("data", "fsdp")))
  given = jax.ShapeDtypeStruct((16, 8), jnp.float32, sharding=split)
  with jax.set_mesh(mesh):
    program = jax.jit(jax.grad(loss, (0, 1))).lower(given, given, *scalars)
  cost = hlo_cost.cost(
    hlo_text.parse(program.compile().as_text()),
    accelerator=topologies.ACCELERATORS["h100"],
    num_devices=4,
    devices_per_host=2,
  )
  sent = {1: 0, 2: 0}
  for exchange, count in cost.collectives.items():
    if exchange.kind == "collective-permute":
      sent[exchange.hosts] += count * exchange.num_bytes
  # Two steps among the two of a host for each step to the other host.
  assert sent[1] == 2 * sent[2] > 0


def test_rows_of_another_number_are_refused():
  image, text = embeddings()
  with pytest.raises(ValueError, match=r"\(16, 12\).*\(15, 12\)"):
    contrastive.softmax_loss(image, text[:15], 1.0)
