"""Search for images of a source that cannot be decoded.

A run that encounters one names all that it can find within some seconds, so
that they can be fixed together. Images are decoded as in training, as decoders
differ in what they accept.
"""

import collections
import functools
import os
import time
from collections.abc import Iterator

import numpy as np

from vit_jax import truncate
from vit_jax.data import encoded, image_formats, outages, parallel
from vit_jax.data.sources import Source
from vit_jax.data.tf_import import tf
from vit_jax.errors import UserError

# Time that a run with a damaged image spends searching for others.
_SECONDS = 20.0


def unreadable(source: Source, ids: np.ndarray) -> Iterator[tuple[int, str]]:
  """Reads and decodes records in parallel, as a pipeline would.

  Yields:
    (number of records checked so far, problem or "") for each of the records,
    int64 [n], in order.

  Raises:
    StorageError: Their storage cannot be read at all.
  """
  check = functools.partial(_problem, source)
  threads = os.cpu_count() or 1
  problems = parallel.in_threads(check, ids.tolist(), num_threads=threads)
  yield from enumerate(problems, start=1)


def damaged(source: Source, ids: np.ndarray) -> dict[int, str]:
  """Maps the damaged records of `ids` to their problems."""
  ids = np.unique(ids)
  found = zip(ids.tolist(), unreadable(source, ids), strict=True)
  return {record: problem for record, (_, problem) in found if problem}


def explain(source: Source, ids: np.ndarray) -> UserError | None:
  """Explains why a batch, records int64 [n], could not be decoded.

  Checks the batch, then the rest of the source for some seconds.

  Returns:
    The error to raise, or None if all records of the batch can be decoded.
  """
  ids = np.unique(ids)
  problems = list(damaged(source, ids).values())
  if not problems:
    return None
  start, num_checked = time.monotonic(), len(ids)
  others = np.setdiff1d(np.arange(source.num_examples), ids)
  for count, problem in unreadable(source, others):
    num_checked = len(ids) + count
    if problem:
      problems.append(problem)
    if time.monotonic() - start > _SECONDS:
      break
  return report(problems, num_checked, source.num_examples)


def report(
  problems: list[str], num_checked: int, num_examples: int
) -> UserError:
  """Returns one error for all problems, naming the first twenty.

  A damaged shard gives all its records the same problem.
  """
  counts = collections.Counter(problems)
  named = [
    f"{text} ({n} images)" if n > 1 else text for text, n in counts.items()
  ]
  part = "all" if num_checked == num_examples else f"{num_checked} of"
  return UserError(
    f"{len(problems)} of the images cannot be read ({part} {num_examples} were"
    " checked):"
    f" {truncate.first(named, separator='; ')}. Remove or replace them and"
    " start again."
  )


def _problem(source: Source, record: int) -> str:
  """Names a record and its problem; "" if there is none."""
  ids = np.array([record], np.int64)
  try:
    image = source.read(ids).get("image", [None])[0]
  except outages.StorageError:
    raise  # The record's own problem is unknown.
  except UserError as error:
    return str(error).rstrip(".")
  except OSError as error:
    return f"{source.names(ids)[0]} ({error.strerror or error})"
  if image is None or source.image_shape is not None:
    return ""  # Stored features or pixels: nothing to decode.
  reason = decoding_problem(image)
  return f"{source.names(ids)[0]} ({reason})" if reason else ""


def decoding_problem(image: bytes) -> str | None:
  """Describes why an encoded image cannot be decoded; None if it can."""
  try:
    form = encoded.form(image)
    if form == encoded.OTHER:
      image_formats.pixels(image)
    elif form == encoded.PNG:
      tf.io.decode_png(image)
    else:
      tf.io.decode_jpeg(image)
  except image_formats.UnreadablePixelsError as error:
    return str(error)
  except Exception:  # Decoders raise many errors, all treated the same.
    return "damaged" if image else "empty file"
  return None
