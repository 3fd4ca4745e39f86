"""A source with a stored feature for each image instead of the image."""

import dataclasses

import numpy as np

from vit_jax.data.sources import Wrapped


@dataclasses.dataclass(frozen=True)
class WithFeature(Wrapped):
  """A source of records with captions and one feature, without images.

  Attributes:
    name: Name of the feature.
    rows: Feature of each record, [num_examples, ...].
  """

  name: str
  rows: np.ndarray

  @property
  def fingerprint(self) -> str:
    return self.source.fingerprint

  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    return {"text": self.source.captions(ids), self.name: self.rows[ids]}
