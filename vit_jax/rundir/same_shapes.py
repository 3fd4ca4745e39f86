"""Comparison of a saved state's arrays with those of the run's state."""

from collections.abc import Mapping
from typing import Any

from vit_jax import trees, truncate
from vit_jax.weights import shape_mismatches

_PARAMS = "params/"
_NAMED = 4


def misfits(saved: Mapping[str, tuple[int, ...]], state: Any) -> str:
  """Returns a clause that names the arrays that differ; "" if none do.

  If parameters differ, only they are named, because the optimizer's arrays then
  differ as well.

  Args:
    saved: Shapes of the saved state, by path.
    state: Expected state, or its ShapeDtypeStructs.
  """
  wanted = {name: tuple(x.shape) for name, x in trees.named_leaves(state)}
  found = shape_mismatches.find(saved, wanted)
  params = [one for one in found if one.parameter.startswith(_PARAMS)]
  what = "parameters" if params else "training state"
  lines = [
    f"{one.parameter.removeprefix(_PARAMS)} was {_shown(one.in_file)}, is"
    f" {_shown(one.wanted)}"
    for one in params or found
  ]
  listed = truncate.first(lines, _NAMED, separator="; ")
  return f"its {what} would change ({listed})" if lines else ""


def _shown(shape: tuple[int, ...] | None) -> str:
  return "not there" if shape is None else str(shape)
