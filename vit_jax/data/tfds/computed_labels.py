"""Labels computed from the features of a dataset.

Their names can be used instead of a feature's in `label_key` of `train` and of
evaluators. They are those of VTAB, as in google-research/task_adaptation.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class ComputedLabel:
  """A class computed for each record.

  Attributes:
    features: Names of the records' features that it is computed from.
    class_names: Names of the classes 0, 1, ...
    compute: Function from the flat values of each feature to the class, or to
      any other number if the record has no class.
  """

  features: tuple[str, ...]
  class_names: tuple[str, ...]
  compute: Callable[..., int]

  def of(self, record: Any) -> int:
    """Returns the class of a tf.train.Example's map of features."""
    values = []
    for name in self.features:
      kind = record[name].WhichOneof("kind")
      values.append(np.array(getattr(record[name], kind).value if kind else ()))
    return int(self.compute(*values))


def _bin(value: float, edges: Sequence[float]) -> int:
  """Returns i with edges[i] < value <= edges[i + 1]; -1 if below."""
  return int(np.searchsorted(edges, value, side="left")) - 1


def _bin_names(edges: Sequence[float]) -> tuple[str, ...]:
  return tuple(
    f"{low:g} to {high:g}" for low, high in itertools.pairwise(edges)
  )


# CLEVR images have 3 to 10 objects.
_FEWEST, _MOST = 3, 10
_CLEVR_EDGES = (0.0, 8.0, 8.5, 9.0, 9.5, 10.0, 100.0)


def _count(sizes: np.ndarray) -> int:
  return len(sizes) - _FEWEST


def _closest_object(pixel_coords: np.ndarray) -> int:
  depths = pixel_coords.reshape(-1, 3)[:, 2]
  return _bin(float(depths.min(initial=np.inf)), _CLEVR_EDGES)


# Metres from the camera; the last class is for images without vehicles.
_KITTI_EDGES = (-100.0, 8.0, 20.0, 999.0)
_NUM_VEHICLES = 3  # Types 0, 1, 2: car, van, truck.


def _closest_vehicle(types: np.ndarray, locations: np.ndarray) -> int:
  depths = locations.reshape(-1, 3)[types < _NUM_VEHICLES, 2]
  return _bin(float(depths.min(initial=np.inf)), _KITTI_EDGES)


def _coarse(feature: str, num_values: int, num_classes: int) -> ComputedLabel:
  """Groups neighbouring values of a feature, the same number in each class."""
  return ComputedLabel(
    features=(feature,),
    class_names=tuple(map(str, range(num_classes))),
    compute=lambda values: int(values[0]) * num_classes // num_values,
  )


LABELS = {
  "count_all": ComputedLabel(
    features=("objects/size",),
    class_names=tuple(map(str, range(_FEWEST, _MOST + 1))),
    compute=_count,
  ),
  "closest_object_distance": ComputedLabel(
    features=("objects/pixel_coords",),
    class_names=_bin_names(_CLEVR_EDGES),
    compute=_closest_object,
  ),
  "closest_vehicle_distance": ComputedLabel(
    features=("objects/type", "objects/location"),
    class_names=(*_bin_names(_KITTI_EDGES), "none"),
    compute=_closest_vehicle,
  ),
  "label_x_position_in_16": _coarse("label_x_position", 32, 16),
  "label_orientation_in_16": _coarse("label_orientation", 40, 16),
}
