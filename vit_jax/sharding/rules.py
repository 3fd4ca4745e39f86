"""Which mesh axis holds which dimension of which array."""

import math
import re
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from vit_jax import trees
from vit_jax.errors import UserError

Rule = tuple[str, tuple[str | None, ...]]

# Aligned with the last dimensions, so that layers stacked by a scan fit too.
TENSOR_RULES: tuple[Rule, ...] = (
  (r".*/(query|key|value)/kernel", (None, "tensor", None)),
  (r".*/(query|key|value)/bias", ("tensor", None)),
  (r".*/out/kernel", ("tensor", None, None)),
  (r".*/MlpBlock_\d+/Dense_0/kernel", (None, "tensor")),
  (r".*/MlpBlock_\d+/Dense_0/bias", ("tensor",)),
  (r".*/MlpBlock_\d+/Dense_1/kernel", ("tensor", None)),
)
# Smaller arrays cost more to gather than they save.
FSDP_MIN_BYTES = 4 * 2**20


def param_shardings(
  params: Any, mesh: Mesh, user_rules: Sequence[Rule] = ()
) -> Any:
  """A NamedSharding for each parameter.

  The first rule whose regex matches the whole path assigns axes to the last
  dimensions; then `fsdp` takes the largest dimension still free that it
  divides, of arrays of at least 4 MiB.

  Args:
    params: tree of arrays or ShapeDtypeStructs.
    mesh: the mesh.
    user_rules: tried before the built-in ones.

  Raises:
    UserError: if a rule of the user's matches nothing, names an axis that
      does not exist, or does not divide a dimension.
  """
  used = set()

  def place(path: str, leaf: Any) -> NamedSharding:
    for index, (pattern, axes) in enumerate((*user_rules, *TENSOR_RULES)):
      if not re.fullmatch(pattern, path):
        continue
      used.add(index)
      is_users = index < len(user_rules)
      spec = _aligned(path, leaf.shape, axes, mesh, strict=is_users)
      return NamedSharding(mesh, _with_fsdp(leaf, spec, mesh))
    return NamedSharding(mesh, _with_fsdp(leaf, [None] * leaf.ndim, mesh))

  shardings = trees.map_named(place, params)
  for index, (pattern, _) in enumerate(user_rules):
    if index not in used:
      raise UserError(
        f"config.mesh.rules: {pattern!r} matches no parameter, or an earlier"
        " rule took all it matches; see the parameter table of --dry_run."
      )
  return shardings


def state_shardings(state: Any, params: Any, shardings: Any, mesh: Mesh) -> Any:
  """Shardings of optimizer state: each moment follows its parameter.

  Args:
    state: tree of arrays or ShapeDtypeStructs, such as an optax state.
    params: the parameters.
    shardings: theirs, from `param_shardings`.
    mesh: the mesh; leaves that mirror no parameter are replicated on it.
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
  """Bytes of `tree` that one device holds."""
  return sum(
    math.prod(sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
    for leaf, sharding in zip(
      jax.tree.leaves(tree), jax.tree.leaves(shardings), strict=True
    )
  )


def table(params: Any, shardings: Any) -> str:
  """One line for each group of parameters that are placed alike."""
  groups: dict[tuple[str, str], list[int]] = {}
  for (path, leaf), sharding in zip(
    trees.named_leaves(params), jax.tree.leaves(shardings), strict=True
  ):
    pattern = re.sub(r"encoderblock_\d+", "encoderblock_*", path)
    spec = ", ".join(
      "+".join(axis) if isinstance(axis, tuple) else str(axis or "-")
      for axis in (*sharding.spec, *[None] * leaf.ndim)[: leaf.ndim]
    )
    placed = f"{tuple(leaf.shape)} -> ({spec})"
    size = math.prod(sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
    groups.setdefault((pattern, placed), []).append(size)
  width = max(len(pattern) for pattern, _ in groups)
  lines = [f"{'Parameter':{width}}  Count  Per device  Shape -> mesh axes"]
  for (pattern, placed), sizes in groups.items():
    lines.append(
      f"{pattern:{width}}  {len(sizes):5}  {format_bytes(sum(sizes)):>10}"
      f"  {placed}"
    )
  return "\n".join(lines)


def format_bytes(size: float | int) -> str:
  """'1.50 GiB'."""
  for unit in ("B", "KiB", "MiB"):
    if size < 1024:
      return f"{size:.0f} B" if unit == "B" else f"{size:.2f} {unit}"
    size /= 1024
  return f"{size:.2f} GiB"


def _aligned(
  path: str,
  shape: tuple[int, ...],
  axes: tuple[str | None, ...],
  mesh: Mesh,
  strict: bool,
) -> list[str | None]:
  """`axes` for the last dimensions, without those that split nothing."""
  if len(axes) > len(shape):
    if strict:
      raise UserError(
        f"config.mesh.rules gives {len(axes)} axes for {path}, which has"
        f" {len(shape)} dimensions."
      )
    return [None] * len(shape)
  spec = [None] * (len(shape) - len(axes)) + list(axes)
  for index, axis in enumerate(spec):
    if axis is None:
      continue
    if axis not in mesh.shape:
      raise UserError(
        f"config.mesh.rules names the axis {axis!r} for {path}; the axes are"
        f" {', '.join(mesh.shape)}."
      )
    if mesh.shape[axis] == 1:
      spec[index] = None
    elif shape[index] % mesh.shape[axis]:
      if strict:
        raise UserError(
          f"config.mesh.rules splits dimension {index} of {path}"
          f" ({shape[index]}) over {mesh.shape[axis]} devices of {axis!r},"
          " which do not divide it."
        )
      spec[index] = None
  return spec


def _with_fsdp(leaf: Any, spec: list[str | None], mesh: Mesh) -> PartitionSpec:
  num_shards = mesh.shape["fsdp"]
  size = math.prod(leaf.shape) * leaf.dtype.itemsize
  if num_shards > 1 and size >= FSDP_MIN_BYTES and "fsdp" not in spec:
    free = [
      (leaf.shape[i], -i)
      for i, axis in enumerate(spec)
      if axis is None and leaf.shape[i] % num_shards == 0
    ]
    if free:
      spec[-max(free)[1]] = "fsdp"
  while spec and spec[-1] is None:
    spec.pop()
  return PartitionSpec(*spec)
