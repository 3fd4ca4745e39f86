"""Image files given by the user, decoded as in an evaluation.

An unusable file is reported without stopping the others.
"""

import concurrent.futures
import dataclasses
import glob
import os
from collections.abc import Iterator, Sequence

import numpy as np

from vit_jax.data import image_formats
from vit_jax.data.prefetch import Prefetcher
from vit_jax.data.single_images import SingleImages
from vit_jax.data.spec import Preprocess
from vit_jax.data.tf_import import tf
from vit_jax.errors import UserError

_BATCHES_AHEAD = 2


@dataclasses.dataclass(frozen=True)
class ImageFile:
  """A file and its pixels, or a sentence about why there are none."""

  path: str  # As given or found.
  pixels: np.ndarray | None  # uint8 [S, S, 3].
  problem: str | None = None  # Starts with the path.


def find(words: Sequence[str]) -> list[str]:
  """Lists the files given on a command line, each once, in order.

  Args:
    words: Files with any suffix; folders, searched recursively for images
      (`image_formats`); or glob patterns, where ** matches any folders.

  Raises:
    UserError: Words, all named in the message, match no file.
  """
  paths: dict[str, None] = {}
  problems = []
  for word in words:
    # "a[1].jpg" may be a file: an existing path is not a pattern.
    found = [word] if os.path.exists(word) else sorted(_glob(word))
    images = [image for path in found for image in _images_of(path)]
    paths.update(dict.fromkeys(images))
    if images:
      continue
    if "://" in word:
      problems.append(f"{word} is not on a local disk; copy or mount it first.")
    elif found:
      suffixes = ", ".join(image_formats.SUFFIXES)
      problems.append(f"{word} holds no images ({suffixes}).")
    elif glob.has_magic(word):
      problems.append(f"No file matches {word}.")
    else:
      problems.append(f"{word} does not exist.")
  if problems:
    raise UserError("\n".join(problems))
  return list(paths)


def read(
  paths: Sequence[str], preprocess: Preprocess, *, batch_size: int
) -> Iterator[list[ImageFile]]:
  """Reads, decodes and preprocesses files in threads, ahead of the consumer.

  Label ops are not used.

  Yields:
    The files in order, in lists of `batch_size`; the last may be shorter.
  """
  images = SingleImages(preprocess)

  def read_one(path: str) -> ImageFile:
    try:
      with open(path, "rb") as file:
        data = file.read()
    except OSError as error:
      reason = error.strerror or error
      return ImageFile(path, None, f"{path} cannot be read ({reason}).")
    try:
      return ImageFile(path, images.of_file(data))
    except tf.errors.OpError as error:
      return ImageFile(path, None, _problem(path, data, preprocess, error))

  def lists() -> Iterator[list[ImageFile]]:
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
      for start in range(0, len(paths), batch_size):
        yield list(pool.map(read_one, paths[start : start + batch_size]))

  ready = Prefetcher(lists(), _BATCHES_AHEAD)
  try:
    yield from ready
  finally:
    ready.close()


def _glob(pattern: str) -> list[str]:
  return glob.glob(pattern, recursive=True) if glob.has_magic(pattern) else []


def _images_of(path: str) -> Iterator[str]:
  """Yields the file itself, or the images in a folder and below, sorted."""
  if not os.path.isdir(path):
    yield path
    return
  seen = set()
  for directory, folders, files in os.walk(
    path, onerror=_complain, followlinks=True
  ):
    # A link may lead back to a parent folder.
    real = os.path.realpath(directory)
    if real in seen:
      folders.clear()
      continue
    seen.add(real)
    folders[:] = sorted(name for name in folders if not name.startswith("."))
    for name in sorted(filter(image_formats.is_image, files)):
      yield os.path.join(directory, name)


def _complain(error: OSError) -> None:
  """Raises an error for a folder whose images would be silently omitted."""
  raise UserError(
    f"The folder {error.filename} cannot be listed ({error.strerror}); make it"
    " readable, or name the others."
  ) from None


def _problem(
  path: str, data: bytes, preprocess: Preprocess, error: Exception
) -> str:
  """Returns a sentence about a file for which the ops failed."""
  if not data:
    return f"{path} is empty."
  try:
    height, width, _ = image_formats.pixels(data).shape
  except image_formats.UnreadablePixelsError as problem:
    return f"{path} has {problem}."
  except Exception:  # Decoders raise many errors, all treated the same.
    return f"{path} is damaged, or is not an image of a known kind."
  return (
    f"{path}: the image of {width} x {height} pixels does not suit"
    f' "{preprocess.text}" ({type(error).__name__}).'
  )
