"""PyTorch's parameters and ours: names and order of axes.

One table of names is used to read a file, write it and report mismatches. Axes
follow from the kind of parameter: PyTorch stores matrices as (outputs, inputs),
convolutions as (outputs, inputs, rows, columns), and attention heads joined.
"""

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.weights import flat, network
from vit_jax.weights.shape_mismatches import Misfit, Shape, ShapeMismatchError

Tensors = Mapping[str, np.ndarray]

_NUMBER = re.compile(r"\{(\d+)\}")
_LEAVES = {"kernel": "weight", "scale": "weight", "bias": "bias"}
_HEADS = ("query", "key", "value")
_HEAD = "head/kernel"
_ROTATED = re.compile(r"Transformer/.*/(query|key)/(kernel|bias)")


@dataclasses.dataclass(frozen=True)
class Names:
  """One naming scheme for a network's parameters.

  Attributes:
    rows: Pairs of (ours, theirs), each a module or a single parameter. Braces
      hold the first value of a number: "block{1}/unit{01}" is
      "stages.{0}.blocks.{0}". If a module has several rows, the first is
      written.
    required: Names of tensors that every file of this kind has.
    by_halves: True if rotary positions rotate the first half of a head's units
      with the second half. Ours rotate neighbours, so that units of queries and
      keys are reordered.
  """

  rows: tuple[tuple[str, str], ...]
  required: tuple[str, ...] = ()
  by_halves: bool = False

  def ours(self, name: str, rank: int) -> str:
    """Returns our path for a tensor; an unknown name is unchanged."""
    for ours, theirs in self.rows:
      if (found := renumbered(name, theirs, ours)) is not None:
        return found
    module, _, leaf = name.rpartition(".")
    for ours, theirs in self.rows:
      found = renumbered(module, theirs, ours)
      if found is not None and leaf in ("weight", "bias"):
        kind = "scale" if rank == 1 else "kernel"
        return f"{found}/{'bias' if leaf == 'bias' else kind}"
    return name

  def theirs(self, path: str) -> str:
    """Returns the tensor's name for our path; an unknown path is unchanged."""
    module, _, leaf = path.rpartition("/")
    for ours, theirs in self.rows:
      if (found := renumbered(path, ours, theirs)) is not None:
        return found
      found = renumbered(module, ours, theirs)
      if found is not None and leaf in _LEAVES:
        return f"{found}.{_LEAVES[leaf]}"
    return path

  def respelled(self, misfit: Misfit) -> Misfit:
    """Returns a misfit with PyTorch's name and shapes."""

    def shape(ours: Shape | None) -> Shape | None:
      if ours is None:
        return None
      return _to_theirs(misfit.parameter, np.empty(ours, np.float32)).shape

    return Misfit(
      self.theirs(misfit.parameter), shape(misfit.in_file), shape(misfit.wanted)
    )


def read(
  path: str, tensors: Tensors, names: Names, said: Mapping[str, Any]
) -> tuple[schema.Model, dict[str, Any], list[str]]:
  """Converts tensors to a network and its parameters.

  Args:
    path: Path of the file, for messages.
    tensors: Tensors by name.
    names: Naming scheme of the file.
    said: Keys of `schema.Model` that tensors do not determine, including
      `num_heads` for a Transformer, or within each part if there are several.

  Returns:
    The section `model`, a nested dict of parameters, and a sentence for each
    assumption.

  Raises:
    UserError: The tensors do not form one network; the message has a table.
  """
  check_required(path, tensors, names)
  said, num_heads = _without_heads(said)
  parts = {
    name: _without_heads(value)
    for name, value in said.items()
    if isinstance(value, Mapping)
  }
  said |= {name: keys for name, (keys, _) in parts.items()}
  params: dict[str, np.ndarray] = {}
  for name, tensor in tensors.items():
    ours = names.ours(name, tensor.ndim)
    if ours in params:
      raise UserError(f"{path} holds {ours} twice, once as '{name}'.")
    _, heads = parts.get(ours.partition("/")[0], (None, num_heads))
    array = to_ours(ours, tensor, heads)
    if names.by_halves and _ROTATED.fullmatch(ours):
      array = _swapped(array, (2, -1))
    params[ours] = np.asarray(array, order="C")
  try:
    model, assumed = network.detect(params, path, said)
  except ShapeMismatchError as error:
    raise error.respelled(names.respelled) from None
  return model, flat.unflatten(params), assumed


def check_required(path: str, tensors: Tensors, names: Names) -> None:
  """Checks that a file has the tensors that its kind requires.

  Raises:
    UserError: One is missing.
  """
  for name in names.required:
    if name not in tensors:
      some = ", ".join(sorted(tensors)[:4]) or "none"
      raise UserError(
        f"{path} has no tensor '{name}', so it is not of this kind. Its"
        f" tensors: {some}{', ...' if len(tensors) > 4 else ''}."
      )


def _without_heads(said: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
  """Splits off the number of heads; 1 if it is not a single number.

  Heads per stage are a family's own key.
  """
  said = dict(said)
  is_one = isinstance(said.get("num_heads"), int)
  return said, said.pop("num_heads") if is_one else 1


def write(params: Mapping[str, Any], names: Names) -> dict[str, np.ndarray]:
  """Converts parameters with unstacked layers to PyTorch tensors."""
  written: dict[str, np.ndarray] = {}
  for path, leaf in flat.flatten(params).items():
    array = np.asarray(leaf, np.float32)
    if names.by_halves and _ROTATED.fullmatch(path):
      array = _swapped(array, (-1, 2))
    array = _to_theirs(path, array)
    written[names.theirs(path)] = np.asarray(array, order="C")
  return written


def to_ours(path: str, tensor: np.ndarray, num_heads: int) -> np.ndarray:
  """Converts a tensor to our axes; unchanged if its shape is unexpected.

  Args:
    path: Our path of the parameter.
    tensor: Tensor with PyTorch's axes.
    num_heads: Number of heads of the attention it may belong to.
  """
  *_, module, leaf = ("", *path.split("/"))
  if leaf == "kernel" and tensor.ndim == 4:
    tensor = tensor.transpose(2, 3, 1, 0)
    if path == _HEAD and tensor.shape[:2] == (1, 1):
      return tensor[0, 0]  # A 1 x 1 convolution.
  elif leaf == "kernel" and tensor.ndim == 2:
    tensor = tensor.T
  *others, last = tensor.shape or (0,)
  if module in _HEADS and last % num_heads == 0:
    return tensor.reshape(*others, num_heads, last // num_heads)
  if module == "out" and len(others) == 1 and others[0] % num_heads == 0:
    return tensor.reshape(num_heads, others[0] // num_heads, last)
  return tensor


def _swapped(array: np.ndarray, pairs: tuple[int, int]) -> np.ndarray:
  """Transposes the units of heads as `pairs`; unchanged if these are odd."""
  *others, size = array.shape or (1,)
  if size % 2:
    return array
  split = array.reshape(*others, *pairs)
  return split.swapaxes(-1, -2).reshape(array.shape)


def _to_theirs(path: str, array: np.ndarray) -> np.ndarray:
  *_, module, leaf = ("", *path.split("/"))
  is_split = array.ndim == (3 if leaf == "kernel" else 2)
  if module in _HEADS and is_split:
    array = array.reshape(*array.shape[:-2], array.shape[-2] * array.shape[-1])
  elif module == "out" and leaf == "kernel" and is_split:
    array = array.reshape(array.shape[0] * array.shape[1], array.shape[2])
  if leaf != "kernel":
    return array
  if array.ndim == 4:
    return array.transpose(3, 2, 0, 1)
  return array.T if array.ndim == 2 else array


def renumbered(name: str, source: str, target: str) -> str | None:
  """Rewrites a name from one template to another; None without a match.

  Args:
    name: A name such as "blocks.3.norm1".
    source: Template of the name, with numbers as in `Names`.
    target: Template of the result.
  """
  pattern, firsts = _compiled(source)
  match = pattern.fullmatch(name)
  if match is None:
    return None
  numbers = iter(
    int(number) - int(first)
    for number, first in zip(match.groups(), firsts, strict=True)
  )

  def spell(first: re.Match[str]) -> str:
    return str(next(numbers) + int(first[1])).zfill(len(first[1]))

  return _NUMBER.sub(spell, target)


@functools.cache
def _compiled(template: str) -> tuple[re.Pattern[str], list[str]]:
  texts, firsts = _NUMBER.split(template)[::2], _NUMBER.findall(template)
  # As many digits as module numbers may have; a damaged name may have more.
  return re.compile("([0-9]{1,6})".join(map(re.escape, texts))), firsts
