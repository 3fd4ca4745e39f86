"""PyTorch's tensors and our arrays: names, shapes and the order of the axes.

A list of `Pair`s says all that differs between two ways to hold the same
parameters, so that one list serves to read a file and to write it.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vit_jax.errors import UserError
from vit_jax.weights import flat, shape_mismatches

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Pair:
  """One parameter on both sides.

  Attributes:
    theirs: name of the tensor.
    their_shape: its shape.
    ours: path of our parameter.
    our_shape: its shape.
    axes: the tensor transposed by these, then reshaped, is our parameter.
  """

  theirs: str
  their_shape: Shape
  ours: str
  our_shape: Shape
  axes: Shape

  def to_ours(self, tensor: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(
      tensor.transpose(self.axes).reshape(self.our_shape)
    )

  def to_theirs(self, array: np.ndarray) -> np.ndarray:
    transposed = tuple(self.their_shape[axis] for axis in self.axes)
    return np.ascontiguousarray(
      array.reshape(transposed).transpose(np.argsort(self.axes))
    )


def plain(theirs: str, ours: str, *shape: int) -> list[Pair]:
  """The same on both sides."""
  return [Pair(theirs, shape, ours, shape, tuple(range(len(shape))))]


def norm(theirs: str, ours: str, size: int) -> list[Pair]:
  """Scale and bias of a normalisation."""
  return [
    *plain(f"{theirs}.weight", f"{ours}/scale", size),
    *plain(f"{theirs}.bias", f"{ours}/bias", size),
  ]


def dense(theirs: str, ours: str, inputs: int, outputs: int) -> list[Pair]:
  """PyTorch holds matrices as (outputs, inputs)."""
  kernel = Pair(
    f"{theirs}.weight",
    (outputs, inputs),
    f"{ours}/kernel",
    (inputs, outputs),
    (1, 0),
  )
  return [kernel, *plain(f"{theirs}.bias", f"{ours}/bias", outputs)]


def pointwise(theirs: str, ours: str, inputs: int, outputs: int) -> list[Pair]:
  """Our dense layer, there a convolution of one pixel."""
  kernel = Pair(
    f"{theirs}.weight",
    (outputs, inputs, 1, 1),
    f"{ours}/kernel",
    (inputs, outputs),
    (2, 3, 1, 0),
  )
  return [kernel, *plain(f"{theirs}.bias", f"{ours}/bias", outputs)]


def conv(
  theirs: str, ours: str, size: int, inputs: int, outputs: int, *, bias: bool
) -> list[Pair]:
  """A square convolution: (outputs, inputs, rows, columns) there."""
  kernel = Pair(
    f"{theirs}.weight",
    (outputs, inputs, size, size),
    f"{ours}/kernel",
    (size, size, inputs, outputs),
    (2, 3, 1, 0),
  )
  biases = plain(f"{theirs}.bias", f"{ours}/bias", outputs) if bias else []
  return [kernel, *biases]


def to_heads(
  theirs: str, ours: str, width: int, num_heads: int, *, bias: bool
) -> list[Pair]:
  """Query, key or value projection; heads are an axis of ours."""
  heads = (num_heads, width // num_heads)
  kernel = Pair(
    f"{theirs}.weight",
    (width, width),
    f"{ours}/kernel",
    (width, *heads),
    (1, 0),
  )
  biases = Pair(f"{theirs}.bias", (width,), f"{ours}/bias", heads, (0,))
  return [kernel, biases] if bias else [kernel]


def from_heads(
  theirs: str, ours: str, width: int, num_heads: int
) -> list[Pair]:
  """The projection of all heads' results."""
  kernel = Pair(
    f"{theirs}.weight",
    (width, width),
    f"{ours}/kernel",
    (num_heads, width // num_heads, width),
    (1, 0),
  )
  return [kernel, *plain(f"{theirs}.bias", f"{ours}/bias", width)]


def read(
  path: str, tensors: Mapping[str, np.ndarray], pairs: Sequence[Pair]
) -> dict[str, Any]:
  """Our parameters, as a nested dict, from a file's tensors.

  Raises:
    UserError: a table of the tensors that are missing, left over or of
      another shape.
  """
  wanted = {pair.theirs: pair.their_shape for pair in pairs}
  odd = [
    shape_mismatches.Misfit(
      name,
      tensors[name].shape if name in tensors else None,
      wanted.get(name),
    )
    for name in sorted(wanted.keys() | tensors.keys())
    if name not in tensors or tensors[name].shape != wanted.get(name)
  ]
  if odd:
    raise UserError(
      f"The tensors of {path} are not those of the network that it seems to"
      f" be of, by its config.json and by names:\n{shape_mismatches.table(odd)}"
    )
  return flat.unflatten(
    {pair.ours: pair.to_ours(tensors[pair.theirs]) for pair in pairs}
  )


def write(
  params: Mapping[str, Any], pairs: Sequence[Pair]
) -> dict[str, np.ndarray]:
  """Their tensors from our parameters."""
  leaves = flat.flatten(params)
  names = {pair.ours for pair in pairs}
  assert leaves.keys() == names, leaves.keys() ^ names
  return {
    pair.theirs: pair.to_theirs(np.asarray(leaves[pair.ours], np.float32))
    for pair in pairs
  }
