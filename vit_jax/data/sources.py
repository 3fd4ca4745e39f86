"""Sources: datasets that return raw records by number.

`open_source` turns the name of a dataset and a split string into a `Source`.
Nothing is decoded or shuffled here: `vit_jax.data.order` determines the records
for a step, and `vit_jax.data.pipeline` decodes the results of `read`.
"""

import abc
import dataclasses
import importlib
import os
import re
from collections.abc import Mapping

import numpy as np

from vit_jax import buckets
from vit_jax.errors import UserError
from vit_jax.suggestions import did_you_mean

# Sources that are not TFDS datasets: module, and True if arguments can follow a
# colon. Each module has `open_source`, with the keywords of the function below,
# and `check(arguments)` if it takes arguments.
_MODULES = {
  "captions": ("vit_jax.data.captions", False),
  "csv": ("vit_jax.data.labels_csv", True),
  "datasets": ("vit_jax.data.huggingface.source", True),
  "digits": ("vit_jax.data.digits.source", False),
  "folder": ("vit_jax.data.folder", True),
  "generated": ("vit_jax.data.generated", True),
  "webdataset": ("vit_jax.data.webdataset.source", True),
}
# Datasets included in the package or drawn on demand.
_OF_NO_FILES = ("digits", "generated")
_TFDS_NAME = re.compile(
  r"[a-z]\w*(/\w[\w.+-]*)?(:\d+\.\d+\.\d+)?", re.IGNORECASE
)


@dataclasses.dataclass(frozen=True)
class Image:
  """A feature of images.

  Attributes:
    shape: (height, width, channels) of raw arrays, uint8; None if images are
      encoded files, in a format of `image_formats` and of any size.
  """

  shape: tuple[int, int, int] | None = None


@dataclasses.dataclass(frozen=True)
class Label:
  """A feature of classes, int32 from 0 to num_classes - 1.

  Attributes:
    class_names: Names in the order of the labels, if known.
    max_labels: 1 for one label per record, otherwise the width of the lists of
      labels, padded with -1.
  """

  num_classes: int
  class_names: tuple[str, ...] | None = None
  max_labels: int = 1


@dataclasses.dataclass(frozen=True)
class Numbers:
  """A feature of numbers to predict, finite float64.

  Attributes:
    names: Names of the numbers.
  """

  names: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Text:
  """A feature of captions, one or more per record."""


Feature = Image | Label | Numbers | Text


class Source(abc.ABC):
  """A split of a dataset: `num_examples` records, read by number.

  Attributes:
    features: Descriptions of the arrays returned by `read`, by name: "image"
      and, if the dataset has them, "label" and "text".
    reads_names: True if names are read from the stored records, one by one.
    fingerprint: Name, version, split, count and a hash that identifies the
      content: equal if and only if record numbers refer to the same images.
  """

  num_examples: int
  features: Mapping[str, Feature]
  fingerprint: str
  reads_names: bool = False

  @abc.abstractmethod
  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Reads records; can be called from several threads at once.

    Args:
      ids: int64 [n], each in 0 to num_examples - 1, in any order.

    Returns:
      "image": object [n] of bytes, or uint8 [n, height, width, channels];
      "label": int32 [n] or [n, max_labels], or float64 [n, numbers]; "text":
      object [n] of tuples of one or more str; see `features`.

    Raises:
      UserError: A record, named in the message, cannot be read, has a label
        that is not a class, or has no caption.
    """

  @abc.abstractmethod
  def names(self, ids: np.ndarray) -> list[str]:
    """Returns the file or record of each of `ids`, for users to find it."""

  def read_or_locate(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Like `read`, but may return paths of image files instead of reading them.

    Returns:
      As `read`, optionally with "form", int32 [n]: `encoded.form` of each
      image, or `encoded.UPRIGHT_JPEG_FILE` where "image" is the path of one.
    """
    return self.read(ids)

  def images_alone(self, ids: np.ndarray) -> np.ndarray:
    """Reads only "image", also of records without a caption; see `read`."""
    return self.read(ids)["image"]

  def captions(self, ids: np.ndarray) -> np.ndarray:
    """Reads only "text", all captions of each record; see `read`."""
    return self.read(ids)["text"]

  def file_names(self, ids: np.ndarray) -> list[str] | None:
    """Returns the names of image files, without folders; None if unknown.

    Raises:
      UserError: The dataset does not store them.
    """
    return None

  def known_labels(self) -> np.ndarray | None:
    """Labels of all records as in `read`; None if known only by reading."""
    return None

  @property
  def image_shape(self) -> tuple[int, int, int] | None:
    return self.features["image"].shape

  @property
  def label(self) -> Label | None:
    label = self.features.get("label")
    return label if isinstance(label, Label) else None

  @property
  def numbers(self) -> tuple[str, ...]:
    """Names of the numbers to predict; () if labels are classes."""
    label = self.features.get("label")
    return label.names if isinstance(label, Numbers) else ()

  @property
  def num_classes(self) -> int | None:
    """Number of classes; None if records have no labels."""
    return self.label and self.label.num_classes

  @property
  def class_names(self) -> tuple[str, ...] | None:
    return self.label and self.label.class_names

  @property
  def max_labels(self) -> int:
    """Width of the labels, see `Label`; 0 if records have no labels."""
    return self.label.max_labels if self.label else 0


@dataclasses.dataclass(frozen=True)
class Wrapped(Source):
  """A source based on another; forwards all but the fingerprint to `source`."""

  source: Source

  def originals(self, ids: np.ndarray) -> np.ndarray:
    """Maps record numbers to those of `source`."""
    return ids

  @property
  def num_examples(self) -> int:
    return self.source.num_examples

  @property
  def features(self) -> Mapping[str, Feature]:
    return self.source.features

  @property
  def reads_names(self) -> bool:
    return self.source.reads_names

  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    return self.source.read(self.originals(ids))

  def images_alone(self, ids: np.ndarray) -> np.ndarray:
    return self.source.images_alone(self.originals(ids))

  def captions(self, ids: np.ndarray) -> np.ndarray:
    return self.source.captions(self.originals(ids))

  def known_labels(self) -> np.ndarray | None:
    labels = self.source.known_labels()
    if labels is None:
      return None
    return labels[self.originals(np.arange(self.num_examples))]

  def names(self, ids: np.ndarray) -> list[str]:
    return self.source.names(self.originals(ids))

  def file_names(self, ids: np.ndarray) -> list[str] | None:
    return self.source.file_names(self.originals(ids))


def open_source(
  dataset: str,
  split: str,
  *,
  data_dir: str | None,
  image_key: str = "image",
  label_key: str = "label",
  text_key: str | None = None,
  captions: bool = True,
  numbers: bool = False,
  images_alone: bool = False,
  max_bad_examples: int = 0,
  shuffle_block: int = 1,
) -> Source:
  """Opens a dataset on disk or on the Hugging Face hub.

  Nothing is downloaded except datasets named as on the hub,
  'datasets:OWNER/NAME'.

  Args:
    dataset: 'folder', 'captions', 'webdataset:...', 'datasets:...', 'digits',
      'generated:...' or a TFDS name such as 'imagenet2012', 'cifar10:3.0.2' or
      'vtab/config:1.0.0'.
    split: TFDS split string, such as 'train[:99%]'.
    data_dir: Directory of datasets; for 'folder' and 'captions' the folder of
      images itself; None for the environment variable TFDS_DATA_DIR, then
      ~/tensorflow_datasets.
    image_key: Feature with the image, if the dataset's features have names.
    label_key: Feature with the label or labels.
    text_key: Feature with the captions; None to find it by name, if there is
      one.
    captions: False if captions not named by text_key are optional; a separate
      column of them is then not read.
    numbers: True if labels are numbers to predict, when the name of the dataset
      does not say so.
    images_alone: True to read only images from tar files and Hugging Face
      datasets, regardless of their labels and captions.
    max_bad_examples: Number of records that may be missing or damaged; reading
      these fails.
    shuffle_block: Number of consecutive records read at about the same time, as
      in `order.example_ids`; 1 if records are read in any order.

  Raises:
    UserError: The dataset, the split or a feature does not exist, the data are
      unsuitable for training, or their bucket cannot be reached.
  """
  check(dataset)
  kind, _, arguments = dataset.partition(":")
  _reach(kind, arguments, data_dir)
  if kind in _MODULES:
    module = importlib.import_module(_MODULES[kind][0])
  else:
    module = importlib.import_module("vit_jax.data.tfds.source")
    arguments = dataset
  return module.open_source(
    arguments,
    split,
    data_dir=data_dir,
    image_key=image_key,
    label_key=label_key,
    text_key=text_key,
    captions=captions,
    numbers=numbers,
    images_alone=images_alone,
    max_bad_examples=max_bad_examples,
    shuffle_block=shuffle_block,
  )


def _reach(kind: str, arguments: str, data_dir: str | None) -> None:
  """Raises UserError if a bucket with the data cannot be reached."""
  if kind in _OF_NO_FILES:
    return
  if kind not in _MODULES:
    data_dir = data_dir or os.environ.get("TFDS_DATA_DIR")
  for path in (data_dir, arguments):
    if path:
      buckets.check(path)


def is_built_in(dataset: str) -> bool:
  """Returns True unless the name is that of a TFDS dataset."""
  return dataset.partition(":")[0] in _MODULES


def location(dataset: str, data_dir: str | None) -> str:
  """Returns the real path that the names of a dataset's files refer to.

  It does not depend on the working directory, and is "" for a dataset
  identified by its name: one of TFDS or the hub, or one without files.

  Args:
    dataset, data_dir: As in `open_source`.
  """
  kind, _, arguments = dataset.partition(":")
  if kind not in _MODULES or kind in _OF_NO_FILES:
    return ""
  names = "" if kind in ("captions", "folder") else arguments
  path = os.path.expanduser(names)
  if not buckets.is_bucket(path):
    path = os.path.join(os.path.expanduser(data_dir or ""), path)
  if kind == "datasets":
    # A directory takes precedence over a name, and a configuration may follow
    # either.
    places = (path, path.rpartition(":")[0])
    if not any(map(os.path.isdir, places)):
      return ""
  if buckets.is_bucket(path):
    return path.rstrip("/")
  return os.path.realpath(path)


def check(dataset: str) -> None:
  """Checks the form of a dataset's name without reading data.

  Raises:
    UserError: It cannot be the name of a dataset.
  """
  kind, colon, arguments = dataset.partition(":")
  if kind in _MODULES:
    module, takes_arguments = _MODULES[kind]
    if takes_arguments:
      importlib.import_module(module).check(arguments)
    elif colon:
      raise UserError(
        f"Dataset {dataset!r}: {kind!r} takes no arguments; write {kind!r}."
      )
    return
  if not _TFDS_NAME.fullmatch(dataset):
    near = did_you_mean(kind, _MODULES)
    hint = f" Did you mean {near!r}?" if near else ""
    raise UserError(
      f"{dataset!r} is not the name of a dataset.{hint} Write 'folder',"
      " 'csv:labels.csv', 'captions', 'digits', 'generated:classes=10,size=32'"
      " or a TFDS name (letters, digits and '_', then /CONFIG and :VERSION if"
      " wanted), such as 'imagenet2012' or 'cifar10:3.0.2'."
    )
