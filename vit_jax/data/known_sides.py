"""Sides of the images of a dataset, if known from its name.

Nothing is opened, so ops that do not suit the images are rejected before data
or devices are touched.
"""

from vit_jax.data import generated
from vit_jax.paper.datasets import DATASETS

_BUILT_IN = {"digits": 8}


def of_arrays(dataset: str) -> int | None:
  """Side of the arrays stored by a dataset; None if it has files."""
  kind, _, arguments = dataset.partition(":")
  if kind == "generated":
    return generated.check(arguments)["size"]
  return None


def smaller(dataset: str) -> int | None:
  """Smaller side of all images of a dataset; None if unknown."""
  name, _, _ = dataset.partition(":")
  if name in DATASETS:
    return DATASETS[name].side
  return _BUILT_IN.get(name) or of_arrays(dataset)
