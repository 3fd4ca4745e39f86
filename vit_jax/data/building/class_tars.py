"""The input DIR/CLASS.tar, one tar file a class, as ImageNet-21k comes.

The headers of all files are read once; an image is then read from its place in
the tar. Nothing is unpacked, so names in a tar lead nowhere.
"""

import dataclasses
import hashlib
import os
import posixpath
import tarfile
from collections.abc import Sequence

import numpy as np

from vit_jax.data import folder
from vit_jax.data.building import class_names
from vit_jax.data.building.contract import Example, Inputs, UnusableImage
from vit_jax.data.building.image_file import is_inside
from vit_jax.data.building.workers import Workers, advance
from vit_jax.errors import UserError

_MAX_NAMED = 10
_CHUNK = 1 << 20


@dataclasses.dataclass(frozen=True)
class Contents:
  """The images in one tar file, in its order.

  Attributes:
    names: of the files, without folders.
    offsets: int64 [n], where their bytes begin; -1 for what is called like an
      image and is no file.
    sizes: int64 [n], their bytes.
    ignored: number of other files.
  """

  names: Sequence[str]
  offsets: np.ndarray
  sizes: np.ndarray
  ignored: int


@dataclasses.dataclass(frozen=True)
class Member:
  """An image in a tar file; see `contract.Place`."""

  path: str
  offset: int
  size: int
  name: str
  label: int

  def read(self) -> Example:
    """See `contract.Place.read`."""
    if self.offset < 0:
      raise UnusableImage(self.name, f"is no plain file in {self.path}")
    try:
      with open(self.path, "rb", buffering=0) as file:
        image = os.pread(file.fileno(), self.size, self.offset)
    except OSError as error:
      raise UnusableImage(self.name, f"{self.path}: {error.strerror}") from None
    if len(image) < self.size:
      raise UnusableImage(self.name, f"{self.path} has become shorter")
    return Example(self.name, image, (self.label,))


class TarPlaces:
  """The images of one split; see `contract.Places`."""

  def __init__(
    self,
    paths: Sequence[str],
    contents: Sequence[Contents],
    labels: Sequence[int],
  ):
    self._paths, self._contents, self._labels = paths, contents, labels
    self._ends = np.cumsum([len(c.names) for c in contents])

  def __len__(self) -> int:
    return int(self._ends[-1])

  def places(self, ids: np.ndarray) -> list[Member]:
    """See `contract.Places.places`."""
    which = np.searchsorted(self._ends, ids, side="right")
    starts = np.concatenate([[0], self._ends[:-1]])
    members = []
    for tar, row in zip(which, ids - starts[which], strict=True):
      contents, path = self._contents[tar], self._paths[tar]
      members.append(
        Member(
          path=path,
          offset=int(contents.offsets[row]),
          size=int(contents.sizes[row]),
          name=f"{class_of(path)}/{contents.names[row]}",
          label=self._labels[tar],
        )
      )
    return members


def read(
  splits: dict[str, list[str]],
  root: str,
  names: Sequence[str] | None,
  workers: Workers,
) -> Inputs:
  """Reads the headers of all tar files, in parallel.

  Args:
    splits: name -> paths of its tar files, sorted.
    root: the directory that they are in.
    names: of all classes, in the order of their labels; None: sorted.
    workers: that share the work.

  Raises:
    UserError: naming tar files that lead elsewhere, cannot be read or have no
      image; a class is not among `names`.
  """
  real_root = os.path.realpath(root)
  paths = [path for found in splits.values() for path in found]
  for path in paths:
    if not is_inside(os.path.realpath(path), real_root):
      raise UserError(
        f"{path} is a link to {os.path.realpath(path)}, which is outside of"
        f" {root}. Copy what it leads to, or name a folder that holds both."
      )
  contents: dict[str, Contents] = {}
  problems = []
  for path, found in workers.run(_contents, paths, "tar files", len(paths)):
    if isinstance(found, str):
      problems.append(found)
    else:
      contents[path] = found
  if problems:
    lines = sorted(problems)[:_MAX_NAMED]
    if len(problems) > len(lines):
      lines.append(f"And {len(problems) - len(lines)} more.")
    raise UserError("\n".join(lines))
  ordered = class_names.order({class_of(path) for path in paths}, names, root)
  labels = {name: label for label, name in enumerate(ordered)}
  listing = hashlib.sha256()
  for split, found in sorted(splits.items()):
    for path in found:
      listing.update(os.fsencode(f"{split}/{class_of(path)}") + b"\0")
      listing.update("\0".join(contents[path].names).encode(**_AS_BYTES))
      listing.update(contents[path].offsets.tobytes())
      listing.update(contents[path].sizes.tobytes())
  return Inputs(
    splits={
      split: TarPlaces(
        found,
        [contents[path] for path in found],
        [labels[class_of(path)] for path in found],
      )
      for split, found in splits.items()
    },
    class_names=ordered,
    num_classes=len(ordered),
    max_labels=1,
    identity=listing.hexdigest(),
    num_ignored=sum(c.ignored for c in contents.values()),
  )


def class_of(path: str) -> str:
  """The class whose images a tar file holds."""
  return os.path.basename(path).removesuffix(".tar")


_AS_BYTES = {"encoding": "utf-8", "errors": "surrogateescape"}


def _contents(path: str) -> tuple[str, Contents | str]:
  """The path and its images, or a sentence on what is wrong with it."""
  advance(1)
  try:
    return path, _read_headers(path)
  except tarfile.TarError as error:
    return path, (
      f"{path} cannot be read ({error}); tar files must be whole and not"
      " compressed."
    )
  except OSError as error:
    return path, f"{path} cannot be read ({error.strerror or error})."
  except UserError as error:
    return path, str(error)


def _read_headers(path: str) -> Contents:
  names, offsets, sizes = [], [], []
  ignored = 0
  with tarfile.open(path, "r:") as tar:
    for member in tar:
      tar.members = []  # It would keep them all.
      name = posixpath.basename(member.name)
      if member.isdir():
        continue
      if not folder.is_image(name):
        ignored += 1
        if name.endswith(".tar"):
          raise UserError(
            f"{path} holds tar files ({name}); unpack it, and name the folder"
            " that they are then in."
          )
        continue
      is_plain = member.isreg() and not member.issparse()
      names.append(name)
      offsets.append(member.offset_data if is_plain else -1)
      sizes.append(member.size)
    _raise_if_cut_off(path, tar.offset)
  if not names:
    raise UserError(
      f"{path} has no image ({', '.join(folder.SUFFIXES)}); remove it, or name"
      " another folder."
    )
  return Contents(
    names, np.array(offsets, np.int64), np.array(sizes, np.int64), ignored
  )


def _raise_if_cut_off(path: str, end: int) -> None:
  """Raises UserError unless nothing but zeros follow the last member.

  A tar that was cut off between two members has no zeros, one that others were
  appended to has more than zeros; tarfile takes both for whole.
  """
  with open(path, "rb") as file:
    file.seek(end)
    rest = file.read(_CHUNK)
    if not rest:
      raise UserError(f"{path} is cut off: it has no end; copy it again.")
    while rest:
      if rest.count(0) < len(rest):
        raise UserError(
          f"{path} goes on after its end, at byte {end}; make one tar file of"
          " the several that it holds."
        )
      rest = file.read(_CHUNK)
