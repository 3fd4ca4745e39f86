"""Makes a TFDS dataset of a user's images."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from etils import epath

from vit_jax import truncate
from vit_jax.data.building import inputs
from vit_jax.data.building.contract import Inputs
from vit_jax.data.building.job import UNUSABLE_FILE, Job
from vit_jax.data.tfds import dataset_directory
from vit_jax.errors import UserError

DEFAULT_VERSION = "1.0.0"

# 230 MB of ImageNet's photographs, 5 MB of thumbnails.
_EXAMPLES_PER_SHARD = 2048
# Each shard is a file that stays open while it is read.
_MAX_SHARDS = 2048


@dataclasses.dataclass(frozen=True)
class Built:
  """A dataset that is ready.

  Attributes:
    name: Name with its version.
    directory: Directory of the dataset.
    splits: From the name of each split to its number of examples.
    max_labels, num_ignored: See `contract.Inputs`.
    num_unusable: Number of omitted images and of incomplete files.
    was_there: True if nothing had to be written.
  """

  name: dataset_directory.DatasetName
  directory: epath.Path
  splits: Mapping[str, int]
  max_labels: int
  num_unusable: int
  num_ignored: int
  was_there: bool


def build(
  dataset: str,
  data_dir: str | None,
  path: str,
  *,
  split: str | None = None,
  image_root: str | None = None,
  class_names: str | None = None,
  image_key: str = "image",
  label_key: str = "label",
  unlabelled: bool = False,
  num_shards: int | None = None,
  num_workers: int,
  skip_unusable: bool = False,
  show: Callable[[str, int, int], None],
) -> Built:
  """Writes a TFDS dataset in ArrayRecord format, or continues writing it.

  The records are in a pseudo-random order that depends only on their number.

  Args:
    dataset: 'name' or 'name:version'.
    data_dir: As in `sources.open_source`.
    path: The input; see `inputs.read`, also for `split`, `image_root`,
      `class_names`, `image_key`, `label_key`, `unlabelled`, `num_workers` and
      `show`.
    num_shards: Number of files for each split; None to derive it from the
      number of examples.
    skip_unusable: True to omit images that cannot be read or decoded, and those
      missing from incomplete files.

  Raises:
    UserError: The input or its images cannot be used, another dataset exists
      there, or it cannot be written.
  """
  name, home = _name(dataset), dataset_directory.resolve_data_dir(data_dir)
  if "://" in str(home):
    raise UserError(
      f"--data_dir={home} is in a bucket, where ArrayRecord files cannot be"
      " written; name a local directory and copy the dataset."
    )
  found = inputs.read(
    path,
    split=split,
    image_root=image_root,
    class_names=class_names,
    image_key=image_key,
    label_key=label_key,
    unlabelled=unlabelled,
    num_workers=num_workers,
    show=show,
  )
  plan = _plan(name, found, num_shards)
  target = home / name.name / name.version
  if found.damaged and not skip_unusable and not target.exists():
    named = [f"{file} ({problem})" for file, problem in found.damaged]
    raise UserError(
      f"Of the files of {path}, {len(named)} are not whole:"
      f" {truncate.first(named, separator='; ')}. Fix them and run the same"
      " command again, or write what they still hold with --skip_bad."
    )
  job = Job(name, target, found, plan, num_workers, show)
  try:
    made = not target.exists() and job.make(skip_unusable)
    if not made:
      job.check_made()
      job.replace_lost()
  except OSError as error:
    raise UserError(
      f"{target} cannot be written ({error.strerror or error}). Once that is"
      " fixed, run the same command again: it continues with what is missing."
    ) from error
  job.clear_up()
  info = json.loads((target / "dataset_info.json").read_text())
  unusable = target / UNUSABLE_FILE
  left_out = unusable.read_text() if unusable.exists() else ""
  return Built(
    name=name,
    directory=target,
    splits={
      split["name"]: sum(map(int, split["shardLengths"]))
      for split in info["splits"]
    },
    max_labels=found.max_labels,
    num_unusable=left_out.count("\n"),
    num_ignored=found.num_ignored,
    was_there=not made,
  )


def _name(dataset: str) -> dataset_directory.DatasetName:
  name = dataset_directory.DatasetName.parse(dataset)
  if name.config:
    raise UserError(
      f"Dataset {dataset!r}: what is made by --from has no configurations;"
      f" write {name.name!r}."
    )
  return dataclasses.replace(name, version=name.version or DEFAULT_VERSION)


def default_num_shards(num_examples: int) -> int:
  """Default number of files for a split of so many examples."""
  return min(-(-num_examples // _EXAMPLES_PER_SHARD), _MAX_SHARDS)


def _plan(
  name: dataset_directory.DatasetName, found: Inputs, num_shards: int | None
) -> dict[str, Any]:
  """Returns everything that the bytes of the shards depend on, as JSON."""
  counts = {n: split.num_examples for n, split in sorted(found.splits.items())}
  for split, count in counts.items():
    if not count:
      raise UserError(f"Split {split!r} has no image.")
  names = hashlib.sha256("\n".join(found.class_names or ()).encode())
  return {
    "dataset": str(name),
    "input": found.identity,
    "num_classes": found.num_classes,
    "class_names": names.hexdigest(),
    "max_labels": found.max_labels,
    "num_examples": counts,
    "num_shards": {
      split: min(count, num_shards or default_num_shards(count))
      for split, count in counts.items()
    },
  }
