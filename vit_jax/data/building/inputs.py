"""Recognition of the form of an input by its content, and image folders."""

import hashlib
import os
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vit_jax.data import folder_listing
from vit_jax.data.building import class_names as names_file
from vit_jax.data.building import class_tars, json_lines, stored
from vit_jax.data.building.contract import Example, Inputs, Split
from vit_jax.errors import UserError

_DEFAULT_SPLIT = "train"
_UNNAMED = ""  # The split of files that name none.
_SPLIT = re.compile(r"[A-Za-z]\w*")


def read(
  path: str,
  *,
  split: str | None,
  image_root: str | None,
  class_names: str | None,
  image_key: str = "image",
  label_key: str = "label",
  unlabelled: bool = False,
  num_workers: int,
  show: Callable[[str, int, int], None],
) -> Inputs:
  """Lists the examples at `path`.

  Args:
    path: Image folder; folder of tar files, or of one such folder per split;
      file of JSON lines, or folder of one such file per split; or the name of a
      dataset, see `stored`.
    split: Name for the split of files that name none; None for 'train'.
    image_root: Directory that the paths of JSON lines are relative to and must
      stay in.
    class_names: File with the names of all classes, in the order of the labels.
    image_key, label_key: Columns of a dataset with named columns.
    unlabelled: True to take only images, at any depth of a folder, or from
      another dataset.
    num_workers: Number of processes.
    show: Called with a name of the things read, their number so far and the
      total.

  Raises:
    UserError: Something cannot be used; the message says what.
  """
  if unlabelled and (class_names or image_root or os.path.isfile(path)):
    raise UserError(
      f"--unlabelled: --from={path} must be a folder of images, or a dataset as"
      " webdataset:PATTERN or datasets:NAME, without --class_names and"
      " --image_root."
    )
  names = names_file.read(class_names) if class_names else None
  if stored.is_one(path):
    if image_root:
      raise UserError(f"--image_root: --from={path} has no JSON lines.")
    return stored.read(
      path,
      split,
      names,
      image_key=image_key,
      label_key=label_key,
      unlabelled=unlabelled,
    )
  if "://" in path:
    raise UserError(
      f"--from={path} is in a bucket; mount it (gcsfuse) or copy it, and name"
      " that place."
    )
  if not os.path.exists(path):
    raise UserError(f"--from={path} does not exist.")
  path = str(pathlib.Path(path))  # Without a trailing slash.
  lines, tars = {}, {}
  if not unlabelled:
    lines, tars = _json_lines(pathlib.Path(path)), _tars(pathlib.Path(path))
  if lines and tars:
    raise UserError(
      f"--from={path} has tar files and JSON lines; name a folder of either."
    )
  if image_root and not lines:
    raise UserError(f"--image_root: --from={path} has no JSON lines.")
  if lines:
    return json_lines.read(_with_split(lines, split, path), image_root, names)
  if tars:
    splits = _with_split(tars, split, path)
    return class_tars.read(
      splits, path, names, num_workers=num_workers, show=show
    )
  if not os.path.isdir(path):
    raise UserError(
      f"--from={path} is none of these: a folder of train/CLASS/ with images,"
      " a folder of CLASS.tar, or a .jsonl file."
    )
  if split:
    raise UserError(
      f"--split={split}: the splits of --from={path} are the folders in it."
    )
  return _image_folder(path, names, unlabelled)


def _image_folder(
  root: str, names: Sequence[str] | None, unlabelled: bool
) -> Inputs:
  """Lists an image folder without opening files; see `folder_listing`."""
  listing = folder_listing.find_images(
    root, folder_listing.Options(unlabelled=unlabelled)
  )
  files = listing.files
  labels: dict[str, tuple[int, ...]] = {"": ()}
  ordered: tuple[str, ...] = ()
  if not unlabelled:
    found = {name for pairs in files.values() for name, _ in pairs}
    ordered = names_file.order(found, names, root)
    labels = {name: (label,) for label, name in enumerate(ordered)}
  real_root = os.path.realpath(root)

  def split_of(split: str, pairs: Sequence[tuple[str, str]]) -> Split:
    def examples(ids: np.ndarray) -> list[Example]:
      return [
        Example(
          name="/".join(filter(None, (name, file))),
          labels=labels[name],
          path=listing.path(split, name, file),
          root=real_root,
        )
        for name, file in (pairs[i] for i in ids)
      ]

    return Split(len(pairs), examples)

  digest = hashlib.sha256()
  for split, pairs in sorted(files.items()):
    for pair in pairs:
      digest.update(os.fsencode("/".join((split, *pair))) + b"\0")
  return Inputs(
    splits={split: split_of(split, pairs) for split, pairs in files.items()},
    class_names=ordered or None,
    num_classes=len(ordered),
    max_labels=int(not unlabelled),
    identity=digest.hexdigest(),
    place=real_root,
  )


def _with_split(
  found: dict[str, Any], split: str | None, path: str
) -> dict[str, Any]:
  """Names the unnamed split, and checks all names."""
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


def _json_lines(path: pathlib.Path) -> dict[str, str]:
  """Maps splits to paths of their JSON lines."""
  if path.is_file():
    return {_UNNAMED: str(path)} if path.suffix == ".jsonl" else {}
  return {file.stem: str(file) for file in sorted(path.glob("[!.]*.jsonl"))}


def _tars(path: pathlib.Path) -> dict[str, list[str]]:
  """Maps splits to paths of their tar files, sorted."""
  if tars := _tars_in(path):
    return {_UNNAMED: tars}
  entries = sorted(path.glob("[!.]*"))
  return {p.name: tars for p in entries if (tars := _tars_in(p))}


def _tars_in(directory: pathlib.Path) -> list[str]:
  """Lists tar files; rejects folders next to them.

  These may be other splits, or the same images unpacked.
  """
  entries = sorted(directory.glob("[!.]*"))
  tars = [str(path) for path in entries if path.suffix == ".tar"]
  inner = next((path for path in entries if path.is_dir()), None)
  if tars and inner:
    raise UserError(
      f"{directory} has tar files ({tars[0]}) and folders ({inner}); name a"
      " folder that has only the one or the other."
    )
  return tars
