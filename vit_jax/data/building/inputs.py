"""Which form of input a path is of, by what is there."""

import os
import re
from collections.abc import Sequence
from typing import Any

from vit_jax.data.building import class_names as names_file
from vit_jax.data.building import class_tars, image_folder, json_lines
from vit_jax.data.building.contract import Inputs
from vit_jax.data.building.workers import Workers
from vit_jax.errors import UserError

_FORMS = (
  "a folder of train/CLASS/ with images, a folder of CLASS.tar, or a .jsonl"
  " file"
)
_DEFAULT_SPLIT = "train"
_UNNAMED = ""  # The split of files that do not say one.
_SPLIT = re.compile(r"[A-Za-z]\w*")


def read(
  path: str,
  *,
  split: str | None,
  image_root: str | None,
  class_names: str | None,
  workers: Workers,
) -> Inputs:
  """Lists what is at `path`.

  Args:
    path: an image folder; a folder of tar files, or of folders of them that
      are the splits; a file of JSON lines, or a folder of several, each a
      split.
    split: what to call the split of files that do not say; None: 'train'.
    image_root: directory that the paths of JSON lines start from and stay in.
    class_names: file of the names of all classes, in the order of the labels.
    workers: that share the work.

  Raises:
    UserError: saying what cannot be used.
  """
  if "://" in path:
    raise UserError(
      f"--from={path} is in a bucket; mount it (gcsfuse) or copy it, and name"
      " that place."
    )
  if not os.path.exists(path):
    raise UserError(f"--from={path} does not exist.")
  path = path.rstrip("/") or "/"
  names = names_file.read(class_names) if class_names else None
  lines, tars = _json_lines(path), _tars(path)
  if lines and tars:
    raise UserError(
      f"--from={path} has tar files and JSON lines; name a folder of either."
    )
  if image_root and not lines:
    raise UserError(f"--image_root: --from={path} has no JSON lines.")
  if lines:
    return json_lines.read(_with_split(lines, split, path), image_root, names)
  if tars:
    return class_tars.read(_with_split(tars, split, path), path, names, workers)
  if not os.path.isdir(path):
    raise UserError(f"--from={path} is none of these: {_FORMS}.")
  if split:
    raise UserError(
      f"--split={split}: the splits of --from={path} are the folders in it."
    )
  return image_folder.read(path, names)


def _with_split(
  found: dict[str, Any], split: str | None, path: str
) -> dict[str, Any]:
  """`found` with a name for the split that has none.

  Raises:
    UserError: there is none such and a name was given, or TFDS takes no such
      name.
  """
  if split and _UNNAMED not in found:
    raise UserError(
      f"--split={split}: --from={path} has the splits"
      f" {', '.join(sorted(found))}; leave --split out."
    )
  found = {name or split or _DEFAULT_SPLIT: v for name, v in found.items()}
  for name in found:
    if not _SPLIT.fullmatch(name) or name == "all":
      raise UserError(
        f"{name!r} cannot be the name of a split; use letters, digits and"
        " underscores, as in 'train', and not 'all'."
      )
  return found


def _json_lines(path: str) -> dict[str, str]:
  """Split -> path of its JSON lines."""
  if os.path.isfile(path):
    return {_UNNAMED: path} if path.endswith(".jsonl") else {}
  return {
    name.removesuffix(".jsonl"): os.path.join(path, name)
    for name in _names(path)
    if name.endswith(".jsonl")
  }


def _tars(path: str) -> dict[str, list[str]]:
  """Split -> paths of its tar files, sorted.

  Raises:
    UserError: as `_tars_in`.
  """
  if not os.path.isdir(path):
    return {}
  if tars := _tars_in(path):
    return {_UNNAMED: tars}
  folders = [n for n in _names(path) if os.path.isdir(os.path.join(path, n))]
  found = {name: _tars_in(os.path.join(path, name)) for name in folders}
  return {name: tars for name, tars in found.items() if tars}


def _tars_in(directory: str) -> list[str]:
  """The tar files in a directory.

  Raises:
    UserError: it has folders too, which may be other splits or the same images
      unpacked.
  """
  paths = [os.path.join(directory, name) for name in _names(directory)]
  tars = [path for path in paths if path.endswith(".tar")]
  folders = [path for path in paths if os.path.isdir(path)]
  if tars and folders:
    raise UserError(
      f"{directory} has tar files ({tars[0]}) and folders ({folders[0]}); name"
      " a folder that has only the one or the other."
    )
  return tars


def _names(directory: str) -> Sequence[str]:
  """Sorted names of what is in a directory and not hidden."""
  try:
    names = os.listdir(directory)
  except OSError as error:
    raise UserError(
      f"{directory} cannot be listed ({error.strerror})."
    ) from None
  return sorted(name for name in names if not name.startswith("."))
