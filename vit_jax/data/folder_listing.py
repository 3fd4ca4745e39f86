"""Lists the images of a folder, DIR/{train,val,test}/class/*.{jpg,png,...}.

`valid` and `validation` are also names of splits, and a folder without splits,
DIR/class/*, is one split, `train`. Suffixes are those of `image_formats`.
Without classes, images are searched for in and below each split's folder, or in
and below DIR.
"""

import collections
import dataclasses
import functools
import hashlib
import logging
import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from etils import epath

from vit_jax import buckets, printable, truncate
from vit_jax.data import image_formats
from vit_jax.data.image_formats import is_image
from vit_jax.errors import UserError

SPLITS = ("train", "val", "valid", "validation", "test")
LINKS = "links=anywhere"
UNLABELLED = "labels=none"
TO_LEARN_WITHOUT_LABELS = (
  f"To learn without labels, name the dataset 'folder:{UNLABELLED}', which"
  " takes the images of all folders."
)
# Key that counts folders inside those of classes as ignored.
_FOLDER = "folder"
_logger = logging.getLogger(__name__)


class Options(NamedTuple):
  """Arguments of the dataset's name.

  Attributes:
    follow_links: True for 'links=anywhere': follow links that lead out of the
      folder.
    unlabelled: True for 'labels=none': read images anywhere in the folder.
  """

  follow_links: bool = False
  unlabelled: bool = False


PLAIN = Options()


@dataclasses.dataclass(frozen=True)
class Listing:
  """The images of a folder.

  Attributes:
    root: Path of the folder.
    files: From splits to (class, file) pairs in the order of the records;
      without classes, ("", path relative to the folder of the split).
    is_flat: True if the class folders, or the images, are in the folder itself.
  """

  root: str
  files: Mapping[str, Sequence[tuple[str, str]]]
  is_flat: bool

  def path(self, split: str, name: str, file: str) -> str:
    """Returns the path of an image of the class `name`."""
    parts = (name, file) if self.is_flat else (split, name, file)
    return "/".join((self.root, *filter(None, parts)))


def find_images(root: str, options: Options = PLAIN) -> Listing:
  """Lists the images of a folder without opening files.

  Raises:
    UserError: There are no images, classes without images, or links that lead
      out of the folder and must not be followed.
  """
  listed = functools.partial(
    entries, root=root, follow_links=options.follow_links
  )
  found: dict[str, list[tuple[str, str]]] = {}
  empty: set[str] = set()
  ignored: collections.Counter[str] = collections.Counter()
  folders = sorted(name for name, is_dir in listed(root) if is_dir)
  is_flat = not any(split in folders for split in SPLITS)
  misnamed = _misnamed(folders)
  for split in ("train",) if is_flat else filter(SPLITS.__contains__, folders):
    directory = root if is_flat else f"{root}/{split}"
    if options.unlabelled:
      found[split] = [("", path) for path in _below(directory, listed, ignored)]
    else:
      found[split] = list(_of_classes(directory, listed, empty, ignored))
  if not any(found.values()):
    reason = _no_images(root, options, folders, ignored)
    raise UserError(" ".join(filter(None, (reason, misnamed))))
  if misnamed:
    _warn(f"{root}: {misnamed}")
  if ignored:
    counts = ", ".join(
      f"{n} {kind}" + "s" * (kind == _FOLDER and n > 1)
      for kind, n in ignored.most_common()
    )
    _warn(
      f"{root}: ignored what is not an image that can be read: {counts}."
      f"{_remedies(ignored)}"
    )
  if is_flat:
    # A folder next to those of the classes may contain anything.
    empty.clear()
    parts = "images are" if options.unlabelled else "folders are the classes of"
    _warn(
      f"{root} has no train/, val/ or test/: its {parts} one split, 'train', of"
      " which 'train[:80%]' is a part."
    )
  empty -= {name for pairs in found.values() for name, _ in pairs}
  if empty:
    raise UserError(
      f"The image folder {root} has classes without any image:"
      f" {truncate.first(sorted(empty))}. Add images or remove their"
      f" folders.{_remedies(ignored)}"
    )
  for pairs in found.values():
    pairs.sort(key=_shuffled)
  files = {split: pairs for split, pairs in found.items() if pairs}
  return Listing(root, files, is_flat)


def class_names(listing: Listing) -> tuple[str, ...]:
  """Sorts the names of the classes of all splits.

  Warns about classes whose names differ only in capital letters, and about
  those that are not in 'train' but in another split.

  Raises:
    UserError: There is only one class, or a name is not UTF-8.
  """
  root = listing.root
  by_split = {
    split: {name for name, _ in pairs} for split, pairs in listing.files.items()
  }
  names = tuple(sorted(set().union(*by_split.values())))
  for name in names:
    if name != printable.in_utf8(name):
      raise UserError(
        f"{root}: the name of the class folder {printable.in_utf8(name)} is not"
        " in UTF-8, in which names of classes are written; rename it."
      )
  if len(names) == 1:
    raise UserError(
      f"The image folder {root} has one class, {names[0]!r}; a classifier"
      f" needs two or more class folders. {TO_LEARN_WITHOUT_LABELS}"
    )
  spellings = collections.defaultdict(list)
  for name in names:
    spellings[name.lower()].append(name)
  for same in spellings.values():
    if len(same) > 1:
      _warn(
        f"{root}: {' and '.join(same)} are different classes, although their"
        " names differ only in capital letters; if they are one, move the"
        f" images of {same[0]} to {same[-1]}."
      )
  for split, present in by_split.items():
    unseen = sorted(present - by_split.get("train", present))
    if unseen:
      _warn(
        f"{root}: {split} has classes that train lacks, so they cannot be"
        f" learned: {truncate.first(unseen)}."
      )
  return names


def _misnamed(folders: Sequence[str]) -> str:
  """A sentence about folders named like splits in other letters, if any."""
  found = [x for x in folders if x not in SPLITS and x.lower() in SPLITS]
  if not found:
    return ""
  remedies = (
    f"{'move the images of' if name.lower() in folders else 'rename'} {name} to"
    f" {name.lower()}"
    for name in found
  )
  return f"Names of splits are in lower case: {', '.join(remedies)}."


def _no_images(
  root: str,
  options: Options,
  folders: Sequence[str],
  ignored: Iterable[str],
) -> str:
  """The message for a folder without images."""
  pattern = image_formats.PATTERN
  where = f"in it and in all folders below, as {pattern}"
  advice = ""
  if not options.unlabelled:
    where = (
      f"as train/CLASS/{pattern}, and the same in val/ and test/, or as"
      f" CLASS/{pattern}"
    )
    if any(is_image(f"1{kind}") or kind == _FOLDER for kind in ignored):
      advice = f" {TO_LEARN_WITHOUT_LABELS}"
  there = ", ".join(folders[:5]) + ", ..." * (len(folders) > 5) or "none"
  return (
    f"The image folder {root} has no images; they are looked for {where}."
    f" Folders found there: {there}.{_remedies(ignored)}{advice}"
  )


def _of_classes(
  directory: str,
  listed: Callable[[str], list[tuple[str, bool]]],
  empty: set[str],
  ignored: collections.Counter[str],
) -> Iterator[tuple[str, str]]:
  """Yields (class, file) for the images in the folders of a directory.

  Args:
    directory: Folder of a split.
    listed: Function that lists (name, is a folder) for a directory.
    empty: Set to which classes without images are added.
    ignored: Counter of other files, by kind.
  """
  for name, is_dir in sorted(listed(directory)):
    if name.startswith("."):
      continue
    if not is_dir:
      ignored[_kind(name)] += 1
      continue
    images = []
    for file, is_dir in listed(f"{directory}/{name}"):
      if is_image(file) and not is_dir:
        images.append(file)
      elif not file.startswith("."):
        ignored[_FOLDER if is_dir else _kind(file)] += 1
    yield from ((name, file) for file in images)
    if not images:
      empty.add(name)


def _below(
  directory: str,
  listed: Callable[[str], list[tuple[str, bool]]],
  ignored: collections.Counter[str],
) -> Iterator[str]:
  """Yields the images in and below a directory, as paths relative to it.

  A directory with several links to it is read once. Arguments are those of
  `_of_classes`.
  """
  waiting, seen = [""], set()
  while waiting:
    inner = waiting.pop()
    place = posixpath.join(directory, inner) if inner else directory
    real = place if buckets.is_bucket(place) else os.path.realpath(place)
    if real in seen:
      continue
    seen.add(real)
    for name, is_dir in sorted(listed(place)):
      if name.startswith("."):
        continue
      if is_dir:
        waiting.append(posixpath.join(inner, name))
      elif is_image(name):
        yield posixpath.join(inner, name)
      else:
        ignored[_kind(name)] += 1


@functools.cache
def _warn(message: str) -> None:
  """Logs a warning once, for any number of opened splits."""
  _logger.warning("%s", message)


def _kind(name: str) -> str:
  """The suffix of a file, by which ignored files are counted."""
  return posixpath.splitext(name)[1].lower() or "without a suffix"


def _remedies(ignored: Iterable[str]) -> str:
  """Sentences about making ignored files readable."""
  found = {kind: image_formats.remedy(kind) for kind in sorted(ignored)}
  folders = (
    " Folders inside those of classes are not read; move their images up."
  ) * (_FOLDER in found)
  return folders + "".join(
    f" {kind} is {text}." for kind, text in found.items() if text
  )


def entries(
  directory: str, root: str, *, follow_links: bool = False
) -> list[tuple[str, bool]]:
  """Lists (name, is a folder) for all files and folders in a directory.

  Raises:
    UserError: It cannot be listed, or a link leads out of `root` and must not
      be followed.
  """
  found = []
  try:
    if buckets.is_bucket(directory):
      with buckets.as_os_error(directory):
        return [(p.name, p.is_dir()) for p in epath.Path(directory).iterdir()]
    # Unlike pathlib, scandir gets the kinds from the listing itself.
    with os.scandir(directory) as entries:
      for entry in entries:
        if entry.is_symlink():
          if not follow_links:
            check_inside(entry.path, root)
        elif not entry.is_dir() and not entry.is_file():
          continue  # Reading from a pipe or a device would never end.
        found.append((entry.name, entry.is_dir()))
  except OSError as error:
    what, remedy = f"{directory} cannot", "fix that, or remove it"
    if directory == root:
      what = f"The image folder {root} cannot"
      remedy = "give the one that holds train/"
    raise UserError(
      f"{what} be listed ({error.strerror or error}); {remedy}."
    ) from None
  return found


def check_inside(path: str, root: str) -> None:
  """Raises UserError if `path`, possibly a link, leads out of `root`."""
  target = os.path.realpath(path)
  if not is_inside(target, os.path.realpath(root)):
    raise UserError(
      f"{path} is a link to {target}, which is outside of {root}. Copy what it"
      " leads to, or name a folder that holds both; an image folder's are"
      f" followed with config.train.dataset='folder:{LINKS}'."
    )


def is_inside(real: str, root: str) -> bool:
  """Tells whether a real path is inside a directory's real path."""
  return os.path.commonpath([real, root]) == root


def _shuffled(pair: tuple[str, str]) -> bytes:
  """Returns a sort key that is independent of the class."""
  return hashlib.blake2b(os.fsencode("/".join(pair)), digest_size=16).digest()
