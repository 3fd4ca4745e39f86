"""Depthwise convolutions as TPU kernels: sums of shifted maps.

XLA computes a depthwise convolution in the matrix units, as products with
matrices that are zero except for their diagonals. The vector units need fewer
cycles: a multiplication and an addition for each tap and register.

Maps are (rows, columns, images, channels) here. Images and channels fill the
registers, so that a shifted map is the same map at another address.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float

from vit_jax.models.layers import placement
from vit_jax.models.layers.tpu_core import LANES, SUBLANES, VMEM_BYTES

# Images fill the rows of a register.
IMAGES = SUBLANES
# Places of a row that are computed together: their sums and what a row of taps
# needs fit into the 64 registers.
_PLACES = 8


def depthwise_conv(
  x: Float[Array, "b h w c"],
  kernel: Float[Array, "k k 1 c"],
  bias: Float[Array, " c"],
  otherwise: Callable[[Array, Array, Array], Array],
  interpret: bool = False,
) -> Float[Array, "b h w c"]:
  """Convolves each channel with its own filter, and adds a bias.

  The map keeps its size. Sums are float32.

  Args:
    x: Maps.
    kernel: Filters with an odd side.
    bias: Added inside the kernel, whose backward pass sums its gradient.
    otherwise: Computes the same, for maps whose rows do not fit into vector
      memory, and for devices whose images do not come in eights.
    interpret: Emulates the kernel where there is no TPU, slowly.
  """
  where = placement.of(("batch", None, None, None), batch=len(x))
  step = _Step.of(where.part_of(x.shape), len(kernel), x.dtype.itemsize)
  if step is None:
    return otherwise(x, kernel, bias)
  return _conv(x, kernel, bias, _Settings(step, interpret, where))


@dataclasses.dataclass(frozen=True)
class _Step:
  """Part of the maps that a step of the kernel's grid computes.

  Attributes:
    rows: Number of rows, a divisor of the map's.
    lanes: Number of channels.
    side: Side of the filters.
    grid: Number of steps over channels, images and rows.
  """

  rows: int
  lanes: int
  side: int
  grid: tuple[int, int, int]

  @classmethod
  def of(
    cls, shape: tuple[int, int, int, int], side: int, itemsize: int
  ) -> "_Step | None":
    """Returns the largest step for maps (b, h, w, c); None if none fits."""
    images, height, width, channels = shape
    if images % IMAGES:
      return None
    lanes = channels if channels % LANES else LANES
    for rows in range(height, 0, -1):
      grid = (channels // lanes, images // IMAGES, height // rows)
      step = cls(rows, lanes, side, grid)
      fits = step._num_bytes(height, width, itemsize) <= VMEM_BYTES
      if height % rows == 0 and fits:
        return step
    return None

  @property
  def border(self) -> int:
    return self.side // 2

  def rows_read(self, height: int) -> int:
    """Number of rows of a map of this height that a step reads."""
    return min(self.rows + 2 * self.border, height)

  def first_read(self, index: Any, height: int, read: int) -> Any:
    """First row that step `index` reads; a window never leaves the map."""
    return jnp.clip(index * self.rows - self.border, 0, height - read)

  def _num_bytes(self, height: int, width: int, itemsize: int) -> int:
    """Bytes of vector memory that the backward pass needs."""
    register = IMAGES * -(-self.lanes // LANES) * LANES
    wide = (self.rows + 2 * self.border) * (width + 2 * self.border)
    # Reads and writes overlap with the work on the previous step, so each array
    # needs two buffers.
    blocks = 2 * width * (self.rows_read(height) + 2 * self.rows)
    return register * (4 * wide + itemsize * blocks + 4 * 4 * self.side**2)


@dataclasses.dataclass(frozen=True)
class _Settings:
  step: _Step
  interpret: bool
  placement: placement.Placement


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _conv(x, kernel, bias, settings):
  return _forward(x, kernel, bias, settings)[0]


def _forward(x, kernel, bias, settings):
  spec = settings.placement.spec

  def run(x, taps):
    return _to_batch(_call_forward(_from_batch(x), taps, settings))

  run = settings.placement.on_each_device(
    run, in_specs=(spec, PartitionSpec()), out_specs=spec
  )
  return run(x, _in_registers(kernel, bias)), (x, kernel, bias)


def _backward(settings, saved, gradient):
  x, kernel, bias = saved
  spec = settings.placement.spec

  def run(x, taps, gradient):
    dx, sums = _call_backward(
      _from_batch(x), taps, _from_batch(gradient), settings
    )
    return _to_batch(dx), sums

  run = settings.placement.on_each_device(
    run, in_specs=(spec, PartitionSpec(), spec), out_specs=(spec, spec)
  )
  # The gradient of a convolution is one with the filters turned round, and so
  # are the sums for their taps.
  taps = _in_registers(kernel[::-1, ::-1], jnp.zeros_like(bias))
  dx, sums = run(x, taps, gradient)
  *dtaps, dbias = jnp.sum(sums, (0, 2))
  dkernel = jnp.stack(dtaps[::-1]).reshape(kernel.shape)
  return dx, dkernel.astype(kernel.dtype), dbias.astype(bias.dtype)


_conv.defvjp(_forward, _backward)


def _from_batch(x: Float[Array, "b h w c"]) -> Float[Array, "h w b c"]:
  return x.transpose(1, 2, 0, 3)


def _to_batch(x: Float[Array, "h w b c"]) -> Float[Array, "b h w c"]:
  return x.transpose(2, 0, 1, 3)


def _in_registers(
  kernel: Float[Array, "k k 1 c"], bias: Float[Array, " c"]
) -> Float[Array, "rows 8 c"]:
  """The taps of the filters and the bias, each in all rows of a register."""
  taps = kernel.astype(jnp.float32).reshape(-1, 1, len(bias))
  rows = jnp.concatenate([taps, bias.astype(jnp.float32)[None, None]])
  return jnp.broadcast_to(rows, (len(rows), IMAGES, len(bias)))


def _call_forward(x, taps, settings):
  step = settings.step
  specs = _Specs.of(step, x.shape)
  return pl.pallas_call(
    functools.partial(_forward_kernel, step=step),
    grid=step.grid,
    in_specs=[specs.window, specs.taps],
    out_specs=specs.rows,
    out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    scratch_shapes=[specs.wide],
    compiler_params=pltpu.CompilerParams(
      dimension_semantics=("parallel", "parallel", "parallel")
    ),
    # The side of the filters is in the name for the bound on its cycles in
    # `vit_jax.aot`.
    name=f"depthwise_conv_forward_{step.side}",
    interpret=settings.interpret,
  )(x, taps)


def _call_backward(x, taps, gradient, settings):
  """Returns the gradient of x, and parts of that of `taps` in float32.

  The parts, [parts, taps + 1, 1, c], are those of 8 images.
  """
  step = settings.step
  specs = _Specs.of(step, x.shape)
  _, tiles, _ = step.grid
  sums = (tiles, len(taps), 1, x.shape[-1])
  return pl.pallas_call(
    functools.partial(_backward_kernel, step=step),
    grid=step.grid,
    in_specs=[specs.window, specs.taps, specs.rows],
    out_specs=[specs.rows, specs.sums],
    out_shape=[
      jax.ShapeDtypeStruct(x.shape, x.dtype),
      jax.ShapeDtypeStruct(sums, jnp.float32),
    ],
    scratch_shapes=[specs.wide, specs.partial_sums],
    compiler_params=pltpu.CompilerParams(
      dimension_semantics=("parallel", "parallel", "arbitrary")
    ),
    name=f"depthwise_conv_backward_{step.side}",
    interpret=settings.interpret,
  )(gradient, taps, x)


@dataclasses.dataclass(frozen=True)
class _Specs:
  """Blocks of the arrays in a step.

  Attributes:
    window: Rows of a map with those above and below.
    rows: Rows of a map.
    taps: Taps of the filters, and the bias.
    sums: Gradients of each of them.
    wide: A window in float32 with zeros around the map.
    partial_sums: Those gradients for each row of a register.
  """

  window: pl.BlockSpec
  rows: pl.BlockSpec
  taps: pl.BlockSpec
  sums: pl.BlockSpec
  wide: Any
  partial_sums: Any

  @classmethod
  def of(cls, step: _Step, shape: tuple[int, int, int, int]) -> "_Specs":
    height, width, _, _ = shape
    border, num_rows, lanes = step.border, step.side**2 + 1, step.lanes
    read = step.rows_read(height)

    def window(channel, image, row):
      start = step.first_read(row, height, read)
      # Only a multiple of LANES needs more than one step.
      lane = 0 if step.grid[0] == 1 else channel * LANES
      return start, 0, image * IMAGES, lane

    return cls(
      window=pl.BlockSpec(
        tuple(map(pl.Element, (read, width, IMAGES, lanes))), window
      ),
      rows=pl.BlockSpec(
        (step.rows, width, IMAGES, lanes),
        lambda channel, image, row: (row, 0, image, channel),
      ),
      taps=pl.BlockSpec(
        (num_rows, IMAGES, lanes), lambda channel, image, row: (0, 0, channel)
      ),
      sums=pl.BlockSpec(
        (1, num_rows, 1, lanes),
        lambda channel, image, row: (image, 0, 0, channel),
      ),
      wide=pltpu.VMEM(
        (step.rows + 2 * border, width + 2 * border, IMAGES, lanes), jnp.float32
      ),
      partial_sums=pltpu.VMEM((num_rows, IMAGES, lanes), jnp.float32),
    )


def _widen(window_ref, wide_ref, step):
  """Writes a window into `wide_ref`, with zeros around the map."""
  border = step.border
  read, width = window_ref.shape[:2]
  height = step.rows * pl.num_programs(2)
  # Rows of the map: the first of `wide_ref`, and the first of the window.
  first = pl.program_id(2) * step.rows - border
  start = step.first_read(pl.program_id(2), height, read)
  num_rows, _, *register = wide_ref.shape
  above = jnp.maximum(-first, 0)
  below = jnp.minimum(height - first, num_rows)

  side = jnp.zeros((num_rows, border, *register), jnp.float32)
  wide_ref[:, :border] = side
  wide_ref[:, border + width :] = side

  def clear(i, carry):
    wide_ref[i, pl.ds(border, width)] = jnp.zeros(
      (width, *register), jnp.float32
    )
    return carry

  def copy(i, carry):
    row = window_ref[first - start + i]
    wide_ref[i, pl.ds(border, width)] = row.astype(jnp.float32)
    return carry

  jax.lax.fori_loop(0, above, clear, 0)
  jax.lax.fori_loop(above, below, copy, 0)
  jax.lax.fori_loop(below, num_rows, clear, 0)


def _parts(width: int, lanes: int) -> Iterator[tuple[range, pl.Slice]]:
  """Yields columns that are computed together, and lanes of a register."""
  for lane in range(0, lanes, LANES):
    for column in range(0, width, _PLACES):
      yield (
        range(column, min(column + _PLACES, width)),
        pl.ds(lane, min(LANES, lanes - lane)),
      )


# The loops over taps are unrolled, so that sums stay in registers.


def _forward_kernel(x_ref, taps_ref, y_ref, wide_ref, *, step):
  _widen(x_ref, wide_ref, step)
  rows, width = y_ref.shape[:2]

  def row(i, carry):
    for columns, lanes in _parts(width, step.lanes):
      sums = [taps_ref[step.side**2, :, lanes]] * len(columns)
      for up in range(step.side):
        inputs = _inputs(wide_ref, i + up, columns, lanes, step)
        for left in range(step.side):
          tap = taps_ref[up * step.side + left, :, lanes]
          for place in range(len(columns)):
            sums[place] += inputs[place + left] * tap
      for column, total in zip(columns, sums, strict=True):
        y_ref[i, column, :, lanes] = total.astype(y_ref.dtype)
    return carry

  jax.lax.fori_loop(0, rows, row, 0)


def _backward_kernel(
  gradient_ref, taps_ref, x_ref, dx_ref, dtaps_ref, wide_ref, sums_ref, *, step
):
  """The convolution of the gradient, and its products with x for each tap."""
  _widen(gradient_ref, wide_ref, step)
  rows, width = dx_ref.shape[:2]

  @pl.when(pl.program_id(2) == 0)
  def start():
    sums_ref[...] = jnp.zeros(sums_ref.shape, jnp.float32)

  def row(i, carry):
    for columns, lanes in _parts(width, step.lanes):
      x = [x_ref[i, column, :, lanes].astype(jnp.float32) for column in columns]
      sums = [0.0] * len(columns)
      for up in range(step.side):
        inputs = _inputs(wide_ref, i + up, columns, lanes, step)
        for left in range(step.side):
          number = up * step.side + left
          tap, of_tap = taps_ref[number, :, lanes], sums_ref[number, :, lanes]
          for place in range(len(columns)):
            sums[place] += inputs[place + left] * tap
            of_tap += inputs[place + left] * x[place]
          sums_ref[number, :, lanes] = of_tap
        if up == step.border:
          here = inputs[step.border : step.border + len(columns)]
          sums_ref[step.side**2, :, lanes] += sum(here)
      for column, total in zip(columns, sums, strict=True):
        dx_ref[i, column, :, lanes] = total.astype(dx_ref.dtype)
    return carry

  jax.lax.fori_loop(0, rows, row, 0)

  @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
  def finish():
    dtaps_ref[0] = jnp.sum(sums_ref[...], 1, keepdims=True)


def _inputs(wide_ref, row, columns, lanes, step):
  """The numbers that a row of taps multiplies, for each place and tap."""
  last = columns.stop + 2 * step.border
  return [wide_ref[row, i, :, lanes] for i in range(columns.start, last)]
