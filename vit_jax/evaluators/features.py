"""Frozen features of a whole split, collected on the host."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from vit_jax.errors import UserError
from vit_jax.evaluators import contract
from vit_jax.evaluators.split import Split
from vit_jax.sharding import mesh as meshes


@dataclasses.dataclass(frozen=True)
class Examples:
  """Features with their classes."""

  features: Float[np.ndarray, "n d"]
  labels: Int[np.ndarray, " n"]

  def rows(self, rows: Int[np.ndarray, " k"]) -> "Examples":
    """Returns only these rows."""
    return Examples(self.features[rows], self.labels[rows])


class Extractor:
  """Computes one named feature of images; compiled once for all splits.

  `compute(params, batch)` returns the features of one batch: 'feature', and
  'label', 'id' and 'mask' if present, complete on every process.
  """

  def __init__(self, representation: str, context: contract.Context):
    self._representation = representation
    self._context = context
    self.compute = jax.jit(
      self._compute_batch, out_shardings=meshes.replicated(context.mesh)
    )

  def __call__(self, params: Any, split: Split) -> Examples:
    """Returns features and labels in the order of the split, on every process.

    Raises:
      UserError: A feature is missing, not finite or not a vector.
    """
    rows = split.measured(
      lambda batch: self.compute(params, batch),
      lambda *_: self._context.heartbeat(),
    )
    features = rows["feature"]
    if not np.isfinite(features).all():
      raise UserError(
        f"{split.key}: {self._representation!r} is NaN or infinite for some"
        " images, so the parameters are damaged; evaluate an earlier"
        " checkpoint."
      )
    return Examples(features, rows["label"])

  def _compute_batch(
    self, params: Any, batch: Mapping[str, Array]
  ) -> dict[str, Array]:
    outputs = self._context.outputs(params, batch)
    if self._representation not in outputs:
      raise UserError(
        f"representation = {self._representation!r} is not an output of the"
        f" model; use one of {', '.join(sorted(outputs))}."
      )
    feature = outputs[self._representation]
    if feature.ndim != 2:
      raise UserError(
        f"representation = {self._representation!r} has shape"
        f" {feature.shape}; frozen features must be one vector for each image."
      )
    kept = {k: batch[k] for k in ("id", "mask", "label") if k in batch}
    return {"feature": feature.astype(jnp.float32)} | kept
