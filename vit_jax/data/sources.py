"""Sources: datasets that hand out raw records by number.

`open_source` turns the name of a dataset and a split string into a `Source`.
Nothing is decoded and nothing shuffled here: `vit_jax.data.order` says which
records a step needs and `vit_jax.data.pipeline` decodes what `read` returns.
"""

import difflib
import importlib
import re
from typing import Protocol, runtime_checkable

import numpy as np

from vit_jax.errors import UserError

# Sources that are not TFDS datasets: module and whether arguments may follow a
# colon. Each module offers `open_source(arguments, split, *, data_dir,
# image_key, label_key, max_bad_examples)`, and `check(arguments)` where
# arguments are allowed.
_MODULES = {
  "digits": ("vit_jax.data.digits.source", False),
  "folder": ("vit_jax.data.folder", False),
  "generated": ("vit_jax.data.generated", True),
}
_TFDS_NAME = re.compile(
  r"[a-z]\w*(/\w[\w.+-]*)?(:\d+\.\d+\.\d+)?", re.IGNORECASE
)


@runtime_checkable
class Source(Protocol):
  """A split of a dataset: `num_examples` records, read by their number.

  Attributes:
    num_examples: records in the split.
    num_classes: classes of the dataset; labels are 0 to num_classes - 1.
    class_names: their names, in the order of the labels, or None.
    max_labels: 1, and `read` gives one label per record; otherwise the width
      of the padded lists of labels.
    fingerprint: name, version, split, count and a hash of what identifies the
      content: equal if and only if record numbers mean the same images.
    image_shape: (height, width, channels) if all images are raw arrays of
      this shape; None if they are encoded files.
  """

  num_examples: int
  num_classes: int
  class_names: tuple[str, ...] | None
  max_labels: int
  fingerprint: str
  image_shape: tuple[int, int, int] | None

  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Reads records; may be called from several threads at once.

    Args:
      ids: int64 [n], each in 0 to num_examples - 1, in any order.

    Returns:
      "image": object [n] of bytes (JPEG, PNG, WebP or BMP files), or uint8
      [n, height, width, channels] if `image_shape` is set; "label": int32 [n]
      if `max_labels` is 1, else int32 [n, max_labels] padded with -1.

    Raises:
      UserError: naming the record that cannot be read or whose label is not a
        class.
    """
    ...

  def names(self, ids: np.ndarray) -> list[str]:
    """The file or record of each of `ids`, as a person would look for it."""
    ...


@runtime_checkable
class LocatingSource(Source, Protocol):
  """A source of encoded images that need not all pass through Python."""

  def read_or_locate(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Like `read`, but where it can names files instead of reading them.

    Returns:
      As `read`, and perhaps "form", int32 [n]: `encoded.form` of each image,
      or `encoded.UPRIGHT_JPEG_FILE` where the "image" is the path of one.
    """
    ...


@runtime_checkable
class FileNamingSource(Source, Protocol):
  """A source whose images are known by the names of their files."""

  def file_names(self, ids: np.ndarray) -> list[str]:
    """The name of each image's file, without the folders above it.

    Raises:
      UserError: the dataset has not kept them.
    """
    ...


def open_source(
  dataset: str,
  split: str,
  *,
  data_dir: str | None,
  image_key: str = "image",
  label_key: str = "label",
  max_bad_examples: int = 0,
) -> Source:
  """Opens a dataset that is there; downloads nothing.

  Args:
    dataset: 'folder', 'digits', 'generated:...' or a TFDS name such as
      'imagenet2012', 'cifar10:3.0.2' or 'vtab/config:1.0.0'.
    split: a TFDS split string, such as 'train[:99%]'.
    data_dir: where datasets are; for 'folder' the image folder itself; None:
      the environment variable TFDS_DATA_DIR, then ~/tensorflow_datasets.
    image_key: feature of a TFDS dataset that holds the image.
    label_key: feature of a TFDS dataset that holds the label or labels.
    max_bad_examples: records that may be found missing or damaged here; they
      fail when they are read.

  Raises:
    UserError: if the dataset, the split or a feature is not there, or the
      data are not fit for training.
  """
  check(dataset)
  kind, _, arguments = dataset.partition(":")
  if kind in _MODULES:
    module = importlib.import_module(_MODULES[kind][0])
  else:
    module = importlib.import_module("vit_jax.data.tfds_source")
    arguments = dataset
  return module.open_source(
    arguments,
    split,
    data_dir=data_dir,
    image_key=image_key,
    label_key=label_key,
    max_bad_examples=max_bad_examples,
  )


def is_built_in(dataset: str) -> bool:
  """Whether a name is none of a TFDS dataset."""
  return dataset.partition(":")[0] in _MODULES


def check(dataset: str) -> None:
  """Checks the form of a dataset's name; looks at no data.

  Raises:
    UserError: if it cannot be the name of a dataset.
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
    near = difflib.get_close_matches(kind, _MODULES, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UserError(
      f"{dataset!r} is not the name of a dataset.{hint} Write 'folder',"
      " 'digits', 'generated:classes=10,size=32' or a TFDS name such as"
      " 'imagenet2012' or 'cifar10:3.0.2'."
    )
