"""TFDS datasets on disk, in ArrayRecord or TFRecord format.

TFDS reads the metadata. Its own data source is not used for the records: it
cannot open TFRecord files and does not name damaged records.
"""

import concurrent.futures
import dataclasses
import hashlib
import os
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vit_jax.data import caption_lists, sources, splits
from vit_jax.data.tfds import dataset_directory, named_features
from vit_jax.data.tfds.array_record_files import ArrayRecordFiles
from vit_jax.data.tfds.computed_labels import ComputedLabel
from vit_jax.data.tfds.tfrecord_files import TFRecordFiles
from vit_jax.errors import UserError

_THREADS = 8
# The name in TFDS's imagenet2012 and in datasets written by `building`.
_FILE_NAME = "file_name"


def open_source(
  arguments: str,
  split: str,
  *,
  data_dir: str | None,
  image_key: str = "image",
  label_key: str = "label",
  text_key: str | None = None,
  captions: bool = True,
  max_bad_examples: int = 0,
  **unused: object,
) -> "TFDSSource":
  """Opens a prepared dataset; see `vit_jax.data.sources.open_source`.

  `arguments` is 'name', 'name/config' or either with ':version'. A key 'a/b' is
  feature b inside feature a; a label may be one of `computed_labels.LABELS`.
  Labels are optional for a dataset with captions or without any class.

  Raises:
    UserError: The dataset, a split or a feature is missing or unsuitable.
  """
  directory = dataset_directory.require(
    dataset_directory.DatasetName.parse(arguments),
    dataset_directory.resolve_data_dir(data_dir),
  )
  info = read_info(directory)
  named_features.check_image(info, image_key)
  found = named_features.find_text(info, text_key)
  label, computed = named_features.find_label(
    info, label_key, is_optional=found is not None
  )
  text_key = found if captions else text_key
  features: dict[str, sources.Feature] = {"image": sources.Image()}
  if label is not None:
    features["label"] = label
  if text_key is not None:
    features["text"] = sources.Text()
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
    features=features,
    fingerprint=f"{info.full_name}:{split}:{count}:{content}",
    image_key=image_key,
    label_key=label_key,
    text_key=text_key,
    computed=computed,
    dataset=info.full_name,
    pieces=tuple(pieces),
    shards={
      piece.name: open_shards(info, piece.name, max_bad_examples)
      for piece in pieces
    },
  )


def read_info(directory: os.PathLike) -> Any:
  """Returns the tfds.core.DatasetInfo of a prepared dataset."""
  from tensorflow_datasets.core import read_only_builder

  try:
    return read_only_builder.builder_from_directory(directory).info
  except Exception as error:  # Each part has its own format and errors.
    raise UserError(
      f"The dataset in {directory} cannot be read: {str(error).rstrip('.')}."
      " Remove that directory and prepare the dataset again."
    ) from None


@dataclasses.dataclass(frozen=True)
class _Shards:
  """Record files of one split; `ends[i]` counts records in the first i + 1."""

  files: ArrayRecordFiles | TFRecordFiles
  names: Sequence[str]
  ends: np.ndarray

  def locate(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns shards and positions in them, int64 [n] each."""
    shards = np.searchsorted(self.ends, positions, side="right")
    starts = np.concatenate([[0], self.ends[:-1]])
    return shards, positions - starts[shards]


@dataclasses.dataclass(frozen=True)
class TFDSSource(sources.Source):
  """A split of a TFDS dataset; see `sources.Source`."""

  num_examples: int
  features: Mapping[str, sources.Feature]
  fingerprint: str
  image_key: str
  label_key: str
  text_key: str | None
  computed: ComputedLabel | None
  dataset: str
  pieces: Sequence[splits.Piece]
  shards: dict[str, _Shards]
  _pool: concurrent.futures.Executor = dataclasses.field(
    default_factory=lambda: concurrent.futures.ThreadPoolExecutor(_THREADS),
    repr=False,
  )

  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    ids = np.asarray(ids)
    images, texts = np.empty(len(ids), object), np.empty(len(ids), object)
    labels = np.full((len(ids), self.max_labels), -1, np.int32)
    for row, record in enumerate(self._records(ids)):
      try:
        features = _parse(record)
        (images[row],) = features[self.image_key].bytes_list.value
        values = self._labels(features)
      except Exception as error:  # A DecodeError, or no image.
        raise UserError(
          f"The {self._name(ids[row])} is damaged ({type(error).__name__});"
          " prepare the dataset again."
        ) from None
      if self.max_labels > 1:
        values = list(dict.fromkeys(values))  # A set, in the given order.
        if len(values) > self.max_labels:
          raise UserError(
            f"The {self._name(ids[row])} has {len(values)} labels; no more than"
            f" {self.max_labels} are supported."
          )
      labels[row, : len(values)] = values
      if self.text_key is not None:
        texts[row] = self._texts(ids[row], features)
    result = {"image": images}
    if self.text_key is not None:
      result["text"] = texts
    if self.max_labels:
      self._raise_if_no_class(ids, labels)
      result["label"] = labels[:, 0] if self.max_labels == 1 else labels
    return result

  def images_alone(self, ids: np.ndarray) -> np.ndarray:
    return dataclasses.replace(self, text_key=None).read(ids)["image"]

  def _labels(self, features: Any) -> Sequence[int]:
    """Labels of a record, stored or computed; none for unlabelled data."""
    if self.label is None:
      return []
    if self.computed is None:
      return features[self.label_key].int64_list.value
    return [self.computed.of(features)]

  def _texts(self, record: int | np.integer, features: Any) -> tuple[str, ...]:
    """Returns the captions of a record.

    Raises:
      UserError: None of them can be used.
    """
    stored = features[self.text_key].bytes_list.value
    # Invalid bytes become surrogates, which are not accepted as UTF-8.
    texts = [text.decode("utf-8", "surrogateescape") for text in stored]
    kept, problem = caption_lists.usable(texts)
    if not kept:
      raise UserError(
        f"The {self._name(record)} has no caption that can be used in"
        f" {self.text_key!r} ({problem})."
      )
    return kept

  def names(self, ids: np.ndarray) -> list[str]:
    return [self._name(i) for i in ids]

  def _name(self, record: int | np.integer) -> str:
    (piece,), position = splits.locate(self.pieces, np.array([record]))
    split = self.pieces[piece].name
    shards = self.shards[split]
    (shard,), (place,) = shards.locate(position)
    return (
      f"record {position[0]} of {self.dataset} {split} (record {place} of file"
      f" {shards.names[shard]})"
    )

  def file_names(self, ids: np.ndarray) -> list[str]:
    """Reads the records again; see `sources.Source.file_names`."""
    names = []
    for record in self._records(np.asarray(ids)):
      features = _parse(record)
      if _FILE_NAME not in features:
        raise UserError(
          f"{self.dataset} has no feature {_FILE_NAME!r}, by which its images"
          " could be told apart."
        )
      (name,) = features[_FILE_NAME].bytes_list.value
      names.append(posixpath.basename(os.fsdecode(name)))
    return names

  def _records(self, ids: np.ndarray) -> list[bytes]:
    """Reads serialized examples, in the order of `ids`."""
    which, positions = splits.locate(self.pieces, ids)
    records = np.empty(len(ids), object)

    def read(files, shard: int, rows: np.ndarray, places: np.ndarray) -> None:
      records[rows] = files.read(shard, places)

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
    return records.tolist()

  def _raise_if_no_class(self, ids: np.ndarray, labels: np.ndarray) -> None:
    wrong = (labels < -1) | (labels >= self.num_classes)
    if self.max_labels == 1:
      wrong |= labels < 0
    if wrong.any():
      row = int(wrong.any(1).argmax())
      value = labels[row][wrong[row]][0]
      unlabelled = " The split may have been published without labels."
      hint = unlabelled if value == -1 else ""
      raise UserError(
        f"The {self._name(ids[row])} has {self.label_key} {value}; classes are"
        f" 0 to {self.num_classes - 1}.{hint}"
      )


def _parse(record: bytes) -> Any:
  """Returns a tf.train.Example's map of features."""
  from tensorflow_datasets.proto import tf_example_pb2

  return tf_example_pb2.Example.FromString(record).features.feature


def open_shards(info: Any, split: str, max_missing: int = 0) -> _Shards:
  """Opens the record files of a whole split; indexes TFRecord files.

  Up to `max_missing` records may be missing from each file; reading them fails.

  Raises:
    UserError: The files are in another format, missing or damaged.
  """
  from tensorflow_datasets.core import file_adapters

  split_info = info.splits[split]
  paths, lengths = split_info.filepaths, list(split_info.shard_lengths)
  directory = os.path.normpath(info.data_dir)
  for path in paths:  # Names come from a file of the dataset.
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
