"""Assignment of array dimensions to mesh axes."""

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from vit_jax import trees
from vit_jax.errors import UserError

Rule = tuple[str, tuple[str | None, ...]]

# Aligned with the last dimensions, so that layers stacked by a scan also fit.
TENSOR_RULES: tuple[Rule, ...] = (
  (r".*/(query|key|value)/kernel", (None, "tensor", None)),
  (r".*/(query|key|value)/bias", ("tensor", None)),
  (r".*/out/kernel", ("tensor", None, None)),
  (r".*/relative_bias/table", (None, "tensor")),
  (r".*/MlpBlock_\d+/(Dense_0|gate)/kernel", (None, "tensor")),
  (r".*/MlpBlock_\d+/(Dense_0|gate)/bias", ("tensor",)),
  (r".*/MlpBlock_\d+/LayerNorm_0/(scale|bias)", ("tensor",)),
  (r".*/MlpBlock_\d+/Dense_1/kernel", ("tensor", None)),
)
# Gathering smaller arrays costs more than it saves.
FSDP_MIN_BYTES = 2**20


@dataclasses.dataclass(frozen=True)
class Placement:
  """Placement of one parameter.

  Attributes:
    sharding: Axes of its dimensions.
    whole_along: Axis of more than one device that does not split it -> reason.
  """

  sharding: NamedSharding
  whole_along: dict[str, str]


def placements(
  params: Any,
  mesh: Mesh,
  user_rules: Sequence[Rule] = (),
  family_rules: Sequence[Rule] = (),
) -> dict[str, Placement]:
  """Returns the path of each parameter -> Placement, in tree order.

  The first rule whose regex matches the whole path assigns axes to the last
  dimensions. Then, for arrays of at least 1 MiB, `fsdp` takes a free dimension
  that it divides: the one that the rule has for `tensor`, or else the largest.
  It does not if a user's rule names no axis at all.

  Args:
    params: Tree of arrays or ShapeDtypeStructs.
    mesh: Mesh of the devices.
    user_rules: Rules of the user, tried first.
    family_rules: Rules of the model's family, tried before the shared ones.

  Raises:
    UserError: A user's rule matches nothing or does not divide a dimension, or
      a rule names an axis twice or one that does not exist.
  """
  for pattern, axes in family_rules:
    _check_axes(f"The family's sharding rule {pattern!r}", axes, mesh)
  rules = (*user_rules, *family_rules, *TENSOR_RULES)
  used = set()
  found = {}
  for path, leaf in trees.named_leaves(params):
    index, rule = _first_match(path, rules)
    used.add(index)
    is_users = index < len(user_rules)
    found[path] = _place(path, leaf, rule, is_users, mesh)
  for index, (pattern, _) in enumerate(user_rules):
    if index not in used:
      raise UserError(
        f"config.mesh.rules: {pattern!r} matches no parameter, or an earlier"
        " rule took all it matches; see the parameter table of --dry_run."
      )
  return found


def param_shardings(
  params: Any,
  mesh: Mesh,
  user_rules: Sequence[Rule] = (),
  family_rules: Sequence[Rule] = (),
) -> Any:
  """Returns a tree of NamedShardings for parameters, from `placements`."""
  found = placements(params, mesh, user_rules, family_rules)
  return trees.map_named(lambda path, _: found[path].sharding, params)


def state_shardings(state: Any, params: Any, shardings: Any, mesh: Mesh) -> Any:
  """Returns optimizer state shardings: each moment follows its parameter.

  Args:
    state: Tree of arrays or ShapeDtypeStructs, such as an optax state.
    params: Parameters to which the state belongs.
    shardings: Shardings of the parameters, from `param_shardings`.
    mesh: Mesh on which leaves that correspond to no parameter are replicated.
  """
  by_path = {
    path: (leaf.shape, sharding)
    for (path, leaf), sharding in zip(
      trees.named_leaves(params), jax.tree.leaves(shardings), strict=True
    )
  }

  def place(path: str, leaf: Any) -> NamedSharding:
    parts = path.split("/")
    for start in range(len(parts)):
      found = by_path.get("/".join(parts[start:]))
      if found and found[0] == leaf.shape:
        return found[1]
    return NamedSharding(mesh, PartitionSpec())

  return trees.map_named(place, state)


def shard_bytes(tree: Any, shardings: Any) -> int:
  """Returns the bytes of `tree` that one device holds."""
  return sum(
    math.prod(sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
    for leaf, sharding in zip(
      jax.tree.leaves(tree), jax.tree.leaves(shardings), strict=True
    )
  )


def format_bytes(size: float | int) -> str:
  """Formats '1.50 GiB'."""
  for unit in ("B", "KiB", "MiB"):
    if size < 1024:
      return f"{size:.0f} B" if unit == "B" else f"{size:.2f} {unit}"
    size /= 1024
  return f"{size:.2f} GiB"


def _first_match(
  path: str, rules: Sequence[Rule]
) -> tuple[int, tuple[str | None, ...] | None]:
  """Returns index and axes of the first matching rule; axes None if none."""
  for index, (pattern, axes) in enumerate(rules):
    if re.fullmatch(pattern, path):
      return index, axes
  return len(rules), None


def _place(
  path: str,
  leaf: Any,
  axes: tuple[str | None, ...] | None,
  is_users: bool,
  mesh: Mesh,
) -> Placement:
  """Places a parameter by one rule's axes (maybe the user's), then FSDP."""
  spec: list[str | None] = [None] * len(leaf.shape)
  whole_along = {}
  if axes is None:
    whole_along["tensor"] = "no rule splits it"
  elif is_users:
    spec = _checked(path, leaf.shape, axes, mesh)
    whole_along["tensor"] = "config.mesh.rules says so"
  elif len(axes) <= len(spec):
    if "tensor" not in axes:
      whole_along["tensor"] = "no rule splits it"
    for dimension, axis in enumerate(axes, len(spec) - len(axes)):
      if axis is None:
        continue
      if leaf.shape[dimension] % mesh.shape[axis]:
        whole_along[axis] = (
          f"{mesh.shape[axis]} do not divide {leaf.shape[dimension]}"
        )
      else:
        spec[dimension] = axis
  # Axes of one device split nothing and leave a dimension to FSDP.
  spec = [axis if axis and mesh.shape[axis] > 1 else None for axis in spec]
  if is_users and not any(axes):
    whole_along["fsdp"] = "config.mesh.rules says so"
  elif mesh.shape["fsdp"] > 1 and "fsdp" not in spec:
    named = () if axes is None or len(axes) > len(spec) else axes
    whole_along["fsdp"] = _split_further(
      leaf, spec, mesh.shape["fsdp"], [*[""] * (len(spec) - len(named)), *named]
    )
  while spec and spec[-1] is None:
    spec.pop()
  return Placement(
    NamedSharding(mesh, PartitionSpec(*spec)),
    {
      axis: why
      for axis, why in whole_along.items()
      if why and axis not in spec and mesh.shape[axis] > 1
    },
  )


def _check_axes(rule: str, axes: Sequence[str | None], mesh: Mesh) -> None:
  for axis in filter(None, axes):
    if axis not in mesh.shape:
      raise UserError(
        f"{rule} names the axis {axis!r}; the axes are {', '.join(mesh.shape)}."
      )
    if axes.count(axis) > 1:
      raise UserError(
        f"{rule} names the axis {axis!r} twice; one dimension can have it."
      )


def _checked(
  path: str, shape: tuple[int, ...], axes: tuple[str | None, ...], mesh: Mesh
) -> list[str | None]:
  """Returns the user's `axes` for the last dimensions.

  Raises:
    UserError: The rule does not fit.
  """
  if len(axes) > len(shape):
    raise UserError(
      f"config.mesh.rules gives {len(axes)} axes for {path}, which has"
      f" {len(shape)} dimensions."
    )
  spec = [None] * (len(shape) - len(axes)) + list(axes)
  _check_axes(f"For {path}, config.mesh.rules", axes, mesh)
  for index, axis in enumerate(spec):
    if axis and shape[index] % mesh.shape[axis]:
      raise UserError(
        f"config.mesh.rules splits dimension {index} of {path}"
        f" ({shape[index]}) over {mesh.shape[axis]} devices of {axis!r},"
        " which do not divide it."
      )
  return spec


def _split_further(
  leaf: Any,
  spec: list[str | None],
  num_shards: int,
  named: Sequence[str | None],
) -> str:
  """Assigns a dimension of `spec` to `fsdp` in place, or returns why not.

  Dimensions that `tensor` could split come first, as heads are separate in
  memory: parts of whole heads can be gathered into any layout that a product
  needs.
  """
  if math.prod(leaf.shape) * leaf.dtype.itemsize < FSDP_MIN_BYTES:
    return f"below {format_bytes(FSDP_MIN_BYTES)}"
  free = [
    (named[i] == "tensor", leaf.shape[i], -i)
    for i, axis in enumerate(spec)
    if axis is None and leaf.shape[i] % num_shards == 0
  ]
  if not free:
    return f"{num_shards} divide no free dimension"
  spec[-max(free)[2]] = "fsdp"
  return ""
