"""The input from a dataset in another format: records of another source.

'webdataset:PATTERN' and 'datasets:NAME_OR_DIR' become records, like image
folders. A process that writes a shard opens the source itself and reads by
number.
"""

import contextlib
import dataclasses
import functools
import logging
import threading
from collections.abc import Iterator, Sequence

import numpy as np

from vit_jax.data import sources
from vit_jax.data.building.contract import Inputs, Readable, Split
from vit_jax.data.webdataset import source as webdataset
from vit_jax.errors import UserError

# Bad records are named all together on writing, and damaged files before.
_ANY = 2**31
_OPENING = threading.Lock()


def is_one(path: str) -> bool:
  """Returns True if a path is the name of such a dataset."""
  return path.startswith(("webdataset:", "datasets:"))


@dataclasses.dataclass(frozen=True)
class Stored:
  """A split of a dataset, by the arguments that open it.

  Attributes:
    dataset, split, image_key, label_key: As in `sources.open_source`.
    captions: True if a record without captions is unusable.
    images_alone: True if a record needs only an image.
  """

  dataset: str
  split: str
  image_key: str
  label_key: str
  captions: bool = True
  images_alone: bool = False

  def open(self) -> sources.Source:
    # Several threads of a shard may call this at once.
    with _OPENING, _without_warnings(webdataset.__name__):
      return _opened(self)


@contextlib.contextmanager
def _without_warnings(name: str) -> Iterator[None]:
  """Suppresses a logger's warnings.

  They are about bad records, which are named at the end, and would be repeated
  by every process and split.
  """
  logger = logging.getLogger(name)

  def is_progress(record: logging.LogRecord) -> bool:
    return record.levelno < logging.WARNING

  logger.addFilter(is_progress)
  try:
    yield
  finally:
    logger.removeFilter(is_progress)


@functools.lru_cache(maxsize=8)
def _opened(stored: Stored) -> sources.Source:
  return sources.open_source(
    stored.dataset,
    stored.split,
    data_dir=None,
    image_key=stored.image_key,
    label_key=stored.label_key,
    captions=stored.captions,
    images_alone=stored.images_alone,
    max_bad_examples=_ANY,
  )


@dataclasses.dataclass(frozen=True)
class Record(Readable):
  """A record of a source, with its captions if `has_captions`."""

  stored: Stored
  number: int
  labels: tuple[int, ...]
  has_captions: bool

  @property
  def _ids(self) -> np.ndarray:
    return np.array([self.number])

  @property
  def name(self) -> str:  # That of its file, else its number.
    try:
      (name,) = self.stored.open().file_names(self._ids) or (None,)
    except UserError:
      name = None
    return name or f"{self.stored.split}/{self.number}"

  def read(self) -> bytes:
    try:
      return self.stored.open().read(self._ids)["image"][0]
    except UserError as error:
      raise ValueError(str(error).rstrip(".")) from None

  def captions(self) -> tuple[str, ...]:
    if not self.has_captions:
      return ()
    source = dataclasses.replace(self.stored, captions=True).open()
    try:
      return source.captions(self._ids)[0]
    except UserError:
      if self.stored.captions:
        raise
      return ()  # Its class is still useful.


def read(
  path: str,
  split: str | None,
  names: Sequence[str] | None,
  *,
  image_key: str = "image",
  label_key: str = "label",
  unlabelled: bool = False,
) -> Inputs:
  """Lists the records of a dataset without reading them.

  Args:
    path: Name of the dataset, as in `train.dataset`; relative paths start from
      the working directory.
    split: Name of the only split of tar files; None for 'train'.
    names: Names of the classes, if the dataset has none.
    image_key, label_key: As in `sources.open_source`.
    unlabelled: True to ignore classes and captions, so that no image is bad
      because they are missing.

  Raises:
    UserError: The dataset cannot be opened, has neither classes nor captions
      although `unlabelled` is not set, or its number of classes differs from
      that of names.
  """

  def stored(of_split: str) -> Stored:
    return Stored(path, of_split, image_key, label_key, images_alone=unlabelled)

  whole = stored("all").open()
  damaged: Sequence[tuple[str, str]] = ()
  if isinstance(whole, webdataset.WebDatasetSource):
    found = {split or "train": stored("train")}
    damaged = whole.damaged
  elif split:
    raise UserError(
      f"--split={split}: --from={path} has splits of its own; leave --split"
      " out."
    )
  else:
    found = {p.name: stored(p.name) for p in whole.pieces}
  opened = {name: one.open() for name, one in found.items()}
  # A split may have been published without labels.
  whole = next((s for s in opened.values() if s.label is not None), whole)
  has_captions = "text" in whole.features and not unlabelled
  if whole.label is None and not has_captions and not unlabelled:
    raise UserError(
      f"--from={path} has neither classes nor captions; name the column of the"
      " classes with --label_key, or take the images alone with --unlabelled."
    )
  class_names = None if unlabelled else whole.class_names
  for name in class_names or ():
    if len(name.strip().splitlines()) != 1:  # TFDS stores one name per line.
      raise UserError(
        f"--from={path}: the name of class {name!r} is empty or of several"
        " lines, which cannot be stored; rename it."
      )
  num_classes = 0 if unlabelled else whole.num_classes or 0
  max_labels = 0 if unlabelled else whole.max_labels
  if names is not None:
    if class_names is not None or len(names) < (whole.num_classes or 0):
      raise UserError(
        f"--class_names has {len(names)} names, but --from={path} has"
        f" {whole.num_classes or 'no'} classes"
        f"{' with names of their own' * (class_names is not None)}; leave it"
        " out, or name each."
      )
    class_names = tuple(names)
  # In tar files, either all examples have captions or none.
  is_all_alike = isinstance(whole, webdataset.WebDatasetSource)
  needs_captions = (whole.label is None or is_all_alike) and not unlabelled
  return Inputs(
    splits={
      name: Split(
        opened[name].num_examples,
        functools.partial(
          _records,
          dataclasses.replace(one, captions=needs_captions),
          max_labels,
          has_captions and "text" in opened[name].features,
        ),
      )
      for name, one in found.items()
    },
    class_names=class_names,
    num_classes=len(class_names) if class_names else num_classes,
    max_labels=max_labels,
    identity="\n".join(source.fingerprint for source in opened.values()),
    place=sources.location(path, None) or path,
    has_captions=has_captions,
    damaged=damaged,
  )


def _records(
  stored: Stored, max_labels: int, has_captions: bool, ids: np.ndarray
) -> list[Record]:
  labels = stored.open().known_labels() if max_labels else None
  if labels is None:  # A test split published without labels.
    unknown = (-1,) if max_labels == 1 else ()
    return [Record(stored, int(i), unknown, has_captions) for i in ids]
  return [
    Record(
      stored,
      int(i),
      tuple(label for label in np.atleast_1d(labels[i]).tolist() if label >= 0),
      has_captions,
    )
    for i in ids
  ]
