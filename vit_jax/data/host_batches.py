"""One host's rows of consecutive global batches, as NumPy arrays.

Python handles a chunk of raw records at a time; decoding, cropping and resizing
run in tf.data's threads, one image at a time. Nothing depends on the order of
arrival: the example at row c of the endless stream, and the random numbers of
its augmentation, are functions of (seed, c). Grain, which also reads by index,
ties an iterator's state to the number of processes.
"""

import logging
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from vit_jax.data import (
  encoded,
  image_formats,
  integrity,
  outages,
  substitutes,
)
from vit_jax.data.caption_tokens import CaptionTokens
from vit_jax.data.features import LABEL, TEXT, Features
from vit_jax.data.host_ops import HostViews
from vit_jax.data.ops_text import Tokenizer
from vit_jax.data.sources import Source
from vit_jax.data.spec import check_side
from vit_jax.data.tf_import import tf
from vit_jax.data.tf_iterator import DatasetIterator
from vit_jax.errors import UserError

Order = Callable[[np.ndarray], np.ndarray]  # Rows int64 [n] -> ids int64 [n].

_CHUNK = 64  # Records per read call of the source.
_MAX_READERS = 8  # Concurrent calls, to keep disks busy.
_RETRIES = 3  # For a batch that fails although all its examples are intact.

_logger = logging.getLogger(__name__)


class HostBatches:
  """Iterator of this host's rows of batches: feature name -> array [n, ...].

  With `num_rows` the batch that crosses the end is truncated there and is the
  last.
  """

  def __init__(
    self,
    source: Source,
    features: Features,
    *,
    order: Order,
    local_rows: np.ndarray,
    batch_size: int,
    first_row: int,
    seed: int,
    num_rows: int | None = None,
    max_bad_examples: int | None = None,
    bad_examples: Iterable[int] = (),
    tokenizer: Tokenizer | None = None,
  ):
    """Builds the pipeline; its threads start at the first `next`.

    Args:
      source: Source of the records.
      features: Features of a batch; device ops are ignored.
      order: Function from rows of the stream to record numbers; pure, called in
        any thread.
      local_rows: Rows of a global batch on this host, int64 [n], ascending,
        each in 0..batch_size-1.
      batch_size: Number of examples in the global batch.
      first_row: Row of the stream at which the first batch begins.
      seed: Seed of the augmentation.
      num_rows: Number of rows in the stream; None for an endless stream.
      max_bad_examples: Number of unreadable examples that are replaced, see
        `substitutes`; None for none, and messages do not suggest it.
      bad_examples: Examples replaced in an earlier part of the run.
      tokenizer: Tokenizer for captions; None for that of the features.

    Raises:
      UserError: An op does not suit the images of the source, or the tokenizer
        cannot be loaded.
    """
    self._source = source
    self._declared = features
    self._passed_on = {LABEL, TEXT, *(name for name, _ in features.stored)}
    self._order = order
    self._local_rows = np.asarray(local_rows, np.int64)
    self._batch_size = batch_size
    self._first_row = first_row
    self._num_rows = num_rows
    self._views = HostViews(
      features.views, seed=seed, is_encoded=source.image_shape is None
    )
    self._tokens = features.captions and CaptionTokens(
      features.captions, seed=seed, tokenizer=tokenizer
    )
    self._batch = 0
    self._may_allow = max_bad_examples is not None
    self._substitutes = substitutes.Substitutes(
      source.num_examples,
      limit=max_bad_examples or 0,
      known=bad_examples,
    )
    self._failures = 0
    shape = source.image_shape
    side = shape[0] if shape and shape[0] == shape[1] else None
    for view in features.views:
      view.preprocess.check_crops(min(shape[:2]) if shape else None)
      check_side(view.preprocess, view.preprocess.side(side))
    self._batches = DatasetIterator(self._dataset())

  def __iter__(self) -> "HostBatches":
    return self

  def __next__(self) -> dict[str, np.ndarray]:
    while True:
      try:
        batch = next(self._batches)
        break
      except tf.errors.OpError as error:
        self._replace_bad_examples(error)
        self._start_again()
    self._batch += 1
    self._failures = 0
    self._raise_if_too_many(self._first_row + self._batch * self._batch_size)
    return batch

  def close(self) -> None:
    """Stops the reading threads."""
    self._batches.close()

  def bad_examples(self, before: int) -> list[int]:
    """See `Substitutes.met`."""
    return self._substitutes.met(before)

  def _rows(self, positions: np.ndarray) -> np.ndarray:
    """Maps positions in this host's share of the stream to its rows."""
    batch, place = np.divmod(positions, len(self._local_rows))
    rows = self._first_row + batch * self._batch_size
    return rows + self._local_rows[place]

  def _num_positions(self) -> int | None:
    """Length of this host's share of the stream."""
    if self._num_rows is None:
      return None
    batches, rest = divmod(self._num_rows - self._first_row, self._batch_size)
    return batches * len(self._local_rows) + int(
      np.sum(self._local_rows < rest)
    )

  def _ids(self, rows: np.ndarray) -> np.ndarray:
    """Returns the examples at rows of the stream, int64 [n]."""
    return self._substitutes.replace(rows, self._order(rows), self._fails)

  def _read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Reads image, row and, if any, form, text and label, by row."""
    return self._features(self._source.read_or_locate(self._ids(rows)), rows)

  def _features(
    self, record: dict[str, np.ndarray], rows: np.ndarray
  ) -> dict[str, np.ndarray]:
    features = {"row": rows}
    features |= {name: record[name] for name, _ in self._declared.stored}
    if self._declared.views:
      features["image"] = record["image"]
    if self._declared.views and self._source.image_shape is None:
      known = record.get("form")
      features["form"] = (
        encoded.forms(record["image"]) if known is None else known
      )
    if self._tokens:
      features[TEXT] = self._tokens(record[TEXT], rows)
    declared = self._declared.example_spec()
    if LABEL in declared:
      labels = self._declared.label_ops.labels(record[LABEL])
      features[LABEL] = labels.astype(declared[LABEL][1])
    return features

  def _signature(self) -> dict[str, Any]:
    """Describes the result of `_read` for an unknown number of rows."""
    shape = self._source.image_shape
    spec = {"row": tf.TensorSpec([None], tf.int64)}
    if not self._declared.views:
      pass  # Images are not read.
    elif shape is None:
      spec["image"] = tf.TensorSpec([None], tf.string)
      spec["form"] = tf.TensorSpec([None], tf.int32)
    else:
      spec["image"] = tf.TensorSpec([None, *shape], tf.uint8)
    declared = self._declared.example_spec()
    for name in declared.keys() & self._passed_on:
      shape, dtype = declared[name]
      spec[name] = tf.TensorSpec([None, *shape], dtype)
    return spec

  def _dataset(self) -> Any:
    num_positions = self._num_positions()
    signature = self._signature()
    end = np.iinfo(np.int64).max if num_positions is None else num_positions

    def read(chunk: np.integer) -> list[np.ndarray]:
      start = int(chunk) * _CHUNK
      positions = np.arange(start, min(start + _CHUNK, end), dtype=np.int64)
      features = self._read(self._rows(positions))
      return [features[name] for name in signature]

    def read_chunk(chunk: Any) -> dict[str, Any]:
      tensors = tf.numpy_function(
        read, [chunk], [s.dtype for s in signature.values()], stateful=False
      )
      features = dict(zip(signature, tensors, strict=True))
      for name, spec in signature.items():
        features[name].set_shape(spec.shape)
      return features

    as_it_is = tf.autograph.experimental.do_not_convert
    is_linux = hasattr(os, "sched_getaffinity")
    num_cpus = len(os.sched_getaffinity(0)) if is_linux else os.cpu_count()
    num_threads = max(2, num_cpus)
    num_readers = min(num_threads // 2, _MAX_READERS)
    options = tf.data.Options()
    options.deterministic = True
    # More threads than cores would compete for them.
    options.threading.private_threadpool_size = num_threads
    options.threading.max_intra_op_parallelism = 1
    # Images are copied to the batch while still in the cache.
    options.experimental_optimization.map_and_batch_fusion = True
    return (
      tf.data.Dataset.range(-(-end // _CHUNK))
      .map(as_it_is(read_chunk), num_parallel_calls=num_readers)
      .unbatch()
      .map(as_it_is(self.preprocess_one), num_parallel_calls=num_threads)
      .batch(len(self._local_rows))
      .prefetch(1)
      .with_options(options)
    )

  def preprocess_one(self, features: dict[str, Any]) -> dict[str, Any]:
    """Applies the image ops to one record in TensorFlow."""
    result = {}
    if self._declared.views:
      result = self._views(
        features["image"], features["row"], features.get("form")
      )
    passed_on = features.keys() & self._passed_on
    return result | {name: features[name] for name in passed_on}

  def _replace_bad_examples(self, error: Exception) -> None:
    """Finds the examples that caused the next batch to fail.

    Raises:
      UserError: Too many examples, listed in the message, cannot be read, or
        the ops do not suit an image, the first of which is named.
    """
    start = self._batch * len(self._local_rows)
    # An unreadable chunk of the source may extend beyond the batch.
    stop = -(-(start + len(self._local_rows)) // _CHUNK) * _CHUNK
    end = self._num_positions()
    stop = stop if end is None else min(stop, end)
    rows = self._rows(np.arange(start, stop))
    ids = self._ids(rows)
    problems = integrity.damaged(self._source, ids)
    if problems and not self._substitutes.limit:
      message = str(integrity.explain(self._source, ids))
      if self._may_allow:
        message += f" Or let {substitutes.KEY} of them be replaced by others."
      raise UserError(message) from error
    new = self._substitutes.suspect(problems)
    rows = rows[: len(self._local_rows)]
    self._ids(rows)  # Records those that fail here.
    self._raise_if_too_many(int(rows[-1]) + 1)
    if new:
      return
    for row in rows:
      self._raise_if_unsuitable(int(row), error)
    # TensorFlow, which reads some files itself, may have hit an outage that is
    # over by now, and `outages` waits for others to end.
    self._failures += 1
    if self._failures > _RETRIES:
      raise UserError(
        f"A batch failed {self._failures} times ({_first_line(error)}), though"
        " each of its images can be read and decoded. Check the disk or the"
        " network that they come from, and start again."
      ) from error
    _logger.warning("Reading a batch again: %s.", _first_line(error))

  def _start_again(self) -> None:
    """Restarts the pipeline at the next batch."""
    self._first_row += self._batch * self._batch_size
    self._batch = 0
    self._batches.close()
    self._batches = DatasetIterator(self._dataset())

  def _fails(self, example: int, row: int) -> bool:
    """Returns True if an example cannot be used in a row."""
    try:
      self._preprocess_alone(self._source.read(np.array([example])), row)
    except outages.StorageError:
      raise
    except Exception:  # Source and decoders raise many kinds.
      return True
    return False

  def _preprocess_alone(self, record: dict[str, np.ndarray], row: int) -> None:
    """Applies the image ops to one record outside the pipeline."""
    features = self._features(record, np.array([row]))
    self.preprocess_one({k: v[0] for k, v in features.items()})

  def _raise_if_too_many(self, before: int) -> None:
    met = self._substitutes.met(before)
    if len(met) > self._substitutes.limit:
      names = self._source.names(np.array(met))
      raise substitutes.too_many(names, self._substitutes.limit)

  def _raise_if_unsuitable(self, row: int, error: Exception) -> None:
    """Raises UserError if the ops do not suit the image in a row."""
    ids = self._ids(np.array([row]))
    record = self._source.read(ids)
    try:
      self._preprocess_alone(record, row)
    except Exception as problem:
      (name,) = self._source.names(ids)
      shape = self._source.image_shape
      if shape is None:
        with image_formats.open_image(record["image"][0]) as image:
          shape = image.height, image.width
      raise UserError(
        f"{name}: the image of {shape[1]} x {shape[0]} pixels does not suit"
        f" {self._declared.ops_shown} ({_first_line(problem)}). Resize before"
        " cropping."
      ) from error


def _first_line(error: Exception) -> str:
  """Returns the message of an error without TensorFlow's internal details."""
  text = re.sub(r"\{\{.*?\}\}\s*| ?\[Op:.*", "", str(error), flags=re.DOTALL)
  return text.strip().split("\n")[0].rstrip(".") or type(error).__name__
