"""Which images of a source cannot be decoded, all of them named at once."""

import concurrent.futures
import functools
import io
import os
import time
from collections.abc import Iterator

import numpy as np
from PIL import Image

from vit_jax import truncate
from vit_jax.data import encoded
from vit_jax.data.sources import Source
from vit_jax.data.tf_import import tf
from vit_jax.errors import UserError

_CHUNK = 64
# How long a run that has met a damaged image looks for others.
_SECONDS = 20.0


def unreadable(source: Source, ids: np.ndarray) -> Iterator[tuple[int, str]]:
  """Reads and decodes records in parallel, as a pipeline would.

  Args:
    source: any source.
    ids: int64 [n], numbers of the records.

  Yields:
    (records looked at so far, problem in one line) for each bad one, in order,
    and (records looked at, "") from time to time.
  """
  looked_at = 0
  with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    check = functools.partial(_problem, source)
    for start in range(0, len(ids), _CHUNK):
      chunk = ids[start : start + _CHUNK].tolist()
      for problem in filter(None, pool.map(check, chunk)):
        yield looked_at, problem
      looked_at += len(chunk)
      yield looked_at, ""


def damaged(source: Source, ids: np.ndarray) -> dict[int, str]:
  """Record -> what is wrong with it, for those of `ids` that are damaged."""
  ids = np.unique(ids).tolist()
  with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    problems = pool.map(functools.partial(_problem, source), ids)
    return {i: text for i, text in zip(ids, problems, strict=True) if text}


def explain(source: Source, ids: np.ndarray) -> UserError | None:
  """What to tell about a batch that could not be decoded.

  Looks at the batch, and then for some seconds at the rest of the source, so
  that a person can mend all images at once.

  Args:
    source: where the batch came from.
    ids: int64 [n], its records.

  Returns:
    The error to raise, or None if all records of the batch can be decoded.
  """
  ids = np.unique(ids)
  problems = [problem for _, problem in unreadable(source, ids) if problem]
  if not problems:
    return None
  start, num_others = time.monotonic(), 0
  others = np.setdiff1d(np.arange(source.num_examples), ids)
  for looked_at, problem in unreadable(source, others):
    num_others = looked_at
    if problem:
      problems.append(problem)
    if time.monotonic() - start > _SECONDS:
      break
  num_ids = source.num_examples - len(others)
  return report(problems, num_ids + num_others, source.num_examples)


def report(problems: list[str], looked_at: int, num_examples: int) -> UserError:
  """One message for all problems, naming the first twenty."""
  part = (
    f"all {num_examples}"
    if looked_at == num_examples
    else f"{looked_at} of {num_examples}"
  )
  return UserError(
    f"{len(problems)} of the images cannot be read ({part} were looked at):"
    f" {truncate.first(problems, separator='; ')}. Remove or replace them and"
    " start again."
  )


def _problem(source: Source, record: int) -> str | None:
  """What is wrong with a record, in a few words, or None."""
  ids = np.array([record], np.int64)
  try:
    image = source.read(ids)["image"][0]
  except UserError as error:
    return str(error).rstrip(".")
  except OSError as error:
    return f"{source.names(ids)[0]} ({error.strerror or error})"
  if source.image_shape is not None:
    return None
  reason = decoding_problem(image)
  return f"{source.names(ids)[0]} ({reason})" if reason else None


def decoding_problem(image: bytes) -> str | None:
  """Why an encoded image cannot be decoded, in a word or two, or None."""
  try:
    _decode(image)
  except Exception:  # Decoders fail in many ways; all mean the same here.
    return "damaged" if image else "empty file"
  return None


def _decode(image: bytes) -> None:
  """Decodes with what `encoded` would use; raises if that fails."""
  form = encoded.form(image)
  if form == encoded.OTHER:
    with Image.open(io.BytesIO(image)) as opened:
      opened.load()
  elif form == encoded.PNG:
    tf.io.decode_png(image)
  else:
    tf.io.decode_jpeg(image)
