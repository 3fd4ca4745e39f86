"""Reads while a disk or a file server is out of order: the system's own fail.

A library that is preloaded makes the reads of Python, TensorFlow, Arrow and
ArrayRecord fail alike.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from tests.faults import runs

SHIM = pathlib.Path(__file__).with_name("failing_reads.c")
IMAGES = 24

# Reads all records of each kind of file whole, and again in an outage.
READ_IN_OUTAGE = """
import os, sys, tarfile, threading
import numpy as np
import pyarrow as pa, pyarrow.parquet as pq
import tensorflow as tf
from array_record.python import array_record_module
from vit_jax.data import sources
from vit_jax.data.tfds.array_record_files import ArrayRecordFiles
from vit_jax.data.huggingface.row_groups import RowGroups
from vit_jax.data.tfds.tfrecord_files import TFRecordFiles

root, ids = sys.argv[1], np.arange(24)
rng = np.random.default_rng(0)
contents = [rng.bytes(70_000) for _ in ids]

path = f"{root}/records.array_record"
writer = array_record_module.ArrayRecordWriter(path, "group_size:1")
for content in contents:
  writer.write(content)
writer.close()
opened = ArrayRecordFiles([path], [24])
opened.read(0, ids)
unopened = ArrayRecordFiles([path], [24])

path = f"{root}/records.tfrecord-00000-of-00001"
with tf.io.TFRecordWriter(path) as writer:
  for content in contents:
    writer.write(content)
tfrecords = TFRecordFiles([path], [24])

path = f"{root}/records.parquet"
pq.write_table(pa.table({"image": contents}), path, row_group_size=8)
groups = RowGroups([path], path, ["image"], keep=24)

path = f"{root}/records.tar"
folder = f"{root}/records/train"
with tarfile.open(path, "w") as tar:
  for place, name in enumerate(sorted(os.listdir(f"{folder}/a"))):
    tar.add(f"{folder}/a/{name}", f"{place}.jpg")
tars = sources.open_source(f"webdataset:{path}", "train", data_dir=None)
files = sources.open_source("folder", "train", data_dir=f"{root}/records")

def image(source):
  return lambda: list(source.read(np.arange(source.num_examples))["image"])

for name, read in {
  "opened array records": lambda: opened.read(0, ids),
  "array records": lambda: unopened.read(0, ids),
  "tfrecords": lambda: tfrecords.read(0, ids),
  "parquet": lambda: [groups.chunk(2).cell("image", i) for i in range(8)],
  "tar": image(tars),
  "files": image(files),
}.items():
  open(os.environ["OUTAGE"], "w").close()
  threading.Timer(0.5, os.remove, [os.environ["OUTAGE"]]).start()
  in_outage = read()
  assert not os.path.exists(os.environ["OUTAGE"]), name
  assert in_outage == read(), name
  print(name)
"""


@pytest.fixture
def outage(tmp_path):
  """The environment of a process, and the file that begins its outage."""
  compiler = shutil.which("cc")
  if compiler is None or not sys.platform.startswith("linux"):
    pytest.skip("needs a C compiler, and Linux")
  library = tmp_path / "failing_reads.so"
  subprocess.run(
    [compiler, "-shared", "-fPIC", "-o", library, SHIM, "-ldl"], check=True
  )
  begin = tmp_path / "outage"
  environment = {
    "LD_PRELOAD": str(library),
    "OUTAGE": str(begin),
    "OUTAGE_OF": "/records",
  }
  return environment, begin


@pytest.fixture
def root(tmp_path):
  """A folder of images of two classes."""
  rng = np.random.default_rng(0)
  for i in range(IMAGES):
    suffix = "png" if i % 5 == 0 else "jpg"
    path = tmp_path / "records" / "train" / "ab"[i % 2] / f"{i}.{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8)).save(path)
  return tmp_path / "records"


def test_records_of_all_kinds_are_read_after_an_outage(repo, outage, root):
  environment, _ = outage
  done = subprocess.run(
    [sys.executable, "-c", READ_IN_OUTAGE, str(root.parent)],
    cwd=repo,
    env=os.environ | environment,
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0, done.stderr
  assert len(done.stdout.splitlines()) == 6


@pytest.mark.slow
def test_a_run_goes_on_after_an_outage_and_replaces_nothing(
  repo, outage, root, tmp_path
):
  environment, begin = outage
  options = {
    "train.dataset": "folder",
    "data_dir": root,
    "train.preprocess": "decode|resize",
    "train.max_bad_examples": 5,
    "evals.test.split": "train",
    **runs.SELDOM,
    "log_every_steps": 1,
    "total_steps": 400,
  }
  runs.end(runs.start(repo, tmp_path / "whole", **options))
  process = runs.start(
    repo, tmp_path / "run", environment=environment, **options
  )
  runs.wait_for(process, lambda: len(runs.lines(tmp_path / "run")) > 3)
  begin.touch()
  time.sleep(3)
  begin.unlink()
  _, errors = runs.end(process)
  assert "cannot be read (Input/output error); trying again" in errors
  assert runs.values(tmp_path / "run") == runs.values(tmp_path / "whole")
  assert not any(
    line.get("data/bad_examples") for line in runs.lines(tmp_path / "run")
  )
