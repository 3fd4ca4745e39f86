"""The fixtures of tests/golden and what our networks make of them."""

import functools
import gzip
import json
import pathlib
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file, save_file

import vit_jax
from vit_jax.config import schema
from vit_jax.models import build
from vit_jax.weights.contract import Weights

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
# Of feature maps every eighth channel is kept, as the folder is to stay small.
KEPT_CHANNELS = 8
_UNPACKED = tempfile.TemporaryDirectory()


@functools.cache
def folder(name: str) -> pathlib.Path:
  """The directory of a fixture; one that is kept compressed is unpacked."""
  path = GOLDEN / name
  packed = path / "model.safetensors.gz"
  if not packed.exists():
    return path
  whole = shutil.copytree(path, pathlib.Path(_UNPACKED.name) / name)
  (whole / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
  (whole / packed.name).unlink()
  return whole


def change(
  directory: pathlib.Path, name: str = "config.json", **values: Any
) -> None:
  """Changes keys of a JSON file of a copy; None takes one out."""
  path = directory / name
  keys = json.loads(path.read_text()) | values
  kept = {key: value for key, value in keys.items() if value is not None}
  path.write_text(json.dumps(kept))


def change_tensors(
  directory: pathlib.Path,
  function: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]],
) -> None:
  """Changes the tensors of a copy."""
  path = directory / "model.safetensors"
  save_file(function(load_file(path)), path)


def expected(name: str) -> dict[str, np.ndarray]:
  """The arrays of a fixture's expected.npz."""
  with np.load(GOLDEN / name / "expected.npz") as arrays:
    return dict(arrays)


def outputs(
  weights: Weights, images: np.ndarray, model: schema.Model | None = None
) -> np.ndarray:
  """What our network makes of uint8 images: logits, or features.

  Args:
    weights: the parameters.
    images: [b, h, w, 3].
    model: the architecture; None: that of `weights`.
  """
  model = model or weights.model
  network = build.create(model, num_classes=model.num_classes)
  params = jax.tree.map(jnp.asarray, weights.params)
  return np.asarray(jax.jit(network.apply)({"params": params}, images))


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
  """Largest difference over the largest value."""
  assert found.shape == wanted.shape
  return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def outputs_at(name: str, image_size: int, images: np.ndarray) -> np.ndarray:
  """What `vit_jax.load` for another size makes of images."""
  network, params = vit_jax.load(str(folder(name)), image_size=image_size)
  return np.asarray(jax.jit(network.apply)({"params": params}, images))
