"""Reads encoded images from files or buckets, for sources of single files."""

import os
from collections.abc import Sequence

import numpy as np
from etils import epath

from vit_jax import buckets
from vit_jax.data import encoded, image_formats, outages, parallel
from vit_jax.errors import UserError

_REMOTE_READERS = 16
# Most JPEG headers are short; 3 % of ImageNet's are longer than both.
_HEAD_BYTES, _LONGER_HEAD_BYTES = 1024, 16 * 1024


def read_all(paths: Sequence[str]) -> np.ndarray:
  """Reads files of the same file system or bucket, object [n] of bytes.

  Raises:
    UserError: A file, named in the message, cannot be read.
  """
  images = np.empty(len(paths), object)
  if len(paths) and buckets.is_bucket(paths[0]):
    images[:] = list(
      parallel.in_threads(read, paths, num_threads=_REMOTE_READERS)
    )
  else:
    images[:] = [read(path) for path in paths]
  return images


def read_or_locate_all(paths: Sequence[str]) -> dict[str, np.ndarray]:
  """Like `read_all`, but returns paths of files where that is faster.

  Returns:
    "image" and optionally "form", see `sources.Source.read_or_locate`.
  """
  if buckets.is_bucket(paths[0]):
    return {"image": read_all(paths)}
  images = np.empty(len(paths), object)
  images[:], forms = zip(*map(read_or_locate, paths), strict=True)
  return {"image": images, "form": np.array(forms, np.int32)}


def begins_like_one(path: str) -> bool:
  """Checks the first bytes; False for a file that cannot be read."""
  try:
    head = read(path, image_formats.SIGNATURE_BYTES)
    return image_formats.begins_like_one(head)
  except UserError:  # Reading for training raises it again.
    return False


def backslash_hint(path: str) -> str:
  """Returns a remedy for a path written as on Windows, or an empty string."""
  return "write / instead of \\ between folders" if "\\" in path else ""


def read(path: str, size: int = -1) -> bytes:
  def content() -> bytes:
    if buckets.is_bucket(path):
      return epath.Path(path).read_bytes()
    with open(path, "rb", buffering=0) as file:
      return file.read(size)

  try:
    return outages.outlast(path, content)
  except OSError as error:
    raise _unreadable(path, error) from None


def read_or_locate(path: str) -> tuple[bytes, int]:
  """Returns the form, and the path of an upright JPEG or else the content.

  Paths avoid copies from Python to TensorFlow for nearly all images.
  """
  name = os.fsencode(path)
  # TensorFlow's errors cannot contain other bytes.
  if name.isascii():
    try:
      if _is_upright_jpeg(path):
        return name, encoded.UPRIGHT_JPEG_FILE
    except OSError:
      pass  # Reading the whole file has the same error, and can wait.
  content = read(path)
  return content, encoded.form(content)


def _is_upright_jpeg(path: str) -> bool:
  """Checks the head of a file, and prefetches the rest of an upright JPEG."""
  # A file object makes more system calls, which cost more than this read.
  file = os.open(path, os.O_RDONLY)
  try:
    head = os.read(file, _HEAD_BYTES)
    if not encoded.is_jpeg(head):
      return False
    if encoded.jpeg_orientation(head) is None:
      head += os.read(file, _LONGER_HEAD_BYTES - _HEAD_BYTES)
    if encoded.jpeg_orientation(head) != 1:
      return False
    if hasattr(os, "posix_fadvise"):  # So that TensorFlow need not wait.
      os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)
    return True
  finally:
    os.close(file)


def _unreadable(path: str, error: OSError) -> UserError:
  remedy = backslash_hint(path) or (
    "replace it, or remove it and start a new run"
  )
  return UserError(
    f"{path} cannot be read ({error.strerror or error}); {remedy}."
  )
