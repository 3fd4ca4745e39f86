"""The hashes of all images of a source, in a file that survives being killed.

It has one record per image, in the order of the source: the hashes of its
views, and a state that marks images that cannot be compared. Existing records
are not recomputed, so an image replaced under the same name keeps its hash
until the file is removed.
"""

import fcntl
import functools
import hashlib
import os
import pathlib
import re
from collections.abc import Callable, Iterator

import numpy as np

from vit_jax.data import outages, parallel
from vit_jax.data.deduplication import perceptual_hash
from vit_jax.data.sources import Source
from vit_jax.errors import UserError

GOOD, FLAT, UNREADABLE = range(3)
_WORDS = perceptual_hash.BITS // 64
RECORD = np.dtype(
  [("hash", "<u8", (perceptual_hash.VIEWS, _WORDS)), ("state", "u1")]
)

_CHUNK = 64  # Images read and hashed by one thread at a time.


def path_of(
  directory: pathlib.Path,
  name: str,
  source: Source,
  place: str = "",
  image_key: str = "",
) -> pathlib.Path:
  """Returns the path of a source's hashes, unique to the source.

  Args:
    directory: Directory of hash files.
    name: Human-readable name of the source.
    source: Source of the images.
    place: Real path of its files, if its fingerprint has only names.
    image_key: Feature with the images, if not the default.
  """
  plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_.")[-80:]
  form = f"{perceptual_hash.VERSION}:{source.fingerprint}"
  if place:
    form += f":{place}"
  if image_key:
    form += f":image_key={image_key}"
  digest = hashlib.sha256(form.encode()).hexdigest()[:16]
  return directory / f"{plain}-{digest}.hashes"


def complete(
  path: pathlib.Path,
  source: Source,
  *,
  num_threads: int,
  show: Callable[[int, int], None],
) -> None:
  """Appends the missing hashes.

  `show` is called with the number of images hashed and the total.

  Raises:
    UserError: The file cannot be written, another process is writing it, or the
      storage of the images is failing.
  """
  whole = source.num_examples * RECORD.itemsize
  if path.exists() and path.stat().st_size == whole:
    return
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as file:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
      file.seek(0, os.SEEK_END)
      # A killed process may have left an incomplete record.
      done = file.tell() // RECORD.itemsize
      file.truncate(done * RECORD.itemsize)
      file.seek(0, os.SEEK_END)
      starts = range(done, source.num_examples, _CHUNK)
      for records in parallel.in_threads(
        functools.partial(_hash_chunk, source), starts, num_threads=num_threads
      ):
        file.write(records.tobytes())
        done += len(records)
        show(done, source.num_examples)
  except BlockingIOError:
    raise UserError(
      f"Another command is using {path}; wait for its end."
    ) from None
  except OSError as error:
    raise UserError(
      f"{path} cannot be written ({error.strerror or error}). Once that is"
      " fixed, run the same command again: it continues from there."
    ) from error


def read(path: pathlib.Path, start: int, count: int) -> np.ndarray:
  """Returns `RECORD` [<= count], starting at number `start`."""
  return np.fromfile(path, RECORD, count=count, offset=start * RECORD.itemsize)


def _hash_chunk(source: Source, start: int) -> np.ndarray:
  """Returns `RECORD` [n] for the images starting at number `start`."""
  stop = min(start + _CHUNK, source.num_examples)
  records = np.zeros(stop - start, RECORD)
  side = perceptual_hash.SIDE
  views = np.zeros((len(records), perceptual_hash.VIEWS, side, side), np.uint8)
  for row, image in enumerate(_images(source, start, stop)):
    try:
      views[row] = perceptual_hash.thumbnails(image)
    except Exception:  # Decoders raise many errors, all treated the same.
      records["state"][row] = UNREADABLE
  whole, middle = views[:, 0], views[:, 1]
  flat = perceptual_hash.are_flat(whole) & (records["state"] == GOOD)
  records["state"][flat] = FLAT
  records["hash"][:, 0] = perceptual_hash.hashes(whole)
  # A flat centre says nothing, so the hash of the whole image replaces it.
  records["hash"][:, 1] = np.where(
    perceptual_hash.are_flat(middle)[:, None],
    records["hash"][:, 0],
    perceptual_hash.hashes(middle),
  )
  return records


def _images(
  source: Source, start: int, stop: int
) -> Iterator[bytes | np.ndarray]:
  """Yields the images, an empty one for each that cannot be read."""
  ids = np.arange(start, stop)
  try:
    yield from source.images_alone(ids)
  except outages.StorageError:
    raise  # The images may be intact: the same command can continue later.
  except (UserError, OSError):
    for i in ids:
      try:
        yield source.images_alone(i[None])[0]
      except outages.StorageError:
        raise
      except (UserError, OSError):
        yield b""
