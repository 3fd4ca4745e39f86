"""Tar files of images with captions or classes, in webdataset's format.

'webdataset:cc3m-{000..331}.tar' names files below `data_dir`; braces contain a
range of numbers or comma-separated words, and '*' and '?' are wildcards.
Together the files form the split `train`. Nothing is unpacked: the files are
scanned once, and records are then read by position.
`vit_jax.data.webdataset.tar_index` describes the examples.
"""

import dataclasses
import hashlib
import logging
import posixpath
from collections.abc import Mapping, Sequence

import numpy as np

from vit_jax import buckets, truncate
from vit_jax.data import (
  image_formats,
  index_files,
  outages,
  parallel,
  sources,
  splits,
  substitutes,
)
from vit_jax.data.webdataset import complete_examples, tar_index, tar_paths
from vit_jax.errors import UserError

_SPLIT = "train"
_THREADS = 16

_logger = logging.getLogger(__name__)


def check(arguments: str) -> list[str]:
  """Checks a pattern; see `tar_paths.expand`."""
  return tar_paths.expand(arguments)


def open_source(
  arguments: str,
  split: str,
  *,
  data_dir: str | None,
  label_key: str = "label",
  captions: bool = True,
  numbers: bool = False,
  images_alone: bool = False,
  max_bad_examples: int = 0,
  **unused: object,
) -> "WebDatasetSource":
  """Opens tar files; see `vit_jax.data.sources.open_source`.

  Examples have captions if any example does and `captions` is True, and classes
  if any example does. `label_key` is the .json field with the class; 'label',
  the default, and 'cls' also stand for a .cls file, which takes precedence over
  the .json. With `numbers` it is the .json field with the number to predict.
  With `images_alone` there are neither captions nor labels.

  Raises:
    UserError: A file is missing, no example has that field, or more than
      `max_bad_examples` examples cannot be used or files are truncated; the
      message names them.
  """
  name = f"webdataset:{arguments}"
  paths = tar_paths.find(check(arguments), data_dir, name)
  fields = tar_index.LABEL_FIELDS
  if not images_alone and (numbers or label_key != fields[0]):
    fields = (label_key,)
  examples, damaged = _index(paths, fields)
  problems = [f"{path} ({problem})" for path, problem in damaged]
  if not len(examples):
    raise UserError(
      f"{name} has no example that can be read:"
      f" {truncate.first(problems, separator='; ')}. Fix or copy them, or name"
      " others."
    )
  if len(problems) > max_bad_examples:
    raise substitutes.found_unusable(problems, len(examples))
  has_labels = not images_alone and bool(
    complete_examples.is_labelled(examples, numbers=numbers).any()
  )
  if fields == (label_key,) and not has_labels:
    wanted = "a number to predict" if numbers else "the number of a class"
    has_none = ", and there is no .cls" * (label_key == "cls" and not numbers)
    raise UserError(
      f"label_key = {label_key!r}: no .json of {name} has that field with"
      f" {wanted}{has_none}."
    )
  is_text_wanted = captions and not images_alone
  has_texts = is_text_wanted and complete_examples.has_texts(examples)
  lengths = np.bincount(examples["shard"], minlength=len(paths)).tolist()
  pieces = splits.resolve(split, {_SPLIT: lengths}, dataset=name)
  num_classes = int(examples["label"].max(initial=-1)) + 1
  examples = np.concatenate([examples[p.start : p.stop] for p in pieces])
  features: dict[str, sources.Feature] = {"image": sources.Image()}
  labels = None
  if numbers:
    features["label"] = sources.Numbers((label_key,))
    labels = examples["number"][:, None]
  elif has_labels:
    features["label"] = sources.Label(num_classes)
    labels = examples["label"]
  if has_texts:
    features["text"] = sources.Text()
  names = "\n".join(map(posixpath.basename, paths))
  content = hashlib.sha256(names.encode() + b"\0" + examples.tobytes())
  reasons, is_usable = complete_examples.judged(
    examples,
    has_labels=has_labels,
    has_texts=has_texts,
    numbers=numbers,
    images_alone=images_alone,
  )
  source = WebDatasetSource(
    paths=paths,
    examples=examples,
    labels=labels,
    reasons=reasons,
    is_usable=is_usable,
    damaged=damaged,
    features=features,
    fingerprint=(
      f"webdataset:{split}:{len(examples)}:{content.hexdigest()[:16]}"
    ),
  )
  bad = np.flatnonzero(reasons)
  problems = [*problems, *map(source.problem, bad)]
  if len(problems) > max_bad_examples:
    raise substitutes.found_unusable(problems, len(examples))
  if problems:
    _logger.warning(
      "webdataset:%s: %d examples or files cannot be used as they are: %s.",
      arguments,
      len(problems),
      truncate.first(problems, separator="; "),
    )
  return source


@dataclasses.dataclass(frozen=True)
class WebDatasetSource(sources.Source):
  """Examples of tar files; see `sources.Source`."""

  paths: Sequence[str]
  examples: np.ndarray  # `tar_index.EXAMPLE` [n].
  labels: np.ndarray | None  # int32 [n] classes, float64 [n, 1] numbers.
  reasons: np.ndarray  # uint8 [n], into `tar_index.PROBLEMS`.
  is_usable: np.ndarray  # bool [n].
  damaged: Sequence[tuple[str, str]]  # Paths of tars and their problems.
  features: Mapping[str, sources.Feature]
  fingerprint: str

  reads_names = True

  @property
  def num_examples(self) -> int:
    return len(self.examples)

  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    self._raise_if_unusable(ids)
    images = self._parts(ids, "image", "image_size")
    for number, image, size in zip(
      ids, images, self.examples["image_size"][ids], strict=True
    ):
      if len(image) < size:
        (name,) = self.names(np.array([number]))
        raise UserError(f"{name} is cut off; copy the file again.")
    result = {"image": images}
    if "text" in self.features:
      result["text"] = self.captions(ids)
    if self.labels is not None:
      result["label"] = self.labels[ids]
    return result

  def _raise_if_unusable(self, ids: np.ndarray) -> None:
    for number in ids:
      if not self.is_usable[number]:
        raise UserError(f"{self.problem(number)}.")

  def captions(self, ids: np.ndarray) -> np.ndarray:
    self._raise_if_unusable(ids)
    texts = np.empty(len(ids), object)
    contents = self._parts(ids, "text", "text_size")
    for row, (number, content) in enumerate(zip(ids, contents, strict=True)):
      is_json = bool(self.examples["is_json"][number])
      texts[row], problem = tar_index.captions(content, is_json)
      if not texts[row]:
        (name,) = self.names(np.array([number]))
        raise UserError(f"{name} has changed ({problem}); start a new run.")
    return texts

  def known_labels(self) -> np.ndarray | None:
    return self.labels

  def names(self, ids: np.ndarray) -> list[str]:
    found, shards = self.examples, self.examples["shard"]
    headers = zip(found["header"][ids], found["header_size"][ids], strict=True)
    return [
      f"{self._member(i, *header)} in {self.paths[shards[i]]}"
      for i, header in zip(ids, headers, strict=True)
    ]

  def file_names(self, ids: np.ndarray) -> list[str]:
    sizes = self.examples["image_header_size"][ids]
    headers = self.examples["image"][ids] - sizes
    return [
      posixpath.basename(self._member(*header))
      for header in zip(ids, headers, sizes, strict=True)
    ]

  def problem(self, number: int | np.integer) -> str:
    """Names an example and its problem."""
    (name,) = self.names(np.array([number]))
    reason = tar_index.PROBLEMS[self.reasons[number]]
    return f"{name} ({reason})"

  def _member(
    self,
    number: int | np.integer,
    header: int | np.integer,
    size: int | np.integer,
  ) -> str:
    """Returns the name in the header of one of an example's files."""
    path = self.paths[self.examples["shard"][number]]
    try:
      name = tar_index.member_name(_read(path, int(header), int(size)))
    except UserError:
      name = None
    return name or f"the file at byte {header}"

  def _parts(self, ids: np.ndarray, offset: str, size: str) -> np.ndarray:
    """Reads one file of each example, object [n] of bytes."""
    found = self.examples[ids]
    tasks = [
      (self.paths[shard], at, length)
      for shard, at, length in zip(
        found["shard"].tolist(),
        found[offset].tolist(),
        found[size].tolist(),
        strict=True,
      )
    ]
    parts = np.empty(len(tasks), object)
    if tasks and buckets.is_bucket(tasks[0][0]):
      parts[:] = list(
        parallel.in_threads(
          lambda task: _read(*task), tasks, num_threads=_THREADS
        )
      )
    else:
      parts[:] = [_read(*task) for task in tasks]
    return parts


def _index(
  paths: Sequence[str], label_fields: tuple[str, ...]
) -> tuple[np.ndarray, list[tuple[str, str]]]:
  """Loads or builds the index of the files.

  Returns:
    `tar_index.EXAMPLE` [n], and the incomplete files, each with its
    problem.
  """
  states = list(parallel.in_threads(_state, paths, num_threads=_THREADS))
  missing = [p for p, state in zip(paths, states, strict=True) if not state]
  if missing:
    raise UserError(
      f"{len(missing)} of {len(paths)} tar files are missing:"
      f" {truncate.first(missing)}. Copy them there, or name others."
    )
  # Whether a file is an image depends on the installed packages.
  suffixes = image_formats.SUFFIXES
  identity = [*states, label_fields, suffixes, tar_index.VERSION]
  places = index_files.places(paths, identity, "examples")
  index = index_files.load(
    places, lambda array: array.dtype == tar_index.EXAMPLE
  )
  if index is not None:
    return index, []
  _logger.info("Indexing %d tar files.", len(paths))
  found = parallel.in_threads(
    lambda task: tar_index.of_shard(*task),
    [(path, number, label_fields) for number, path in enumerate(paths)],
    num_threads=_THREADS,
  )
  examples, problems = zip(*found, strict=True)
  index = np.concatenate(examples)
  damaged = [pair for pair in zip(paths, problems, strict=True) if pair[1]]
  if not damaged:
    index_files.store(places, index)
  return index, damaged


def _state(path: str) -> tuple[int, int] | None:
  """Size and modification time, as tar files are padded and sizes repeat."""
  try:
    with buckets.as_os_error(path):
      found = buckets.status(path)
  except FileNotFoundError:
    return None
  except OSError as error:
    raise UserError(
      f"{path} cannot be read ({error.strerror or error}); fix that and start"
      " again."
    ) from None
  return found.size, found.changed


def _read(path: str, offset: int, length: int) -> bytes:
  def part() -> bytes:
    with index_files.open_file(path) as file:
      file.seek(offset)
      return file.read(length)

  try:
    return outages.outlast(path, part)
  except OSError as error:
    raise UserError(
      f"{path} cannot be read ({error.strerror or error}); fix that and start"
      " again."
    ) from None
