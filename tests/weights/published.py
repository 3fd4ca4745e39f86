"""The fixtures of tests/golden and what our networks make of them."""

import pathlib

import numpy as np

from vit_jax.models import build
from vit_jax.weights.contract import Weights

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


def expected(name: str) -> dict[str, np.ndarray]:
  """The arrays of a fixture's expected.npz."""
  with np.load(GOLDEN / name / "expected.npz") as arrays:
    return dict(arrays)


def outputs(weights: Weights, images: np.ndarray) -> np.ndarray:
  """What our network makes of uint8 images: logits, or features."""
  model = build.create(weights.model, num_classes=weights.model.num_classes)
  return np.asarray(model.apply({"params": weights.params}, images))


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
  """Largest difference over the largest value."""
  assert found.shape == wanted.shape
  return float(np.abs(found - wanted).max() / np.abs(wanted).max())
