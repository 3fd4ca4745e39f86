"""Seconds and memory to open large datasets, compared with plain reading.

  python benchmarks/opening.py --dir=DIR [--scale=0.01]

Makes in DIR, unless they are there, 14 million tiny records as TFRecord and as
ArrayRecord files and a folder of 1.3 million tiny files in 1000 classes (5 GB
and as many inodes), or `--scale` times as many. Each is opened as a run of
training opens its data, and 1024 random records are read, in a process of its
own: first without any index of ours, then again. Plain readings do less: the
lengths of all records without offsets being kept, array_record's own data
source, the names that os.walk finds. The operating system's cache stays as it
is. Seconds and CPU seconds are those of opening and reading, without imports;
memory is the process's peak.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import resource
import subprocess
import sys
import time

import numpy as np

_CLASSES = 1000
_READ = 1024
# `prepare` makes as many of so many records.
_SHARDS = 2048
_RECORDS, _FILES = 14_000_000, 1_300_000
_VERSION = "1.0.0"
_WORKERS = 2


def records_of(shard: int, count: int) -> list[bytes]:
  """Serialized examples of various lengths, with what begins like an image."""
  from tensorflow_datasets.proto import tf_example_pb2

  made = []
  for number in range(97):  # A few are enough, over and over.
    example = tf_example_pb2.Example()
    feature = example.features.feature
    feature["image"].bytes_list.value.append(b"\xff\xd8\xff" + b"\0" * number)
    feature["label"].int64_list.value.append((shard + number) % _CLASSES)
    made.append(example.SerializeToString(deterministic=True))
  return [made[number % len(made)] for number in range(count)]


def write_shard(path: str, shard: int, count: int) -> int:
  """Writes a file of the form that its name tells; returns bytes of records."""
  records = records_of(shard, count)
  if "array_record" in path:
    from array_record.python import array_record_module

    from vit_jax.data.tfds import array_record_files

    writer = array_record_module.ArrayRecordWriter(
      path, array_record_files.WRITER_OPTIONS
    )
    for record in records:
      writer.write(record)
    writer.close()
  else:
    from vit_jax.data.tf_import import tf

    with tf.io.TFRecordWriter(path) as writer:
      for record in records:
        writer.write(record)
  return sum(map(len, records))


def make_records(directory: pathlib.Path, form: str, count: int) -> None:
  """Makes a TFDS dataset of tiny records, unless it is there."""
  data_dir = directory / form / _VERSION
  if (data_dir / "features.json").exists():
    return
  from vit_jax.data.tf_import import tf

  assert tf.version  # TFDS imports it noisily.
  import tensorflow_datasets as tfds

  data_dir.mkdir(parents=True, exist_ok=True)
  template = tfds.core.ShardedFileTemplate(
    data_dir=data_dir,
    template="{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
    dataset_name=form,
    filetype_suffix=form,
    split="train",
  )
  num_shards = min(_SHARDS, count)
  ends = np.arange(num_shards + 1) * count // num_shards
  lengths = np.diff(ends).tolist()
  paths = [
    os.fspath(template.sharded_filepath(shard_index=i, num_shards=num_shards))
    for i in range(num_shards)
  ]
  with concurrent.futures.ProcessPoolExecutor(_WORKERS) as pool:
    sizes = list(pool.map(write_shard, paths, range(num_shards), lengths))
  tfds.folder_dataset.write_metadata(
    data_dir=data_dir,
    features=tfds.features.FeaturesDict(
      {
        "image": tfds.features.Image(shape=(None, None, 3)),
        "label": tfds.features.ClassLabel(num_classes=_CLASSES),
      }
    ),
    split_infos=[
      tfds.core.SplitInfo(
        name="train",
        shard_lengths=lengths,
        num_bytes=sum(sizes),
        filename_template=template,
      )
    ],
    version=_VERSION,
    check_data=False,
  )


def make_folder(directory: pathlib.Path, form: str, count: int) -> None:
  """Makes a folder of tiny files, unless it is there."""
  train = directory / form / "train"
  if train.exists():
    return
  partial = train.with_name("partial")
  for number in range(_CLASSES):
    name = f"n{number:08d}"
    (partial / name).mkdir(parents=True, exist_ok=True)
    for file in range(number, count, _CLASSES):
      (partial / name / f"{name}_{file}.JPEG").write_bytes(b"\xff\xd8\xff")
  partial.rename(train)


def now() -> np.ndarray:
  """Seconds on the clock and of this process's CPU time."""
  return np.array([time.perf_counter(), time.process_time()])


def remove_indices(directory: pathlib.Path) -> None:
  """Removes what an earlier opening left in DIR."""
  for path in directory.rglob("*.npy"):
    path.unlink()


def open_ours(directory: pathlib.Path, form: str) -> np.ndarray:
  """Opens a dataset as `vit_jax.train` does; returns its seconds, see `now`."""
  sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
  from configs import finetune_folder
  from vit_jax.config import resolve
  from vit_jax.data import facts

  config = finetune_folder.get_config()
  config.train.dataset = form
  config.data_dir = str(directory / form if form == "folder" else directory)
  config = resolve.resolve(config)
  began = now()
  source = facts.open_data(config)
  found = facts.of_source(config, source)
  ids = np.random.default_rng(0).integers(0, source.num_examples, _READ)
  source.read(ids)
  seconds = now() - began
  assert found.num_classes == _CLASSES
  return seconds


def read_plainly(directory: pathlib.Path, form: str) -> np.ndarray:
  """Reads as a program without random access or checks would; see `now`."""
  paths = sorted(map(str, (directory / form).glob(f"*/*{form}-0*")))
  if form == "array_record":
    from array_record.python import array_record_data_source
  began = now()
  if form == "folder":
    names = [name for *_, files in os.walk(directory / form) for name in files]
    assert names
  elif form == "array_record":
    source = array_record_data_source.ArrayRecordDataSource(paths)
    ids = np.random.default_rng(0).integers(0, len(source), _READ)
    source.__getitems__(ids.tolist())
  else:
    for path in paths:
      with open(path, "rb") as file:
        while header := file.read(12):
          file.seek(int.from_bytes(header[:8], "little") + 4, os.SEEK_CUR)
  return now() - began


def in_a_process(directory: pathlib.Path, form: str, who: str) -> list[float]:
  """Seconds, CPU seconds and peak GB of an opening in a new process."""
  command = [sys.executable, __file__, f"--dir={directory}"]
  command += [f"--forms={form}", f"--open={who}"]
  found = subprocess.run(command, capture_output=True, text=True)
  if found.returncode:
    raise SystemExit(found.stderr)
  return json.loads(found.stdout.splitlines()[-1])


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--dir", required=True, type=pathlib.Path)
  parser.add_argument("--scale", type=float, default=1.0)
  parser.add_argument("--forms", default="tfrecord,array_record,folder")
  # Used by this program itself, in the processes that open.
  parser.add_argument("--open", help=argparse.SUPPRESS)
  given = parser.parse_args()
  directory = given.dir.resolve()
  if given.open:
    opening = open_ours if given.open == "ours" else read_plainly
    seconds, cpu_seconds = opening(directory, given.forms).tolist()
    # Linux counts in units of 1024 bytes.
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(json.dumps([seconds, cpu_seconds, memory]))
    return
  counts = {"folder": _FILES}
  print("form          entries     opening  seconds  of plain  CPU s    GB")
  for form in given.forms.split(","):
    count = int(counts.get(form, _RECORDS) * given.scale)
    # In a process of its own: children begin with the peak of their parent.
    make = make_folder if form == "folder" else make_records
    arguments = (directory, form, count)
    made = multiprocessing.get_context("spawn").Process(
      target=make, args=arguments
    )
    made.start()
    made.join()
    if made.exitcode:
      raise SystemExit(f"The {form} could not be made.")
    remove_indices(directory / form)
    plain = in_a_process(directory, form, "plain")
    for opening in ("plain", "first", "second"):
      found = plain
      if opening != "plain":
        found = in_a_process(directory, form, "ours")
      seconds, cpu_seconds, memory = found
      print(
        f"{form:13} {count:10,}  {opening:7} {seconds:8.2f}"
        f"  {seconds / plain[0]:8.2f}  {cpu_seconds:5.2f}  {memory:.2f}",
        flush=True,
      )


if __name__ == "__main__":
  main()
