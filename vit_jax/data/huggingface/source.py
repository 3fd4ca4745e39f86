"""Hugging Face datasets: 'datasets:NAME[@REVISION][:CONFIG]' or 'datasets:DIR'.

`dataset_files` finds the files and `dataset_columns` the columns to read.
Labels are kept in memory; images and captions are read by position.
"""

import dataclasses
import functools
import hashlib
import logging
import os
import pathlib
import posixpath
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from vit_jax.data import (
  caption_lists,
  folder_listing,
  outages,
  sources,
  splits,
  substitutes,
)
from vit_jax.data.huggingface import dataset_columns, dataset_names
from vit_jax.data.huggingface.dataset_columns import Columns
from vit_jax.errors import UserError

if TYPE_CHECKING:
  from vit_jax.data.huggingface.arrow_tables import Table

_ALL = "all"  # Every split, for scanning.

_logger = logging.getLogger(__name__)


def check(arguments: str) -> None:
  """Checks the form of a name without reading files.

  Raises:
    UserError: It is not the name of a dataset.
  """
  dataset_names.parse(arguments)


def open_source(
  arguments: str,
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
) -> "DatasetsSource":
  """Opens a dataset; see `vit_jax.data.sources.open_source`.

  Raises:
    UserError: The library is not installed; the dataset, a split or a column is
      missing or unsuitable; or more than `max_bad_examples` records have no
      image, no label or, if captions are read, no caption.
  """
  dataset_names.require_library()
  # Imported late, as is the library, because they need Arrow.
  from vit_jax.data.huggingface import (
    arrow_files,
    dataset_files,
    dataset_labels,
  )

  name = f"datasets:{arguments}"
  dataset = dataset_files.open_dataset(
    arguments, data_dir=data_dir, shuffle_block=shuffle_block
  )
  whole = dataset_columns.find(
    dataset.features,
    dataset=name,
    image_key=image_key,
    label_key=dataset_columns.LABEL if images_alone else label_key,
    text_key=None if images_alone else text_key,
    numbers=numbers,
  )
  if images_alone:
    whole = dataset_columns.Columns(whole.image)
  is_text_wanted = captions or text_key is not None
  columns = dataclasses.replace(
    whole, text=whole.text if is_text_wanted else None
  )
  looked_at = {} if images_alone else dataset.features
  _say(dataset_columns.shown(columns, looked_at, name))
  with arrow_files.errors(name, dataset.directory):
    tables = {s: opened(columns.names) for s, opened in dataset.splits.items()}
    pieces = splits.resolve(
      split, {s: [t.num_rows] for s, t in tables.items()}, dataset=name
    )
    found = dataset_labels.read(tables, columns, dataset=name)
    used = {piece.name: tables[piece.name] for piece in pieces}
    # The fingerprint is the same with and without captions.
    digest = hashlib.sha256(repr((whole, sorted(used))).encode())
    problems: dict[int, str] = {}
    first = 0
    for piece in pieces:
      table = used[piece.name]
      for position, reason in _lacking(table, columns).items():
        if piece.start <= position < piece.stop:
          problems[first + position - piece.start] = reason
      first += piece.stop - piece.start
    for table_name, table in sorted(used.items()):
      content = table.digest(whole.names)
      digest.update(f"{table_name}:{table.num_rows}:{content}".encode())
  labels = None
  features: dict[str, sources.Feature] = {"image": sources.Image()}
  if found is not None:
    parts = [found.values[p.name][p.start : p.stop] for p in pieces]
    labels = np.concatenate(parts)
    lacking = [found.may_lack and bool((part == -1).all()) for part in parts]
    reasons = found.problems(labels)
    # Test splits may be published without labels; then 'all' has none.
    if all(lacking) or (split == _ALL and any(lacking)):
      labels = None
    else:
      features["label"] = found.feature
      problems |= reasons
      digest.update(labels.tobytes())
  if columns.text:
    features["text"] = sources.Text()
  count = splits.count(pieces)
  source = DatasetsSource(
    num_examples=count,
    features=features,
    fingerprint=f"datasets:{split}:{count}:{digest.hexdigest()[:16]}",
    dataset=name,
    columns=columns,
    tables=used,
    pieces=tuple(pieces),
    labels=labels,
    problems=problems,
    roots=tuple(dataset.roots),
  )
  if len(problems) > max_bad_examples:
    named = list(map(source.problem, problems))
    raise substitutes.found_unusable(named, count)
  return source


def _lacking(table: "Table", columns: Columns) -> dict[int, str]:
  """Positions of incomplete records, and what is missing from each."""
  found = table.without_text(columns.text) if columns.text else {}
  images = table.without_image(columns.image).tolist()
  return found | dict.fromkeys(images, "no image")


@functools.cache
def _say(line: str) -> None:
  """Logs a line once, as evaluators read the same columns as training."""
  _logger.info("%s", line)


@dataclasses.dataclass(frozen=True)
class DatasetsSource(sources.Source):
  """Records of a Hugging Face dataset; see `sources.Source`."""

  num_examples: int
  features: Mapping[str, sources.Feature]
  fingerprint: str
  dataset: str
  columns: Columns
  tables: Mapping[str, "Table"]
  pieces: Sequence[splits.Piece]
  labels: np.ndarray | None
  problems: Mapping[int, str]
  roots: Sequence[str]

  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    ids = np.asarray(ids)
    if self.problems:
      for number in ids.tolist():
        if number in self.problems:
          raise UserError(f"{self.problem(number)}.")
    images, texts = np.empty(len(ids), object), np.empty(len(ids), object)
    for row, chunk, place in self._located(ids):
      content, path = chunk.image(self.columns.image, place)
      if content is None:
        content = self._file(int(ids[row]), path)
      images[row] = content
      if self.columns.text:
        texts[row] = self._texts(int(ids[row]), chunk, place)
    result = {"image": images}
    if self.columns.text:
      result["text"] = texts
    if self.labels is not None:
      result["label"] = self.labels[ids]
    return result

  def images_alone(self, ids: np.ndarray) -> np.ndarray:
    columns = dataclasses.replace(self.columns, text=None)
    alone = dataclasses.replace(self, columns=columns, problems={})
    return alone.read(ids)["image"]

  def captions(self, ids: np.ndarray) -> np.ndarray:
    texts = np.empty(len(ids), object)
    for row, chunk, place in self._located(np.asarray(ids)):
      texts[row] = self._texts(int(ids[row]), chunk, place)
    return texts

  def names(self, ids: np.ndarray) -> list[str]:
    which, positions = splits.locate(self.pieces, np.asarray(ids))
    return [
      f"record {position} of {self.dataset} {self.pieces[piece].name}"
      for piece, position in zip(which, positions, strict=True)
    ]

  def file_names(self, ids: np.ndarray) -> list[str]:
    found = []
    for row, chunk, place in self._located(np.asarray(ids)):
      _, path = chunk.image(self.columns.image, place)
      if not path:
        (name,) = self.names(ids[row : row + 1])
        raise UserError(
          f"{name} has no name of a file, by which images could be told apart."
        )
      found.append(posixpath.basename(path))
    return found

  def known_labels(self) -> np.ndarray | None:
    if self.labels is None or self.num_classes is None:
      return self.labels
    # Records with numbers beyond the classes are among the problems.
    return np.where(self.labels < self.num_classes, self.labels, -1)

  def problem(self, number: int) -> str:
    """Describes the problem with an unusable record."""
    (name,) = self.names(np.array([number]))
    return f"{name} ({self.problems[number]})"

  def _located(self, ids: np.ndarray):
    """Yields (row, chunk, place) of each record."""
    which, positions = splits.locate(self.pieces, ids)
    for piece in np.unique(which):
      rows = np.flatnonzero(which == piece)
      table = self.tables[self.pieces[piece].name]
      found = table.located(positions[rows])
      for row, (chunk, place) in zip(rows.tolist(), found, strict=True):
        yield row, chunk, place

  def _file(self, number: int, path: str | None) -> bytes:
    """Reads an image that a record only names."""
    (name,) = self.names(np.array([number]))
    if not path:
      raise UserError(f"{name} has no image.")
    path = os.path.join(*self.roots[:1], path)
    real = os.path.realpath(path)
    roots = map(os.path.realpath, self.roots)
    if not any(folder_listing.is_inside(real, root) for root in roots):
      raise UserError(
        f"{name} names the file {path}, which is not one of the dataset's."
      )
    try:
      return outages.outlast(path, pathlib.Path(real).read_bytes)
    except OSError as error:
      raise UserError(
        f"{name}: {path} cannot be read ({error.strerror or error})."
      ) from None

  def _texts(self, number: int, chunk, place: int) -> tuple[str, ...]:
    kept, problem = caption_lists.usable(chunk.cell(self.columns.text, place))
    if not kept:
      (name,) = self.names(np.array([number]))
      raise UserError(
        f"{name} has no caption that can be used in {self.columns.text!r}"
        f" ({problem})."
      )
    return kept
