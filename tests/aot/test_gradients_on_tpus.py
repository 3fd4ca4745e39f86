"""What XLA for TPUs makes of gradients of which each chip keeps a part."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from vit_jax.aot import hlo_cost, hlo_text, topology, xla_flags
from vit_jax.aot.hlo_cost import Cost
from vit_jax.config import schema
from vit_jax.models.layers import projecting
from vit_jax.sharding import layouts
from vit_jax.sharding import mesh as mesh_lib

TOPOLOGY = topology.parse("v5e:2x4")
MESH = schema.Mesh(fsdp=8)
ROWS, COLUMNS = PartitionSpec("fsdp"), PartitionSpec(None, "fsdp")


def split(spec: PartitionSpec) -> NamedSharding:
  mesh = mesh_lib.create_mesh(MESH, topology.devices(TOPOLOGY))
  return NamedSharding(mesh, spec)


def cost_of_update(
  shape: tuple[int, ...],
  sharding: NamedSharding,
  product: Callable[[jax.Array, jax.Array], jax.Array],
  after: Callable[[jax.Array], jax.Array] = lambda grad: grad,
) -> Cost:
  """The cost of an update of a parameter whose parts eight chips keep.

  Args:
    shape: Of the parameter.
    sharding: Likewise.
    product: Of tokens and the parameter.
    after: Applied to the gradient.
  """
  tx, mesh = optax.adam(1e-3), sharding.mesh

  def step(param, state, tokens):
    def loss(param):
      return jnp.sum(jnp.square(product(tokens, param).astype(jnp.float32)))

    updates, state = tx.update(after(jax.grad(loss)(param)), state, param)
    return optax.apply_updates(param, updates), state

  param = jax.ShapeDtypeStruct(shape, jnp.float32)
  tokens = jax.ShapeDtypeStruct((16384, shape[0]), jnp.bfloat16)
  state = jax.eval_shape(tx.init, param)
  follows = jax.tree.map(
    lambda leaf: sharding if leaf.shape else mesh_lib.replicated(mesh), state
  )
  program = jax.jit(
    step,
    in_shardings=(sharding, follows, mesh_lib.batch_sharding(mesh)),
    out_shardings=(sharding, follows),
    donate_argnums=(0, 1),
  )
  compiled = program.lower(param, state, tokens).compile(
    compiler_options=xla_flags.options(TOPOLOGY.device_kind, MESH)
  )
  return hlo_cost.cost(
    hlo_text.parse(compiled.as_text()),
    accelerator=TOPOLOGY.accelerator,
    num_devices=TOPOLOGY.num_devices,
  )


def assert_scattered(whole: Cost, scattered: Cost) -> None:
  """By itself the compiler sums the gradient on all chips, and then cuts it."""
  assert "all-reduce" in whole.by_kind()
  assert "all-reduce" not in scattered.by_kind()
  assert "reduce-scatter" in scattered.by_kind()
  # A chip's part is copied once at most, and neither the parameter nor its
  # moments are, which would be a fifth more.
  assert scattered.cycles < 1.05 * whole.cycles


@pytest.mark.parametrize(
  ("shape", "spec", "dtype"),
  [
    # A head in float32: rows come last in memory, as there are 128 a chip.
    ((1024, 21843), ROWS, jnp.float32),
    # The first kernel of an MLP of B/16: 384 columns a chip.
    ((768, 3072), COLUMNS, jnp.bfloat16),
  ],
)
def test_gradients_of_matrices_are_scattered(libtpu, shape, spec, dtype):
  def product(tokens, kernel):
    return tokens.astype(dtype) @ kernel.astype(dtype)

  sharding = split(spec)
  scatterable = functools.partial(layouts.scatterable, shardings=sharding)
  assert_scattered(
    cost_of_update(shape, sharding, product),
    cost_of_update(shape, sharding, product, scatterable),
  )


def test_gradients_by_heads_are_scattered(libtpu):
  def cost(flat):
    def product(tokens, kernel):
      return tokens @ flat(kernel.astype(jnp.bfloat16))

    return cost_of_update((1024, 16, 64), split(COLUMNS), product)

  assert_scattered(cost(projecting.flat), cost(projecting.flat_scattered))


def compilers_orders(shapes: list[tuple[int, int]]) -> list[tuple[int, int]]:
  """Dimensions of matrices as the compiler lays them out, innermost last."""
  where = jax.sharding.SingleDeviceSharding(topology.devices(TOPOLOGY)[0])
  arrays = [
    jax.ShapeDtypeStruct(shape, jnp.float32, sharding=where) for shape in shapes
  ]
  program = jax.jit(lambda *arrays: [x + 1 for x in arrays])
  formats, _ = program.lower(*arrays).compile().input_formats
  return [x.layout.major_to_minor for x in formats]


def test_only_what_is_split_innermost_is_laid_out_anew(libtpu):
  parts = [
    (rows, columns)
    for rows in (12, 64, 96, 128, 160, 250, 256, 6176)
    for columns in (12, 100, 129, 256, 384, 1000, 1024, 21843)
  ]

  def orders(shape, spec):
    grad = jax.ShapeDtypeStruct(shape, jnp.float32)
    program = jax.make_jaxpr(layouts.scatterable, static_argnums=1)
    return [
      equation.params["layout"].major_to_minor
      for equation in program(grad, split(spec)).eqns
    ]

  for part, order in zip(parts, compilers_orders(parts), strict=True):
    rows, columns = part
    by_columns = order == (1, 0)
    assert orders((8 * rows, columns), ROWS) == (
      [(0, 1), order] if by_columns else []
    ), part
    # Pairs of tiles the compiler scatters by itself.
    assert orders((rows, 8 * columns), COLUMNS) == (
      [(1, 0), order] if not by_columns and columns % 256 else []
    ), part
