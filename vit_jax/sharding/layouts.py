"""Order of a gradient's dimensions in a TPU's memory."""

import jax
from jax.experimental.layout import Layout, with_layout_constraint
from jax.sharding import NamedSharding
from jaxtyping import PyTree

# A float32 tile in a TPU's memory: sizes of the second-to-last dimension and
# the last.
_TILE = (8, 128)


def scatterable(grads: PyTree, shardings: PyTree) -> PyTree:
  """Lays out the gradients of matrices so that TPUs scatter them.

  A gradient that is split along the innermost dimension in memory is often
  summed on all devices and only then cut: if its rows are innermost, or if a
  part is an odd number of tiles wide. With the split dimension outermost it is
  reduce-scattered. The part that a device keeps is then copied to the layout of
  the parameter and its moments, which therefore need no copies. Values and
  shapes are unchanged.

  Args:
    grads: Tree of gradients.
    shardings: A NamedSharding for each, that of its parameter.

  Returns:
    The gradients, within `jax.jit`; unchanged on devices other than TPUs.
  """

  def lay_out(grad: jax.Array, sharding: NamedSharding) -> jax.Array:
    if sharding.mesh.devices.flat[0].platform != "tpu" or grad.ndim != 2:
      return grad
    part = sharding.shard_shape(grad.shape)
    inner = _innermost(part)
    is_split = sharding.spec[inner : inner + 1] == ("fsdp",)
    if not is_split or (inner == 1 and part[1] % (2 * _TILE[1]) == 0):
      return grad
    outer = 1 - inner
    grad = with_layout_constraint(grad, Layout((inner, outer)))
    return with_layout_constraint(grad, Layout((outer, inner)))

  return jax.tree.map(lay_out, grads, shardings)


def _innermost(shape: tuple[int, ...]) -> int:
  """Returns the dimension of a matrix along which a TPU lays out tiles.

  It is the last one, unless the matrix takes less memory the other way.
  """
  rows, columns = shape
  return 0 if _padded(columns, rows) < _padded(rows, columns) else 1


def _padded(outer: int, inner: int) -> int:
  """Returns the size of a matrix in memory, in numbers, as whole tiles."""
  return -(-outer // _TILE[0]) * _TILE[0] * (-(-inner // _TILE[1]) * _TILE[1])
