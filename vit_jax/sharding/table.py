"""Table of splits, with the reason for each array that is not split."""

import math
import re
from collections.abc import Mapping
from typing import Any

from vit_jax import text_tables, trees
from vit_jax.sharding.rules import Placement, format_bytes


def table(params: Any, placements: Mapping[str, Placement]) -> str:
  """Formats one line per group of parameters with the same placement.

  Args:
    params: Tree of arrays or ShapeDtypeStructs.
    placements: Placements of the parameters, from `rules.placements`.

  Returns:
    Count, bytes on one device, shape, mesh axes, and the reason for every axis
    of more than one device that does not split the group; the last line has the
    sums.
  """
  groups: dict[tuple[str, str, str], list[int]] = {}
  whole = held = 0
  for path, leaf in trees.named_leaves(params):
    placement = placements[path]
    sharding = placement.sharding
    size = math.prod(sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
    whole += trees.num_bytes(leaf)
    held += size
    key = (
      re.sub(r"encoderblock_\d+", "encoderblock_*", path),
      f"{tuple(leaf.shape)} -> ({_axes(sharding.spec, leaf.ndim)})",
      "; ".join(f"{a}: {why}" for a, why in placement.whole_along.items()),
    )
    groups.setdefault(key, []).append(size)
  rows = [("Parameter", "Count", "Per device", "Shape -> mesh axes", "Whole")]
  for (pattern, placed, why), sizes in groups.items():
    held_text = format_bytes(sum(sizes))
    rows.append((pattern, str(len(sizes)), held_text, placed, why))
  lines = text_tables.aligned(rows, right=(1, 2))
  lines.append(f"A device holds {format_bytes(held)} of {format_bytes(whole)}.")
  return "\n".join(lines)


def _axes(spec: Any, num_dimensions: int) -> str:
  """Formats '-, fsdp' for a matrix with columns split over `fsdp`."""
  axes = (*spec, *[None] * num_dimensions)[:num_dimensions]
  return ", ".join(
    "+".join(axis) if isinstance(axis, tuple) else str(axis or "-")
    for axis in axes
  )
