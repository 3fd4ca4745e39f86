"""Writes a dataset from what a person has, so that a kill costs one shard.

Everything grows in DATA_DIR/NAME/VERSION.partial and is moved to
DATA_DIR/NAME/VERSION when it is whole:

  lock            held by the preparation at work
  plan.json       what is made; another plan does not go on here
  done/*.json     one for each shard that is whole
  dataset/        the shards
  unusable.jsonl  images that stood in the way
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from etils import epath

from vit_jax import records, truncate
from vit_jax.data import checksums, order, tfds_directory
from vit_jax.data.building import inputs, metadata, shards
from vit_jax.data.building.contract import Inputs
from vit_jax.data.building.workers import Show, Workers
from vit_jax.errors import UserError

DEFAULT_VERSION = "1.0.0"
# Beside the shards, what they were made from.
PLAN_FILE = "preparation.json"
UNUSABLE_FILE = "unusable.jsonl"

# Of ImageNet's photographs 230 MB, of thumbnails 5 MB.
_EXAMPLES_PER_SHARD = 2048
# Each is a file that stays open while it is read.
_MAX_SHARDS = 2048
# Something is wrong with all of them; looking on would only take time.
_MAX_UNUSABLE = 1000
# Files that lie in another order are another dataset.
_ORDER_SEED = 0


@dataclasses.dataclass(frozen=True)
class Built:
  """A dataset that is there.

  Attributes:
    name: with its version.
    directory: where it is.
    splits: name -> number of examples.
    max_labels: see `contract.Inputs`.
    num_unusable: images that were left out.
    num_ignored: files that are no images by their names.
    was_there: whether nothing had to be done.
  """

  name: tfds_directory.DatasetName
  directory: epath.Path
  splits: Mapping[str, int]
  max_labels: int
  num_unusable: int
  num_ignored: int
  was_there: bool


@dataclasses.dataclass(frozen=True)
class _Shard:
  """Shard `number` of a split, with the positions start to stop of it."""

  split: str
  number: int
  start: int
  stop: int
  file: str


def build(
  dataset: str,
  data_dir: str | None,
  path: str,
  *,
  split: str | None = None,
  image_root: str | None = None,
  class_names: str | None = None,
  num_shards: int | None = None,
  num_workers: int,
  skip_unusable: bool = False,
  show: Show,
) -> Built:
  """Makes a TFDS dataset in ArrayRecord format, or goes on making it.

  The records are in an order that has nothing to do with the input's, the same
  whatever the number of workers.

  Args:
    dataset: 'name' or 'name:version'.
    data_dir: as in `sources.open_source`.
    path: the input; see `inputs.read`, also for the next three.
    split: name of the only split of an input that does not say it.
    image_root: directory that the paths of JSON lines start from.
    class_names: file of the names of all classes.
    num_shards: of each split; None: by the number of examples.
    num_workers: processes.
    skip_unusable: leave out images that cannot be read or decoded.
    show: see `Workers`.

  Raises:
    UserError: the input or its images cannot be used, another dataset is
      there, or it cannot be written.
  """
  name, home = _name(dataset), tfds_directory.resolve_data_dir(data_dir)
  if "://" in str(home):
    raise UserError(
      f"--data_dir={home} is in a bucket, where ArrayRecord files cannot be"
      " written; name a local directory and copy the dataset."
    )
  target = home / name.name / name.version
  with Workers(num_workers, show) as workers:
    found = inputs.read(
      path,
      split=split,
      image_root=image_root,
      class_names=class_names,
      workers=workers,
    )
    plan = _plan(name, found, num_shards)
    partial = target.with_name(target.name + ".partial")
    if target.exists():
      if not (partial / "dataset").exists():  # Killed after the move.
        shutil.rmtree(partial, ignore_errors=True)
      return _already_there(target, name, plan, found, workers)
    try:
      (partial / "dataset").mkdir(parents=True, exist_ok=True)
      (partial / "done").mkdir(exist_ok=True)
      with _alone(partial):
        if target.exists():  # Another preparation has ended meanwhile.
          shutil.rmtree(partial)
          return _already_there(target, name, plan, found, workers)
        _keep_to_plan(partial, plan)
        made = _write_shards(partial, name, plan, found, workers, skip_unusable)
        num_unusable = _finish(partial, name, plan, found, made)
        (partial / "dataset").rename(target)
        shutil.rmtree(partial)
    except OSError as error:
      raise UserError(
        f"{partial} cannot be written ({error.strerror or error}). Once that is"
        " mended, run the same command again: it goes on with what is missing."
      ) from error
  return _built(target, name, plan, found, num_unusable, was_there=False)


def _name(dataset: str) -> tfds_directory.DatasetName:
  name = tfds_directory.DatasetName.parse(dataset)
  if name.config:
    raise UserError(
      f"Dataset {dataset!r}: what is made by --from has no configurations;"
      f" write {name.name!r}."
    )
  return dataclasses.replace(name, version=name.version or DEFAULT_VERSION)


def _plan(
  name: tfds_directory.DatasetName, found: Inputs, num_shards: int | None
) -> dict[str, Any]:
  """All that the bytes of the shards depend on, as JSON has it."""
  splits = sorted(found.splits.items())
  counts = {split: len(places) for split, places in splits}
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


def default_num_shards(num_examples: int) -> int:
  """Files of a split of that many examples, unless a person chooses."""
  return min(-(-num_examples // _EXAMPLES_PER_SHARD), _MAX_SHARDS)


def _differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
  keys = [key for key in ours if ours[key] != theirs.get(key)]
  return ", ".join(key.replace("_", " ") for key in keys)


def _read_plan(path: epath.Path) -> dict[str, Any] | None:
  try:
    value = json.loads(path.read_text())
  except (OSError, ValueError):
    return None
  return value if isinstance(value, dict) else None


def _already_there(
  target: epath.Path,
  name: tfds_directory.DatasetName,
  plan: dict[str, Any],
  found: Inputs,
  workers: Workers,
) -> Built:
  """The dataset that is there; shards that were removed are made again.

  Raises:
    UserError: it was made from something else, or by something else.
  """
  theirs = _read_plan(target / PLAN_FILE)
  if theirs is None or _differences(plan, theirs):
    what = f" (different: {_differences(plan, theirs)})" if theirs else ""
    raise UserError(
      f"{target} is there and holds something else{what}. Remove it, or write"
      f" another version, as in {name.name}:1.0.1."
    )
  _replace_lost(target, name, plan, found, workers)
  unusable = target / UNUSABLE_FILE
  count = len(unusable.read_text().splitlines()) if unusable.exists() else 0
  return _built(target, name, plan, found, count, was_there=True)


def _built(
  target: epath.Path,
  name: tfds_directory.DatasetName,
  plan: Mapping[str, Any],
  found: Inputs,
  num_unusable: int,
  *,
  was_there: bool,
) -> Built:
  info = json.loads((target / "dataset_info.json").read_text())
  return Built(
    name=name,
    directory=target,
    splits={
      split["name"]: sum(map(int, split["shardLengths"]))
      for split in info["splits"]
    },
    max_labels=plan["max_labels"],
    num_unusable=num_unusable,
    num_ignored=found.num_ignored,
    was_there=was_there,
  )


@contextlib.contextmanager
def _alone(partial: epath.Path) -> Iterator[None]:
  """Holds the directory against other preparations; a kill lets go of it."""
  with open(partial / "lock", "w") as file:
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      raise UserError(
        f"Another preparation is at work in {partial}; wait for its end."
      ) from None
    yield


def _keep_to_plan(partial: epath.Path, plan: dict[str, Any]) -> None:
  path = partial / "plan.json"
  theirs = _read_plan(path)
  if theirs is None:
    records.write_json(path, plan)
  elif theirs != plan:
    raise UserError(
      f"{partial} holds a part of something else (different:"
      f" {_differences(plan, theirs)}). Run the command that began it, or"
      " remove that directory."
    )


def _shards(
  name: tfds_directory.DatasetName, plan: Mapping[str, Any]
) -> list[_Shard]:
  """The shards of all splits; their lengths differ by at most one."""
  found = []
  for split, count in plan["num_shards"].items():
    n = plan["num_examples"][split]
    for number in range(count):
      start, stop = n * number // count, n * (number + 1) // count
      file = metadata.shard_name(name, split, number, count)
      found.append(_Shard(split, number, start, stop, file))
  return found


def _write_shards(
  partial: epath.Path,
  name: tfds_directory.DatasetName,
  plan: Mapping[str, Any],
  found: Inputs,
  workers: Workers,
  skip_unusable: bool,
) -> dict[_Shard, shards.Shard]:
  """Writes the shards that are missing; returns all.

  Raises:
    UserError: naming images that cannot be used, unless they are skipped.
  """
  everything = _shards(name, plan)
  made = {}
  for shard in everything:
    whole = _read_done(partial, shard)
    # One that lacks images is made again, for they may have been mended.
    if whole and (skip_unusable or not whole.unusable):
      made[shard] = whole
  missing = [shard for shard in everything if shard not in made]
  tasks = (
    _task(shard, found, partial / "dataset", _done_path(partial, shard))
    for shard in missing
  )
  by_file = {shard.file: shard for shard in missing}
  total = sum(plan["num_examples"].values())
  num_unusable = 0
  for file, whole in workers.run(
    shards.write,
    tasks,
    "images",
    total,
    done=total - sum(shard.stop - shard.start for shard in missing),
  ):
    made[by_file[file]] = whole
    num_unusable += len(whole.unusable)
    if num_unusable > _MAX_UNUSABLE and not skip_unusable:
      break
  if num_unusable and not skip_unusable:
    raise _unusable(partial, made)
  return {shard: made[shard] for shard in everything}


def _task(
  shard: _Shard,
  found: Inputs,
  directory: epath.Path,
  done_path: epath.Path | None,
) -> shards.ShardTask:
  places = found.splits[shard.split]
  ids = order.permute(
    np.arange(shard.start, shard.stop), len(places), seed=_ORDER_SEED, epoch=0
  )
  return shards.ShardTask(
    path=os.fspath(directory / shard.file),
    done_path=done_path and os.fspath(done_path),
    places=places.places(ids),
    max_labels=found.max_labels,
  )


def _replace_lost(
  target: epath.Path,
  name: tfds_directory.DatasetName,
  plan: Mapping[str, Any],
  found: Inputs,
  workers: Workers,
) -> None:
  """Writes the shards that a whole dataset has lost since.

  Raises:
    UserError: one cannot be written, or images are no longer what they were.
  """
  files = checksums.read(target) or {}
  lost = {
    shard.file: shard
    for shard in _shards(name, plan)
    if not (target / shard.file).exists()
  }
  tasks = (_task(shard, found, target, None) for shard in lost.values())
  total = sum(shard.stop - shard.start for shard in lost.values())
  try:
    for file, whole in workers.run(shards.write, tasks, "images", total):
      if files.get(file) != checksums.Checksum(whole.size, whole.sha256):
        (target / file).unlink()
        raise UserError(
          f"{target / file} was lost and cannot be made again: the images are"
          " not those it was made of. Remove the directory to make all anew."
        )
  except OSError as error:
    raise UserError(
      f"{target} cannot be written ({error.strerror or error})."
    ) from error


def _done_path(partial: epath.Path, shard: _Shard) -> epath.Path:
  return partial / "done" / f"{shard.file}.json"


def _read_done(partial: epath.Path, shard: _Shard) -> shards.Shard | None:
  """What is known of a shard that is whole and still there."""
  try:
    value = json.loads(_done_path(partial, shard).read_text())
    size = (partial / "dataset" / shard.file).stat().length
  except (OSError, ValueError):
    return None
  whole = shards.Shard.from_json(value)
  return whole if size == whole.size else None


def _unusable_lines(made: Mapping[_Shard, shards.Shard]) -> list[str]:
  """One JSON object for each image that cannot be used, in order of names."""
  found = sorted(
    (shard.split, name, problem)
    for shard, whole in made.items()
    for name, problem in whole.unusable
  )
  return [
    json.dumps({"split": split, "name": name, "problem": problem})
    for split, name, problem in found
  ]


def _unusable(
  partial: epath.Path, made: Mapping[_Shard, shards.Shard]
) -> UserError:
  """Writes the list of all that cannot be used; what to tell about it."""
  lines = _unusable_lines(made)
  records.write_text(partial / UNUSABLE_FILE, "\n".join(lines) + "\n")
  found = [json.loads(line) for line in lines]
  named = [f"{f['split']} {f['name']} ({f['problem']})" for f in found]
  extent = " so far" * (len(lines) > _MAX_UNUSABLE)
  return UserError(
    f"{len(lines)} images{extent} cannot be used:"
    f" {truncate.first(named, separator='; ')}. All are listed"
    f" in {partial / UNUSABLE_FILE}. Mend them and run the same command again,"
    " or leave them out with --skip_bad."
  )


def _finish(
  partial: epath.Path,
  name: tfds_directory.DatasetName,
  plan: Mapping[str, Any],
  found: Inputs,
  made: Mapping[_Shard, shards.Shard],
) -> int:
  """Writes all but the shards; returns how many images were left out."""
  directory = partial / "dataset"
  for path in directory.iterdir():
    if shards.is_unfinished(path.name):
      path.unlink()
  splits = {}
  for split in found.splits:
    of_split = [whole for shard, whole in made.items() if shard.split == split]
    lengths = [whole.num_examples for whole in of_split]
    if not any(lengths):
      raise UserError(f"Split {split!r} has no image that can be used.")
    num_bytes = sum(whole.num_bytes for whole in of_split)
    splits[split] = metadata.Split(lengths, num_bytes)
  metadata.write(
    directory,
    name,
    splits,
    class_names=found.class_names,
    num_classes=found.num_classes,
    max_labels=found.max_labels,
  )
  checksums.write(
    directory,
    {
      shard.file: checksums.Checksum(whole.size, whole.sha256)
      for shard, whole in made.items()
    },
  )
  records.write_json(directory / PLAN_FILE, plan)
  lines = _unusable_lines(made)
  if lines:
    records.write_text(directory / UNUSABLE_FILE, "\n".join(lines) + "\n")
  return len(lines)
