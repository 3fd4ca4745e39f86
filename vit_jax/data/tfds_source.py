"""TFDS datasets that are on disk, in ArrayRecord or TFRecord format."""

import concurrent.futures
import dataclasses
import hashlib
import os
import posixpath
from collections.abc import Sequence
from typing import Any

import numpy as np

from vit_jax.data import computed_labels, splits, tfds_directory
from vit_jax.data.array_record_files import ArrayRecordFiles
from vit_jax.data.computed_labels import ComputedLabel
from vit_jax.data.tfrecord_files import TFRecordFiles
from vit_jax.errors import UserError

# Width of the padded lists where the dataset sets no limit. Labels are a few
# bytes beside an image, so a generous width costs nothing.
_MAX_LABELS = 32
_THREADS = 8
# As TFDS calls it in imagenet2012, and we where we make datasets.
_FILE_NAME = "file_name"


def open_source(
  arguments: str,
  split: str,
  *,
  data_dir: str | None,
  image_key: str = "image",
  label_key: str = "label",
  max_bad_examples: int = 0,
) -> "TFDSSource":
  """Opens a prepared dataset; see `vit_jax.data.sources.open_source`.

  Args:
    arguments: 'name', 'name/config' or either with ':version'.
    split: split string.
    data_dir: as there.
    image_key: feature of the image; 'a/b' for feature b inside feature a.
    label_key: feature of the label, or of the list of labels, likewise; or one
      of `computed_labels.LABELS`.
    max_bad_examples: records that each shard may lack.

  Raises:
    UserError: if the dataset, a split or a feature is missing or unsuitable.
  """
  directory = tfds_directory.require(
    tfds_directory.DatasetName.parse(arguments),
    tfds_directory.resolve_data_dir(data_dir),
  )
  info = read_info(directory)
  _image_feature(info, image_key)
  class_names, max_labels, computed = _label(info, label_key)
  shard_lengths = {
    name: list(split_info.shard_lengths)
    for name, split_info in info.splits.items()
  }
  pieces = splits.resolve(split, shard_lengths, dataset=info.full_name)
  identity = [
    (name, split_info.shard_lengths, split_info.num_bytes)
    for name, split_info in sorted(info.splits.items())
  ]
  content = hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
  count = splits.count(pieces)
  return TFDSSource(
    num_examples=count,
    num_classes=len(class_names),
    class_names=class_names,
    max_labels=max_labels,
    fingerprint=f"{info.full_name}:{split}:{count}:{content}",
    image_key=image_key,
    label_key=label_key,
    computed=computed,
    dataset=info.full_name,
    pieces=tuple(pieces),
    shards={
      piece.name: open_shards(info, piece.name, max_bad_examples)
      for piece in pieces
    },
  )


def read_info(directory: os.PathLike) -> Any:
  """The tfds.core.DatasetInfo of a prepared dataset.

  Raises:
    UserError: if it cannot be read.
  """
  from tensorflow_datasets.core import read_only_builder

  try:
    return read_only_builder.builder_from_directory(directory).info
  except Exception as error:  # Many kinds, as many as formats of the parts.
    raise UserError(
      f"The dataset in {directory} cannot be read: {error}. Remove that"
      " directory and prepare the dataset again."
    ) from None


@dataclasses.dataclass(frozen=True)
class _Shards:
  """Record files of one split."""

  files: ArrayRecordFiles | TFRecordFiles
  names: Sequence[str]
  ends: np.ndarray  # Records in the first i + 1 shards.

  def locate(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shard and position in it, int64 [n] each, of records of the split."""
    shards = np.searchsorted(self.ends, positions, side="right")
    starts = np.concatenate([[0], self.ends[:-1]])
    return shards, positions - starts[shards]


@dataclasses.dataclass(frozen=True)
class TFDSSource:
  """A split of a TFDS dataset; attributes as in `sources.Source`."""

  num_examples: int
  num_classes: int
  class_names: tuple[str, ...]
  max_labels: int
  fingerprint: str
  image_key: str
  label_key: str
  computed: ComputedLabel | None
  dataset: str
  pieces: Sequence[splits.Piece]
  shards: dict[str, _Shards]
  image_shape: None = None
  _pool: concurrent.futures.Executor = dataclasses.field(
    default_factory=lambda: concurrent.futures.ThreadPoolExecutor(_THREADS),
    repr=False,
  )

  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Reads records; see `sources.Source.read`."""
    from tensorflow_datasets.proto import tf_example_pb2

    ids = np.asarray(ids)
    images = np.empty(len(ids), object)
    labels = np.full((len(ids), self.max_labels), -1, np.int32)
    for row, record in enumerate(self._records(ids)):
      try:
        features = tf_example_pb2.Example.FromString(record).features.feature
        (images[row],) = features[self.image_key].bytes_list.value
        if self.computed is None:
          values = features[self.label_key].int64_list.value
        else:
          values = [self.computed.of(features)]
      except Exception as error:  # A DecodeError, or no image.
        (name,) = self.names(ids[row : row + 1])
        raise UserError(
          f"The {name} is damaged ({type(error).__name__}); prepare the"
          " dataset again."
        ) from None
      if self.max_labels > 1:
        values = list(dict.fromkeys(values))  # A set, in the order given.
        if len(values) > self.max_labels:
          (name,) = self.names(ids[row : row + 1])
          raise UserError(
            f"The {name} has {len(values)} labels; no more than"
            f" {self.max_labels} are supported."
          )
      labels[row, : len(values)] = values
    self._raise_if_no_class(ids, labels)
    return {
      "image": images,
      "label": labels[:, 0] if self.max_labels == 1 else labels,
    }

  def names(self, ids: np.ndarray) -> list[str]:
    """Split, number and file of each record."""
    which, positions = splits.locate(self.pieces, np.asarray(ids))
    names = []
    for piece, position in zip(which, positions, strict=True):
      split = self.pieces[piece].name
      shards = self.shards[split]
      shard, place = shards.locate(position[None])
      names.append(
        f"record {position} of {self.dataset} {split} (record {place[0]} of"
        f" file {shards.names[shard[0]]})"
      )
    return names

  def file_names(self, ids: np.ndarray) -> list[str]:
    """See `sources.FileNamingSource.file_names`; reads the records again."""
    from tensorflow_datasets.proto import tf_example_pb2

    names = []
    for record in self._records(np.asarray(ids)):
      features = tf_example_pb2.Example.FromString(record).features.feature
      if _FILE_NAME not in features:
        raise UserError(
          f"{self.dataset} has no feature {_FILE_NAME!r}, by which its images"
          " could be told apart."
        )
      (name,) = features[_FILE_NAME].bytes_list.value
      names.append(posixpath.basename(os.fsdecode(name)))
    return names

  def _records(self, ids: np.ndarray) -> list[bytes]:
    """The serialized examples, in the order of `ids`."""
    which, positions = splits.locate(self.pieces, ids)
    records: list[bytes] = [b""] * len(ids)

    def read(files, shard: int, rows: np.ndarray, places: np.ndarray) -> None:
      found = files.read(shard, places)
      for row, record in zip(rows.tolist(), found, strict=True):
        records[row] = record

    tasks = []
    for name, shards in self.shards.items():
      of_split = [piece.name == name for piece in self.pieces]
      rows = np.flatnonzero(np.array(of_split)[which])
      shard, place = shards.locate(positions[rows])
      for number in np.unique(shard):
        here = shard == number
        tasks.append((shards.files, int(number), rows[here], place[here]))
    if len(tasks) == 1:
      read(*tasks[0])
    else:
      list(self._pool.map(lambda task: read(*task), tasks))
    return records

  def _raise_if_no_class(self, ids: np.ndarray, labels: np.ndarray) -> None:
    wrong = (labels < -1) | (labels >= self.num_classes)
    if self.max_labels == 1:
      wrong |= labels < 0
    if wrong.any():
      row = int(wrong.any(1).argmax())
      (name,) = self.names(ids[row : row + 1])
      value = labels[row][wrong[row]][0]
      hint = (
        " The split may have been published without labels."
        if value == -1
        else ""
      )
      raise UserError(
        f"The {name} has {self.label_key} {value}; classes are 0 to"
        f" {self.num_classes - 1}.{hint}"
      )


def open_shards(info: Any, split: str, max_missing: int = 0) -> "_Shards":
  """The record files of a whole split; indexes TFRecord files.

  Args:
    info: the tfds.core.DatasetInfo.
    split: name of the split.
    max_missing: records that each file may lack; they fail when read.

  Raises:
    UserError: if they are in another format, missing or damaged.
  """
  from tensorflow_datasets.core import file_adapters

  split_info = info.splits[split]
  paths, lengths = split_info.filepaths, list(split_info.shard_lengths)
  directory = os.path.normpath(info.data_dir)
  for path in paths:  # Their names come from a file of the dataset.
    if os.path.dirname(os.path.normpath(path)) != directory:
      raise UserError(
        f"The dataset in {directory} names the file {path}, which is not in"
        " that directory; prepare it again."
      )
  formats = {
    file_adapters.FileFormat.ARRAY_RECORD: ArrayRecordFiles,
    file_adapters.FileFormat.TFRECORD: TFRecordFiles,
  }
  if info.file_format not in formats:
    raise UserError(
      f"{info.full_name} is stored as {info.file_format.value}; prepare it as"
      " array_record or tfrecord."
    )
  return _Shards(
    files=formats[info.file_format](paths, lengths, max_missing),
    names=[path.name for path in paths],
    ends=np.cumsum(lengths),
  )


def _image_feature(info: Any, key: str) -> None:
  """Raises a UserError if the feature `key` is not an image."""
  import tensorflow_datasets as tfds

  found = {
    name: feature
    for name, (feature, repeats) in _flatten(info.features).items()
    if isinstance(feature, tfds.features.Image) and not repeats
  }
  if key not in found:
    raise UserError(_missing("image_key", key, "image", info, found))


def _label(
  info: Any, key: str
) -> tuple[tuple[str, ...], int, ComputedLabel | None]:
  """What the label named `key` is.

  Returns:
    Names of its classes, how many an example may have, and how it is computed
    if no feature holds it.

  Raises:
    UserError: if it is not there, is no class, or has no number of classes.
  """
  import tensorflow_datasets as tfds

  flat = _flatten(info.features)
  stored = {
    name: (feature, repeats)
    for name, (feature, repeats) in flat.items()
    if isinstance(feature, tfds.features.ClassLabel)
    and feature.num_classes
    and len(repeats) <= 1
  }
  computed = {
    name: label
    for name, label in computed_labels.LABELS.items()
    if flat.keys() >= set(label.features)
  }
  if key in stored:
    feature, repeats = stored[key]
    max_labels = (repeats[0] or _MAX_LABELS) if repeats else 1
    return tuple(feature.names), max_labels, None
  if key in computed:
    return computed[key].class_names, 1, computed[key]
  found = stored | computed
  raise UserError(_missing("label_key", key, "class label", info, found))


def _missing(
  option: str, key: str, kind: str, info: Any, found: dict[str, Any]
) -> str:
  choices = ", ".join(repr(name) for name in found) or "none"
  return (
    f"{option} = {key!r}: {info.full_name} has no {kind} of that name. It has:"
    f" {choices}."
  )


def _flatten(
  feature: Any, name: str = "", repeats: tuple[int | None, ...] = ()
) -> dict[str, tuple[Any, tuple[int | None, ...]]]:
  """Name as in the records -> (feature, lengths of the lists around it).

  A length is None where it differs between examples.
  """
  import tensorflow_datasets as tfds

  if isinstance(feature, tfds.features.Sequence):
    length = feature._length or -1  # TFDS has no public name for it.
    length = length if length > 0 else None
    return _flatten(feature.feature, name, (*repeats, length))
  if isinstance(feature, tfds.features.FeaturesDict):
    flat = {}
    for inner, value in feature.items():
      flat |= _flatten(value, f"{name}/{inner}".lstrip("/"), repeats)
    return flat
  return {name: (feature, repeats)}
