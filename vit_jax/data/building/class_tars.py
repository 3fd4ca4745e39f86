"""The input DIR/CLASS.tar, one tar file per class, as for ImageNet-21k.

The headers of all files are read once; images are then read from their
positions in the tar. Nothing is unpacked, so names in a tar cannot point
elsewhere. tarfile reads the headers; incomplete files that it accepts are
detected here.
"""

import dataclasses
import functools
import hashlib
import os
import posixpath
import tarfile
from collections.abc import Callable, Sequence

import numpy as np

from vit_jax import truncate
from vit_jax.data import folder_listing, image_formats, parallel
from vit_jax.data.building import class_names
from vit_jax.data.building.contract import Example, Inputs, Split
from vit_jax.errors import UserError

_MAX_NAMED = 10
_CHUNK = 1 << 20


@dataclasses.dataclass(frozen=True)
class _Tar:
  """A tar file and its images, in order.

  Attributes:
    names: Names of the images, without folders.
    offsets: int64 [n], positions of their bytes; -1 for an entry with the name
      of an image that is not a file.
    sizes: int64 [n], bytes.
    num_ignored: Number of other files.
    problem: Sentence about what is wrong with the tar file, if anything.
  """

  path: str
  names: Sequence[str] = ()
  offsets: np.ndarray | None = None
  sizes: np.ndarray | None = None
  num_ignored: int = 0
  problem: str | None = None


def read(
  splits: dict[str, list[str]],
  root: str,
  names: Sequence[str] | None,
  *,
  num_workers: int,
  show: Callable[[str, int, int], None],
) -> Inputs:
  """Reads the headers of all tar files, in parallel.

  Args:
    splits: From names to paths of the tar files, sorted.
    root: Directory that contains them.
    names: Names of all classes, in the order of their labels; None for those
      found, sorted.
    num_workers, show: As in `inputs.read`.

  Raises:
    UserError: Tar files, named in the message, point elsewhere, cannot be read
      or have no image; or a class is not among `names`.
  """
  real_root = os.path.realpath(root)
  paths = [path for found in splits.values() for path in found]
  for path in paths:
    folder_listing.check_inside(path, root)
  tars: dict[str, _Tar] = {}
  for tar in parallel.in_processes(
    _read_headers, paths, num_processes=num_workers, what="tar files"
  ):
    tars[tar.path] = tar
    show("tar files", len(tars), len(paths))
  problems = sorted(tar.problem for tar in tars.values() if tar.problem)
  if problems:
    raise UserError(truncate.first(problems, _MAX_NAMED, "\n"))
  ordered = class_names.order({_class_of(path) for path in paths}, names, root)
  labels = {name: label for label, name in enumerate(ordered)}
  listing = hashlib.sha256()
  for split, found in sorted(splits.items()):
    for path in found:
      tar = tars[path]
      listing.update(os.fsencode(f"{split}/{_class_of(path)}") + b"\0")
      listing.update("\0".join(tar.names).encode("utf-8", "surrogateescape"))
      listing.update(tar.offsets.tobytes() + tar.sizes.tobytes())
  return Inputs(
    splits={
      split: Split(
        sum(len(tars[path].names) for path in found),
        functools.partial(
          _examples, [tars[path] for path in found], labels, real_root
        ),
      )
      for split, found in splits.items()
    },
    class_names=ordered,
    num_classes=len(ordered),
    max_labels=1,
    identity=listing.hexdigest(),
    place=real_root,
    num_ignored=sum(tar.num_ignored for tar in tars.values()),
  )


def _examples(
  tars: Sequence[_Tar], labels: dict[str, int], root: str, ids: np.ndarray
) -> list[Example]:
  ends = np.cumsum([len(tar.names) for tar in tars])
  which = np.searchsorted(ends, ids, side="right")
  examples = []
  for number, i in zip(which, ids, strict=True):
    tar, row = tars[number], i - ends[number]  # Counted from the end.
    name = _class_of(tar.path)
    examples.append(
      Example(
        name=f"{name}/{tar.names[row]}",
        labels=(labels[name],),
        path=tar.path,
        root=root,
        offset=int(tar.offsets[row]),
        size=int(tar.sizes[row]),
      )
    )
  return examples


def _class_of(path: str) -> str:
  return os.path.basename(path).removesuffix(".tar")


def _read_headers(path: str) -> _Tar:
  names, offsets, sizes = [], [], []
  num_ignored = 0
  try:
    with tarfile.open(path, "r:") as tar:
      for member in tar:
        tar.members = []  # It would keep them all.
        name = posixpath.basename(member.name)
        if member.isdir():
          continue
        if image_formats.is_image(name):
          is_plain = member.isreg() and not member.issparse()
          names.append(name)
          offsets.append(member.offset_data if is_plain else -1)
          sizes.append(member.size)
        elif name.endswith(".tar"):
          problem = (
            f"holds tar files ({name}); unpack it, and name the folder that"
            " they are then in"
          )
          return _Tar(path, problem=f"{path} {problem}.")
        else:
          num_ignored += 1
      problem = _cut_off(path, tar.offset)
  except tarfile.TarError as error:
    problem = (
      f"cannot be read ({error}); tar files must be whole and not compressed"
    )
  except OSError as error:
    problem = f"cannot be read ({error.strerror or error})"
  else:
    if not names and not problem:
      suffixes = ", ".join(image_formats.SUFFIXES)
      problem = f"has no image ({suffixes}); remove it, or name another folder"
  return _Tar(
    path,
    names,
    np.array(offsets, np.int64),
    np.array(sizes, np.int64),
    num_ignored,
    problem and f"{path} {problem}.",
  )


def _cut_off(path: str, end: int) -> str | None:
  """Describes the problem unless only zeros follow the last member.

  A tar truncated between two members has no zeros, and one with others appended
  has more than zeros; tarfile accepts both as complete.
  """
  with open(path, "rb") as file:
    file.seek(end)
    rest = file.read(_CHUNK)
    if not rest:
      return "is cut off: it has no end; copy it again"
    while rest:
      if rest.count(0) < len(rest):
        return (
          f"continues after its end, at byte {end}; make one tar file of the"
          " several that it holds"
        )
      rest = file.read(_CHUNK)
  return None
