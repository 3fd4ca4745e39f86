"""The file format of a tokenizer of centres, and the k-means that finds them.

Patch features and centres have unit length, and a patch's token is the index of
the centre with the largest cosine similarity. NumPy only.
"""

import dataclasses
import json
from collections.abc import Iterable

import numpy as np
from etils import epath
from jaxtyping import Float, Int

from vit_jax.errors import UserError
from vit_jax.weights import archive

_NAME = "centres"
_FORM = "vit_jax tokenizer of centres, 1"
# A centre with fewer features in a pass than this fraction of the mean is moved
# to one of the features.
_TOO_FEW = 0.01


@dataclasses.dataclass(frozen=True)
class Centres:
  """Centres of the features of a network.

  Attributes:
    rows: One centre per token, with unit length, float32.
    network: Path of the network.
    digest: Digest of its parameters.
  """

  rows: Float[np.ndarray, "k d"]
  network: str
  digest: str


def write(path: str, centres: Centres) -> None:
  """Writes a tokenizer's file.

  Raises:
    UserError: The file cannot be written.
  """
  comment = {
    "form": _FORM,
    "network": centres.network,
    "digest": centres.digest,
  }
  archive.write(
    epath.Path(path), {_NAME: centres.rows}, json.dumps(comment).encode()
  )


def read(path: str) -> Centres:
  """Reads a tokenizer's file.

  Raises:
    UserError: The file cannot be read or is not such a file.
  """
  contents = archive.read(
    epath.Path(path).expanduser(),
    lambda names: [name for name in names if name == _NAME],
  )
  try:
    comment = json.loads(contents.comment)
    if comment["form"] != _FORM:
      raise ValueError
    found = Centres(
      contents.arrays[_NAME], str(comment["network"]), str(comment["digest"])
    )
  except (ValueError, TypeError, KeyError):
    raise UserError(
      f"{path} is not a tokenizer of centres; make one by python -m"
      " vit_jax.prepare tokenizer --images=DATASET --checkpoint=PATH"
      " --output=FILE.npz."
    ) from None
  if found.rows.ndim != 2 or not np.isfinite(found.rows).all():
    raise UserError(f"{path} is damaged: its centres are not finite vectors.")
  return found


class MiniBatchKMeans:
  """Spherical k-means on batches of features, deterministic given the seed.

  Each centre is the direction of the mean of all features for which it was the
  nearest centre, as in Sculley's "Web-scale k-means clustering".

  Args:
    num_centres: Number of centres.
    seed: Seed for choosing the features used as initial centres.
  """

  def __init__(self, num_centres: int, seed: int):
    self._num_centres = num_centres
    self._rng = np.random.default_rng(seed)
    self._waiting: list[np.ndarray] = []
    self._sums: np.ndarray | None = None
    self._counts = np.zeros(num_centres, np.int64)

  @property
  def centres(self) -> Float[np.ndarray, "k d"]:
    """Returns the centres.

    Raises:
      UserError: There were fewer features than centres.
    """
    if self._sums is None:
      count = sum(map(len, self._waiting))
      raise UserError(
        f"The images have {count} patches, fewer than the {self._num_centres}"
        " tokens wanted; give more images, or fewer --tokens."
      )
    return unit(self._sums).astype(np.float32)

  def update(self, features: Float[np.ndarray, "m d"]) -> None:
    """Moves the centres towards a batch of features.

    The first features are collected until there are enough to start from.
    """
    rows = unit(np.asarray(features, np.float64))
    if self._sums is None:
      self._waiting.append(rows)
      rows = np.concatenate(self._waiting)
      if len(rows) < self._num_centres:
        self._waiting = [rows]
        return
      chosen = self._rng.permutation(len(rows))[: self._num_centres]
      self._sums = rows[chosen].copy()
      self._counts += 1
      self._waiting = []
    nearest = assign(rows, unit(self._sums))
    # One-hot rows would need an array of tokens x features.
    np.add.at(self._sums, nearest, rows)
    self._counts += np.bincount(nearest, minlength=self._num_centres)

  def restart_rare(self, features: Float[np.ndarray, "m d"]) -> int:
    """Moves centres with hardly any features nearby to given features.

    All centres then have the weight of one feature, so that the previous pass
    does not hold back the next one.

    Returns:
      Number of centres moved.
    """
    rows = unit(np.asarray(features, np.float64))
    sums = unit(self.centres.astype(np.float64))
    rare = np.flatnonzero(self._counts < _TOO_FEW * self._counts.mean() + 2)
    rare = rare[: len(rows)]
    sums[rare] = rows[self._rng.permutation(len(rows))[: len(rare)]]
    self._sums, self._counts = sums, np.ones_like(self._counts)
    return len(rare)


def fit(
  passes: Iterable[Iterable[Float[np.ndarray, "m d"]]],
  num_centres: int,
  seed: int,
) -> Float[np.ndarray, "k d"]:
  """Finds centres in several passes over the features.

  Raises:
    UserError: There are fewer features than centres.
  """
  found, last = MiniBatchKMeans(num_centres, seed), None
  for batches in passes:
    if last is not None:
      found.restart_rare(last)
    for last in batches:
      found.update(last)
  return found.centres


def assign(
  rows: Float[np.ndarray, "m d"], centres: Float[np.ndarray, "k d"]
) -> Int[np.ndarray, " m"]:
  """Returns the index of the most similar centre for each row."""
  return np.argmax(rows @ centres.T, axis=1)


def unit(rows: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
  """Scales rows to unit length; rows of zeros are unchanged."""
  lengths = np.linalg.norm(rows, axis=1, keepdims=True)
  return rows / np.maximum(lengths, 1e-12)
