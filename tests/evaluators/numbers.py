"""A split of numbers to predict, for a split of classes of `conftest`."""

import dataclasses

import jax
import numpy as np

from vit_jax.data import sources


@dataclasses.dataclass(frozen=True)
class _Source(sources.Source):
  """Another source with numbers in place of its labels."""

  source: object
  values: np.ndarray
  names_of_numbers: tuple[str, ...]
  fingerprint: str = "numbers"

  @property
  def num_examples(self):
    return self.source.num_examples

  @property
  def features(self):
    return {"label": sources.Numbers(self.names_of_numbers)}

  def known_labels(self):
    return self.values

  def read(self, ids):
    return {"label": self.values[ids]}

  def names(self, ids):
    return self.source.names(ids)


def of(split, values, names):
  """The images of a split with numbers, float [n, numbers]."""

  class Numbers(type(split)):
    def batches(self):
      for batch in split.batches():
        rows = np.asarray(jax.device_get(batch["id"]))
        label = self.source.values[rows].astype(np.float32)
        yield {**batch, "label": jax.device_put(label, batch["id"].sharding)}

  fields = {
    field.name: getattr(split, field.name)
    for field in dataclasses.fields(split)
  }
  fields |= {
    "source": _Source(split.source, values, names),
    "num_classes": None,
    "max_labels": 0,
  }
  return Numbers(**fields)
