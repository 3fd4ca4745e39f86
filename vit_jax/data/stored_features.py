"""A source that has a feature of each image ready, in place of the image."""

import dataclasses

import numpy as np

from vit_jax.data.sources import Wrapped


@dataclasses.dataclass(frozen=True)
class WithFeature(Wrapped):
  """A source whose records have captions and one feature, and no image.

  Attributes:
    name: Name of the feature.
    rows: [num_examples, ...], the feature of each record.
  """

  name: str
  rows: np.ndarray

  @property
  def fingerprint(self) -> str:
    return self.source.fingerprint

  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    return {"text": self.source.captions(ids), self.name: self.rows[ids]}
