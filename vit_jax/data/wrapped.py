"""A source made of another one: the calls that are only forwarded."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from vit_jax.data.sources import Image, Label, Source


@dataclasses.dataclass(frozen=True)
class Wrapped(Source):
  """Forwards everything but the fingerprint to `source`.

  Attributes:
    source: Source of the records.
  """

  source: Source

  def originals(self, ids: np.ndarray) -> np.ndarray:
    """Maps record numbers to those of `source`."""
    return ids

  @property
  def num_examples(self) -> int:
    return self.source.num_examples

  @property
  def features(self) -> Mapping[str, Image | Label]:
    return self.source.features

  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    """See `sources.Source.read`."""
    return self.source.read(self.originals(ids))

  def names(self, ids: np.ndarray) -> list[str]:
    """See `sources.Source.names`."""
    return self.source.names(self.originals(ids))

  def file_names(self, ids: np.ndarray) -> list[str] | None:
    """See `sources.Source.file_names`."""
    return self.source.file_names(self.originals(ids))
