"""Parameters of a file being fitted to a network of the same family."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vit_jax.config import schema
from vit_jax.models.detection import Shape


@dataclasses.dataclass
class Fitting:
  """Leaves to drop, change and initialise, with notes on each.

  `Family.fit` edits `leaves` in place.

  Attributes:
    leaves: {path: array} of the file, with layers stacked as in `shapes`.
    shapes: {path: shape} of all parameters of the network.
    wanted: Section `model` of the network.
    resize: `resize(table [tables, n, d], old_grid, new_grid, num_prefix=...,
      method=...)`, the table for another grid.
    in_file: Paths of all parameters of the file, including dropped ones.
    fresh: Paths of the network's parameters that are to be initialised.
    dropped: Paths of the file that the network does not use.
    notes: A sentence for everything fresh, dropped or resized.
  """

  leaves: dict[str, Any]
  shapes: dict[str, Shape]
  wanted: schema.Model
  resize: Callable[..., np.ndarray]
  in_file: frozenset[str] = frozenset()
  fresh: list[str] = dataclasses.field(default_factory=list)
  dropped: list[str] = dataclasses.field(default_factory=list)
  notes: list[str] = dataclasses.field(default_factory=list)

  def drop(self, names: Sequence[str]) -> None:
    """Drops parameters of the file, ignoring those it does not have."""
    for name in names:
      if self.leaves.pop(name, None) is not None:
        self.dropped.append(name)

  def start(self, names: Sequence[str]) -> None:
    """Initialises parameters, ignoring those the network does not have."""
    self.fresh.extend(
      name for name in names if name in self.shapes and name not in self.fresh
    )
