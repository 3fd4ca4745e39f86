"""Lists training images that nearly duplicate test images, to be left out.

  python -m vit_jax.deduplicate imagenet21k@train imagenet2012@validation \\
      cifar10@test ./photos@test --data_dir=data --output=runs/near

The first argument is the training set, the others are test sets: each a dataset
and its split, or an image folder (a path that begins with / . or ~) and one of
its splits. Without @SPLIT, the first is 'train' and the others are 'test'.

--image_key and --label_key name the features of the training set if they are
not 'image' and 'label', as config.train.image_key and label_key of the run do.
Test sets without these features are read under the usual names. If the run sets
config.train.text_key, give --text_key too, and --regression if its labels are
numbers to predict.

Images are compared by a perceptual hash, also mirrored. OUTPUT receives

  pairs.jsonl    one line per pair: {"train": NAME, "train_id": NUMBER,
                 "test_set": WORD, "test": NAME, "test_id": NUMBER,
                 "distance": BITS, "mirrored": BOOLEAN}
  exclude.json   the training images among them, for
                 --config.train.exclude=OUTPUT/exclude.json
  summary.json   the datasets that were compared, the counts, and the names of
                 images that cannot be read
  hashes/        hashes of images, so that the same command continues after a
                 kill, and another --max_distance or test set takes moments

See docs/deduplication.md.
"""

import collections
import contextlib
import dataclasses
import functools
import itertools
import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import flags

from vit_jax import command_line, records, truncate
from vit_jax.data import sources, splits
from vit_jax.data.deduplication import (
  duplicates,
  exclusion,
  hash_file,
  perceptual_hash,
)
from vit_jax.errors import UserError
from vit_jax.paper import vtab
from vit_jax.rundir.progress import CountProgress

_PATH = ("/", ".", "~")
_ANY = 2**31
_IMAGE_KEY = "image"


def define_flags() -> None:
  flags.DEFINE_string(
    "data_dir",
    None,
    "Directory of datasets; by default TFDS_DATA_DIR, then"
    " ~/tensorflow_datasets.",
  )
  flags.DEFINE_string("output", None, "Directory for the results.")
  flags.DEFINE_string(
    "image_key",
    None,
    "Feature of the training set that holds the image, and of test sets that"
    " have it; by default image.",
  )
  flags.DEFINE_string(
    "label_key",
    None,
    "Feature of these sets that holds the label; by default label, labels or"
    " the label features of the VTAB tasks.",
  )
  flags.DEFINE_string(
    "text_key",
    None,
    "Feature of the training set that holds the captions, for a run that sets"
    " config.train.text_key.",
  )
  flags.DEFINE_bool(
    "regression",
    False,
    "Treat the labels of the training set as numbers to predict.",
  )
  flags.DEFINE_integer(
    "max_distance",
    perceptual_hash.NEAR,
    f"Maximum number of bits, of {perceptual_hash.BITS}, in which the hashes of"
    " near-duplicates differ.",
    lower_bound=0,
    upper_bound=perceptual_hash.BITS // 4,
  )
  flags.DEFINE_integer(
    "threads",
    os.cpu_count(),
    "Number of threads that hash and compare.",
    lower_bound=1,
  )


def main(argv: Sequence[str]) -> int:
  if len(argv) < 3:
    raise UserError(
      "Name a training set and one test set or more, as in: python -m"
      " vit_jax.deduplicate cifar10@train cifar10@test --output=DIR"
    )
  if not flags.FLAGS.output:
    raise UserError("No directory for the results was named: --output=DIR.")
  if "://" in flags.FLAGS.output:
    raise UserError(
      f"--output={flags.FLAGS.output} is in a bucket, where files cannot grow;"
      " name a local directory."
    )
  words = [
    _Word.parse(word, "test" if i else "train")
    for i, word in enumerate(argv[1:])
  ]
  for word, n in collections.Counter(words).items():
    if n > 1:
      raise UserError(f"{word} is named twice.")
  output = pathlib.Path(flags.FLAGS.output).expanduser()
  opened = [
    (word, *word.open(flags.FLAGS.data_dir, is_trained_on=not i))
    for i, word in enumerate(words)
  ]
  with contextlib.closing(CountProgress()) as progress:
    train, *tests = [
      _hash(output / "hashes", word, source, image_key, progress)
      for word, source, image_key in opened
    ]
    try:
      summary = _write(output, train, tests, flags.FLAGS.max_distance, progress)
    except OSError as error:
      raise UserError(
        f"{output} cannot be written ({error.strerror or error})."
      ) from error
  _tell(output, summary)
  return 0


@dataclasses.dataclass(frozen=True)
class _Word:
  """A dataset and its split, as named on the command line."""

  dataset: str
  split: str
  folder: str | None

  @classmethod
  def parse(cls, text: str, default_split: str) -> "_Word":
    """Parses DATASET[@SPLIT]; raises UserError if it is something else."""
    dataset, at, split = text.rpartition("@")
    if not at or "/" in split:  # A folder may have an @ in its name.
      dataset, split = text, default_split
    splits.parse(split)
    if dataset.startswith(_PATH):
      return cls("folder", split, dataset)
    sources.check(dataset)
    return cls(dataset, split, None)

  def open(
    self, data_dir: str | None, *, is_trained_on: bool
  ) -> tuple[sources.Source, str]:
    """Opens the images; also returns their key.

    Raises:
      UserError: The images are missing, or are not under the keys of a training
        set.
    """
    problems = []
    for dataset, keys in self._attempts(is_trained_on):
      try:
        source = sources.open_source(
          dataset,
          self.split,
          data_dir=self.folder or data_dir,
          captions=False,
          max_bad_examples=_ANY,  # Bad examples are counted.
          **keys,
        )
        return source, keys["image_key"]
      except UserError as error:
        problems.append(error)
    hint = ""
    if self.folder is None and os.path.isdir(self.dataset):
      hint = f"\nIf the folder here is meant, write ./{self}."
    raise UserError(f"{self}: {problems[0]}{hint}")

  def place(self, data_dir: str | None) -> str:
    """Returns the real path of its files; see `sources.location`."""
    return sources.location(self.dataset, self.folder or data_dir)

  def _attempts(self, is_trained_on: bool) -> list[tuple[str, dict[str, Any]]]:
    """Lists datasets and arguments of `sources.open_source` to try.

    Labels and captions are not used here, but the way they are read
    distinguishes training data from other data.
    """
    if self.folder is not None:
      names = ("folder", "folder:labels=none")
      return [(name, {"image_key": _IMAGE_KEY}) for name in names]
    image_key, label_key = flags.FLAGS.image_key, flags.FLAGS.label_key
    image_keys = [image_key] if image_key else []
    label_keys = [label_key] if label_key else []
    if not is_trained_on or not image_keys:
      image_keys.append(_IMAGE_KEY)
    if not is_trained_on or not label_keys:
      label_keys += _label_keys(self.dataset)
    numbers = [flags.FLAGS.regression]
    if not is_trained_on:
      numbers.append(False)
    named = {"text_key": flags.FLAGS.text_key} if is_trained_on else {}
    return [
      (
        self.dataset,
        {"image_key": image, "label_key": label, "numbers": number, **named},
      )
      for image, label, number in itertools.product(
        *map(dict.fromkeys, (image_keys, label_keys, numbers))
      )
    ]

  def __str__(self) -> str:
    return f"{self.folder or self.dataset}@{self.split}"


def _label_keys(dataset: str) -> list[str]:
  """Lists features that may hold labels, which are not used here."""
  name = dataset.partition("/")[0].partition(":")[0]
  keys = ["label", "labels"]
  keys += [
    task.label_key
    for task in vtab.TASKS.values()
    if task.dataset.partition("/")[0] == name
  ]
  return list(dict.fromkeys(keys))


def _hash(
  directory: pathlib.Path,
  word: _Word,
  source: sources.Source,
  image_key: str,
  progress: CountProgress,
) -> duplicates.Hashed:
  name = str(word)
  place = word.place(flags.FLAGS.data_dir)
  # A TFDS dataset's fingerprint is the same for any feature that is read.
  of_images = "" if image_key == _IMAGE_KEY else image_key
  path = hash_file.path_of(directory, name, source, place, of_images)
  hash_file.complete(
    path,
    source,
    num_threads=flags.FLAGS.threads,
    show=functools.partial(progress.show, f"images of {name} hashed"),
  )
  return duplicates.Hashed(name, source, path)


def _write(
  output: pathlib.Path,
  train: duplicates.Hashed,
  tests: Sequence[duplicates.Hashed],
  max_distance: int,
  progress: CountProgress,
) -> dict:
  """Writes all results and returns the summary."""
  near_train, near_test = [[set() for _ in tests] for _ in range(2)]
  num_pairs = 0
  with (
    records.replacing(output / "pairs.jsonl") as path,
    path.open("w") as file,
  ):
    for pair in duplicates.find(
      train,
      tests,
      max_distance=max_distance,
      num_threads=flags.FLAGS.threads,
      show=functools.partial(progress.show, "images compared"),
    ):
      test = tests[pair.test_set]
      line = {
        "train": _name(train, pair.train_id),
        "test": _name(test, pair.test_id),
        **dataclasses.asdict(pair),
        "test_set": test.name,
      }
      file.write(json.dumps(line) + "\n")
      num_pairs += 1
      near_train[pair.test_set].add(pair.train_id)
      near_test[pair.test_set].add(pair.test_id)
  near = set().union(*near_train)
  exclusion.write(output / "exclude.json", train.source, near)
  summary = {
    "max_distance": max_distance,
    "bits": perceptual_hash.BITS,
    "pairs": num_pairs,
    "train": {**_described(train), "near": len(near)},
    "tests": [
      _described(test) | {"near": len(near), "near_train": len(of_train)}
      for test, near, of_train in zip(tests, near_test, near_train, strict=True)
    ],
  }
  records.write_json(output / "summary.json", summary)
  return summary


def _name(dataset: duplicates.Hashed, number: int) -> str:
  return dataset.source.names(np.array([number]))[0]


def _described(dataset: duplicates.Hashed) -> dict:
  return {
    "name": dataset.name,
    "source": dataset.source.fingerprint,
    "images": dataset.source.num_examples,
    "flat": duplicates.count(dataset, hash_file.FLAT),
    "unreadable": duplicates.count(dataset, hash_file.UNREADABLE),
    "unreadable_images": duplicates.names(dataset, hash_file.UNREADABLE),
  }


def _tell(output: pathlib.Path, summary: dict) -> None:
  train = summary["train"]
  for test in summary["tests"]:
    print(
      f"{test['name']}: {test['near']} of {test['images']} images are near"
      f" {test['near_train']} of {train['name']}."
    )
  for one in (train, *summary["tests"]):
    if one["flat"] or one["unreadable"]:
      unreadable = truncate.first(one["unreadable_images"], 5)
      print(
        f"{one['name']}: not compared are {one['flat']} images of one colour"
        f" and {one['unreadable']} that cannot be read"
        f"{unreadable and f' ({unreadable})'}. Once those are fixed, remove"
        f" {output / 'hashes'}."
      )
  print(f"{summary['pairs']} pairs are in {output / 'pairs.jsonl'}.")
  if not train["near"]:
    return
  print(
    f"To train without the {train['near']} of {train['images']} images:\n"
    f"  --config.train.exclude={output / 'exclude.json'}"
  )


if __name__ == "__main__":
  define_flags()
  command_line.run(main)
