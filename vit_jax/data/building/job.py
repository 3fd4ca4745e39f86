"""Writes the files of a dataset; being killed costs the shards in progress.

Everything is written to DATA_DIR/NAME/VERSION.partial and moved to
DATA_DIR/NAME/VERSION when complete:

  lock            held by the preparation at work
  plan.json       what is made, and of what; another plan does not continue here
  done/*.json     one for each shard that is whole
  dataset/        the shards
  unusable.jsonl  images that cannot be used, and files that are not whole

Formats and metadata are those of array_record and TFDS. TFDS's own writers are
not used: `download_and_prepare` and `store_as_tfds_dataset` start over after
being killed and move every image through temporary files; `SequentialWriter` is
for one process and keeps no list of complete shards.
"""

import contextlib
import dataclasses
import fcntl
import functools
import json
import operator
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from vit_jax import buckets, records, truncate
from vit_jax.data import checksums, order, parallel
from vit_jax.data.building import metadata, shards
from vit_jax.data.building.contract import Inputs
from vit_jax.data.tfds import dataset_directory
from vit_jax.errors import UserError

# File next to the shards that states what they were made from.
PLAN_FILE = "preparation.json"
UNUSABLE_FILE = "unusable.jsonl"

# Beyond this, something is wrong with all of them.
_MAX_UNUSABLE = 1000
# A different order would be a different dataset.
_ORDER_SEED = 0


@dataclasses.dataclass(frozen=True)
class _Shard:
  """A shard of a split: its positions from `start` to before `stop`."""

  split: str
  start: int
  stop: int
  file: str


def _differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
  keys = [key for key in ours if ours[key] != theirs.get(key)]
  return ", ".join(key.replace("_", " ") for key in keys)


@dataclasses.dataclass(frozen=True)
class Job:
  """A dataset to write: its name, place, source and plan."""

  name: dataset_directory.DatasetName
  target: epath.Path
  inputs: Inputs
  plan: Mapping[str, Any]
  num_workers: int
  show: Callable[[str, int, int], None]

  @property
  def partial(self) -> epath.Path:
    return self.target.with_name(self.target.name + ".partial")

  def make(self, skip_unusable: bool) -> bool:
    """Writes the dataset; returns False if another preparation has just done
    so.
    """
    (self.partial / "dataset").mkdir(parents=True, exist_ok=True)
    (self.partial / "done").mkdir(exist_ok=True)
    with _alone(self.partial):
      is_needed = not self.target.exists()
      if is_needed:
        self._keep_to_plan()
        self._finish(self._make_shards(skip_unusable))
        (self.partial / "dataset").rename(self.target)
      shutil.rmtree(self.partial)
    return is_needed

  def check_made(self) -> None:
    """Raises UserError if the existing dataset was made from something else."""
    theirs = records.read_json(self.target / PLAN_FILE)
    if differences := _differences(self.plan, theirs):
      what = f" (different: {differences})" if theirs else ""
      raise UserError(
        f"{self.target} is there and holds something else{what}. Remove it, or"
        f" write another version, as in {self.name.name}:1.0.1."
      )

  def replace_lost(self) -> None:
    """Rewrites shards that a complete dataset has since lost.

    Raises:
      UserError: Images have changed.
    """
    files = checksums.read(self.target) or {}
    lost = [s for s in self._shards() if not (self.target / s.file).exists()]
    for shard, whole in self._write(lost, self.target):
      if files.get(shard.file) != whole.checksum:
        (self.target / shard.file).unlink()
        raise UserError(
          f"{self.target / shard.file} was lost and cannot be made again: the"
          " images are not those it was made of. Remove the directory to make"
          " everything again."
        )

  def clear_up(self) -> None:
    """Removes what a kill after the last move has left."""
    if not (self.partial / "dataset").exists():  # Else it belongs to another.
      shutil.rmtree(self.partial, ignore_errors=True)

  def _keep_to_plan(self) -> None:
    path = self.partial / "plan.json"
    theirs = records.read_json(path)
    if not theirs:
      records.write_json(path, {**self.plan, "place": self.inputs.place})
    elif differences := _differences(self.plan, theirs):
      raise UserError(
        f"{self.partial} holds a part of something else (different:"
        f" {differences}). Run the command that began it, or remove that"
        " directory."
      )
    elif theirs.get("place") != self.inputs.place:
      began = theirs.get("place") or "an input that it does not name"
      raise UserError(
        f"{self.partial} holds a part of what is made of {began}, not of"
        f" {self.inputs.place}, whose files have the same names; go on with"
        " that input, give this one another name, or remove that directory."
      )

  def _shards(self) -> list[_Shard]:
    """The shards of all splits; their lengths differ by at most one."""
    found = []
    for split, count in self.plan["num_shards"].items():
      n = self.plan["num_examples"][split]
      for number in range(count):
        start, stop = n * number // count, n * (number + 1) // count
        file = metadata.shard_name(self.name, split, number, count)
        found.append(_Shard(split, start, stop, file))
    return found

  def _write(
    self,
    wanted: Sequence[_Shard],
    directory: epath.Path,
    done: epath.Path | None = None,
    num_done: int = 0,
  ) -> Iterator[tuple[_Shard, shards.Shard]]:
    """Writes shards in parallel; yields each once it and those before are
    written.
    """

    def task(shard: _Shard) -> Callable[[], shards.Shard]:
      split = self.inputs.splits[shard.split]
      ids = order.permute(
        np.arange(shard.start, shard.stop),
        split.num_examples,
        seed=_ORDER_SEED,
        epoch=0,
      )
      return functools.partial(
        shards.write,
        os.fspath(directory / shard.file),
        split.examples(ids),
        self.inputs.max_labels,
        done and os.fspath(done / f"{shard.file}.json"),
      )

    total = num_done + sum(shard.stop - shard.start for shard in wanted)
    results = parallel.in_processes(
      operator.call,
      map(task, wanted),
      num_processes=self.num_workers,
      what="images",
    )
    for shard, whole in zip(wanted, results, strict=True):
      num_done += shard.stop - shard.start
      self.show("images", num_done, total)
      yield shard, whole

  def _make_shards(self, skip_unusable: bool) -> dict[_Shard, shards.Shard]:
    """Writes the missing shards; returns all shards.

    Raises:
      UserError: Images cannot be used and are not skipped; the message names
        them.
    """
    directory, done = self.partial / "dataset", self.partial / "done"
    made = {}
    for shard in self._shards():
      value = records.read_json(done / f"{shard.file}.json")
      file = directory / shard.file
      if value and file.exists() and buckets.status(file).size == value["size"]:
        # A shard with missing images is rewritten, as they may have been fixed.
        if skip_unusable or not value["unusable"]:
          made[shard] = shards.Shard(**value)
    missing = [shard for shard in self._shards() if shard not in made]
    num_done = sum(shard.stop - shard.start for shard in made)
    num_unusable = 0
    for shard, whole in self._write(missing, directory, done, num_done):
      made[shard] = whole
      num_unusable += len(whole.unusable)
      if num_unusable > _MAX_UNUSABLE and not skip_unusable:
        break
    if num_unusable and not skip_unusable:
      named = _list_unusable(made, self.partial)
      extent = " so far" * (num_unusable > _MAX_UNUSABLE)
      raise UserError(
        f"{num_unusable} images{extent} cannot be used:"
        f" {truncate.first(named, separator='; ')}. All are listed in"
        f" {self.partial / UNUSABLE_FILE}."
        " Fix them and run the same command again, or leave them out with"
        " --skip_bad."
      )
    return {shard: made[shard] for shard in self._shards()}

  def _finish(self, made: Mapping[_Shard, shards.Shard]) -> None:
    """Writes everything except the shards."""
    directory = self.partial / "dataset"
    names = {shard.file for shard in made}
    for path in directory.iterdir():
      if path.name not in names:  # Left by a killed process.
        path.unlink()
    splits = {
      split: [whole for shard, whole in made.items() if shard.split == split]
      for split in self.inputs.splits
    }
    for split, found in splits.items():
      if not any(whole.num_examples for whole in found):
        raise UserError(f"Split {split!r} has no image that can be used.")
    metadata.write(directory, self.name, self.inputs, splits)
    checksums.write(
      directory, {shard.file: whole.checksum for shard, whole in made.items()}
    )
    records.write_json(directory / PLAN_FILE, self.plan)
    _list_unusable(made, directory, self.inputs.damaged)


@contextlib.contextmanager
def _alone(partial: epath.Path) -> Iterator[None]:
  """Locks the directory against other preparations; being killed unlocks it."""
  with open(partial / "lock", "w") as file:
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      raise UserError(
        f"Another preparation is using {partial}; wait for its end."
      ) from None
    yield


def _list_unusable(
  made: Mapping[_Shard, shards.Shard],
  directory: epath.Path,
  damaged: Sequence[tuple[str, str]] = (),
) -> list[str]:
  """Names the unusable images, if any, and lists them in a file.

  Damaged files come first in the list, without a split.
  """
  found = sorted(
    (shard.split, name, problem)
    for shard, whole in made.items()
    for name, problem in whole.unusable
  )
  keys = ("split", "name", "problem")
  listed = [*((None, *file) for file in damaged), *found]
  lines = [json.dumps(dict(zip(keys, entry, strict=True))) for entry in listed]
  if lines:
    records.write_text(directory / UNUSABLE_FILE, "\n".join(lines) + "\n")
  return [f"{split} {name} ({problem})" for split, name, problem in found]
