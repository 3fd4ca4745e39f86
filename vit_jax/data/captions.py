"""Folders of images with a list of their captions.

Each split is a folder DIR/{train,val,validation,test} containing a list,
captions.csv, captions.jsonl or another of these types, or DIR has a list for
each split, such as train.jsonl. A DIR with one list of another name is the
split `train`. Paths of images are relative to the folder of the list. Rows that
name the same image are one example with several captions; examples are in the
order of the list. `vit_jax.data.caption_lists` reads the lists.
"""

import dataclasses
import hashlib
import logging
import os
import posixpath
import re
from collections.abc import Mapping, Sequence

import numpy as np
from etils import epath

from vit_jax import buckets, truncate
from vit_jax.data import (
  caption_lists,
  folder,
  folder_listing,
  sources,
  splits,
  stored_images,
  substitutes,
)
from vit_jax.errors import UserError

_PREFERRED = ("captions", "metadata")

_logger = logging.getLogger(__name__)


def open_source(
  arguments: str,
  split: str,
  *,
  data_dir: str | None,
  max_bad_examples: int = 0,
  **unused: object,
) -> "CaptionSource":
  """Opens a folder of captions; see `vit_jax.data.sources.open_source`.

  The first bytes of every image are checked, unless there are more than 100,000
  images or they are in a bucket.

  Raises:
    UserError: There is no list, or more than `max_bad_examples` of its rows,
      named in the message, cannot be used or name a file that is not an image.
  """
  if data_dir is None:
    raise UserError(
      "config.data_dir is not set; give the folder that holds captions.csv or"
      " train/, as --config.data_dir=DIR."
    )
  root = os.fspath(buckets.absolute(epath.Path(data_dir).expanduser()))
  found = {
    name: _read(path, root) for name, path in _needed(root, split).items()
  }
  pieces = splits.resolve(
    split,
    {name: [len(examples)] for name, examples in found.items()},
    dataset=f"folder of captions {root}",
  )
  examples = [
    example
    for piece in pieces
    for example in found[piece.name][piece.start : piece.stop]
  ]
  problems = [text for example in examples for text in example.problems]
  if len(examples) <= folder.MAX_FILES_CHECKED and not buckets.is_bucket(root):
    problems += _files_that_are_no_images(examples, root)
  if len(problems) > max_bad_examples:
    raise substitutes.found_unusable(problems, len(examples))
  if problems:
    _logger.warning(
      "%s: %d rows or images cannot be used: %s.",
      root,
      len(problems),
      truncate.first(problems, separator="; "),
    )
  return CaptionSource(
    examples=examples,
    features={"image": sources.Image(), "text": sources.Text()},
    fingerprint=f"captions:{split}:{len(examples)}:{_digest(examples, root)}",
  )


@dataclasses.dataclass(frozen=True, slots=True)
class _Example:
  """An image and its captions, or a row that cannot be used.

  Attributes:
    name: Path of the image; for a row without an image, the list and line.
    captions: Captions of the image; if there are none, the example cannot be
      used.
    problems: Sentences about unusable rows of this example.
  """

  name: str
  captions: tuple[str, ...]
  problems: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class CaptionSource(sources.Source):
  """A split of a folder of captions; see `sources.Source`."""

  examples: Sequence[_Example]
  features: Mapping[str, sources.Feature]
  fingerprint: str

  @property
  def num_examples(self) -> int:
    return len(self.examples)

  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    text = self.captions(ids)
    return {"image": self.images_alone(ids), "text": text}

  def images_alone(self, ids: np.ndarray) -> np.ndarray:
    return stored_images.read_all(self.names(ids))

  def read_or_locate(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    text = self.captions(ids)
    images = stored_images.read_or_locate_all(self.names(ids))
    return {**images, "text": text}

  def captions(self, ids: np.ndarray) -> np.ndarray:
    text = np.empty(len(ids), object)
    for row, number in enumerate(ids):
      example = self.examples[number]
      if not example.captions:
        raise UserError(f"{example.problems[0]}.")
      text[row] = example.captions
    return text

  def names(self, ids: np.ndarray) -> list[str]:
    return [self.examples[i].name for i in ids]

  def file_names(self, ids: np.ndarray) -> list[str]:
    return [posixpath.basename(name) for name in self.names(ids)]


def find_lists(root: str) -> dict[str, str]:
  """Maps splits to the paths of their lists.

  Raises:
    UserError: There are none, or several for the same split.
  """
  inside = folder_listing.entries(root, root)
  files = sorted(name for name, is_dir in inside if not is_dir)
  folders = {name for name, is_dir in inside if is_dir}
  found = {}
  for split in folder_listing.SPLITS:
    named = [file for file in files if _stem(file) == split]
    path = _the_list(root, named)
    if path is None and split in folders:
      directory = f"{root}/{split}"
      entries = folder_listing.entries(directory, root)
      path = _the_list(directory, [f for f, is_dir in entries if not is_dir])
    if path is not None:
      found[split] = path
  if not found and (path := _the_list(root, files)):
    found["train"] = path
  if not found:
    raise UserError(
      f"{root} has no list of captions; they are looked for as captions.csv or"
      " captions.jsonl there, in train/, val/ and test/, or as train.jsonl,"
      " val.jsonl and test.jsonl."
    )
  return found


def _the_list(directory: str, files: Sequence[str]) -> str | None:
  """The path of the only list among files, or of the preferred one."""
  lists = sorted(f for f in files if f.endswith(caption_lists.SUFFIXES))
  for stem in _PREFERRED:
    preferred = [file for file in lists if _stem(file) == stem]
    lists = preferred or lists
  if len(lists) > 1:
    raise UserError(
      f"{directory} has several lists of captions:"
      f" {truncate.first(lists)}. Leave one, or call it captions.csv."
    )
  return f"{directory}/{lists[0]}" if lists else None


def _stem(file: str) -> str:
  return os.path.splitext(file)[0]


def _needed(root: str, split: str) -> dict[str, str]:
  """The lists of the splits named by a split string, or all lists."""
  found = find_lists(root)
  words = set(re.findall(r"\w+", split))
  return {name: found[name] for name in found if name in words} or found


def _read(path: str, root: str) -> list[_Example]:
  """Reads a list; rows that name the same image are one example."""
  directory = posixpath.dirname(path)
  captions: dict[str, list[str]] = {}
  problems: dict[str, list[str]] = {}
  for row in caption_lists.read(path):
    here, problem = f"{path}, line {row.line}", row.problem
    name = here
    if row.image is not None:
      name = posixpath.normpath(posixpath.join(directory, row.image))
      if buckets.is_bucket(directory):
        name = f"{directory}/{posixpath.normpath(row.image)}"
      if not name.startswith(f"{root.rstrip('/')}/") or "/../" in name:
        name, problem = here, f"{row.image} is outside of {root}"
    if problem:
      problems.setdefault(name, []).append(f"{here} ({problem})")
    captions.setdefault(name, []).extend(() if name == here else row.captions)
  return [
    _Example(name, tuple(texts), tuple(problems.get(name, ())))
    for name, texts in captions.items()
  ]


def _files_that_are_no_images(
  examples: Sequence[_Example], root: str
) -> list[str]:
  """Finds images that are missing or are other files.

  Raises:
    UserError: A link points outside the root.
  """
  found = []
  for example in examples:
    if not example.captions:
      continue
    folder_listing.check_inside(example.name, root)
    if not stored_images.begins_like_one(example.name):
      problem = "no image" if os.path.exists(example.name) else "missing"
      hints = filter(None, [stored_images.backslash_hint(example.name)])
      found.append(f"{example.name} ({'; '.join((problem, *hints))})")
  return found


def _digest(examples: Sequence[_Example], root: str) -> str:
  """Returns a hash of the captions and of the paths relative to the root."""
  content = hashlib.sha256()
  for example in examples:
    name = example.name.removeprefix(root)
    content.update(repr((name, example.captions)).encode())
  return content.hexdigest()[:16]
