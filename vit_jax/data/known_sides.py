"""Sides of the images of a dataset, as far as its name tells them.

Nothing is opened, so that ops which do not suit the images are refused before
data or devices are touched.
"""

from vit_jax.data import generated
from vit_jax.paper.datasets import DATASETS

_BUILT_IN = {"digits": 8}


def of_arrays(dataset: str) -> int | None:
  """Side of the arrays of a dataset that stores them; None: it has files."""
  kind, _, arguments = dataset.partition(":")
  if kind == "generated":
    return generated.check(arguments)["size"]
  return None


def smaller(dataset: str) -> int | None:
  """Smaller side that all images of a dataset have; None: it is not known."""
  name, _, _ = dataset.partition(":")
  if name in DATASETS:
    return DATASETS[name].side
  return _BUILT_IN.get(name) or of_arrays(dataset)
