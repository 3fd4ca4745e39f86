"""Labels that no feature of a dataset holds but that follow from others.

Their names stand where that of a feature would, in `train.label_key` and in
the evaluators'. Those here are VTAB's, of google-research/task_adaptation.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class ComputedLabel:
  """A class that is computed for each record.

  Attributes:
    features: what it is computed from, named as in the records.
    class_names: of the classes 0, 1, ...
    compute: (values of each feature, flat) -> class; any other number where
      the record does not allow one.
  """

  features: tuple[str, ...]
  class_names: tuple[str, ...]
  compute: Callable[..., int]

  def of(self, record: Any) -> int:
    """The class of a tf.train.Example's map of features."""
    return int(self.compute(*(_values(record[name]) for name in self.features)))


def _values(feature: Any) -> np.ndarray:
  """Numbers of a tf.train.Feature, in the order that they are stored in."""
  kind = feature.WhichOneof("kind")
  return np.array(getattr(feature, kind).value if kind else ())


def _bin(value: float, edges: Sequence[float]) -> int:
  """The i with edges[i] < value <= edges[i + 1]; -1 below, beyond above."""
  return int(np.searchsorted(edges, value, side="left")) - 1


def _bin_names(edges: Sequence[float]) -> tuple[str, ...]:
  return tuple(
    f"{low:g} to {high:g}" for low, high in itertools.pairwise(edges)
  )


# CLEVR has 3 to 10 objects in an image.
_FEWEST, _MOST = 3, 10
_CLEVR_EDGES = (0.0, 8.0, 8.5, 9.0, 9.5, 10.0, 100.0)


def _count(sizes: np.ndarray) -> int:
  return len(sizes) - _FEWEST


def _closest_object(pixel_coords: np.ndarray) -> int:
  depths = pixel_coords.reshape(-1, 3)[:, 2]
  return _bin(float(depths.min(initial=np.inf)), _CLEVR_EDGES)


# Metres in front of the camera; the last class is of images without vehicles.
_KITTI_EDGES = (-100.0, 8.0, 20.0, 999.0)
_NUM_VEHICLES = 3  # Types 0, 1, 2: car, van, truck.


def _closest_vehicle(types: np.ndarray, locations: np.ndarray) -> int:
  depths = locations.reshape(-1, 3)[types < _NUM_VEHICLES, 2]
  return _bin(float(depths.min(initial=np.inf)), _KITTI_EDGES)


def _coarse(feature: str, num_values: int, num_classes: int) -> ComputedLabel:
  """Neighbouring values of a feature as one class, equally many in each."""
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
