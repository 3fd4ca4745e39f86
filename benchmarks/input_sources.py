"""Images per second of the forms that data may be stored in, and of torch's.

  python benchmarks/input_sources.py --images=DIR --work=DIR --output=FILE

DIR/CLASS/*.jpg becomes ArrayRecord files, tar files in webdataset's form, a
directory of `save_to_disk` of Hugging Face datasets and Parquet files, unless
--work holds them. Each is read, decoded, cropped to 224 x 224 pixels, mirrored
and made a batch by our pipeline. The libraries webdataset and datasets feed the
same files to torch's loader, with as many workers as there are cores; they and
torch may be missing, and then their rows are. All take turns in every round;
ratios are medians over the rounds. The CPU time of an image, which other work
on the machine changes less, is that of our process, and unknown of torch's
workers.
"""

import argparse
import importlib.util
import io
import itertools
import json
import os
import pathlib
import random
import statistics
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from PIL import Image

_SIZE = 224
_PREPROCESS = f"decode|inception_crop({_SIZE})|flip_lr"
_PER_SHARD = 100
_BASELINE = "array_record"
# What each library's loader is compared with.
_OURS = {"webdataset, torch": "webdataset", "datasets, torch": "datasets"}


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--images", required=True, type=pathlib.Path)
  parser.add_argument("--work", required=True, type=pathlib.Path)
  parser.add_argument("--workers", type=int, default=os.cpu_count())
  parser.add_argument("--batch_size", type=int, default=64)
  parser.add_argument("--seconds", type=float, default=4.0)
  parser.add_argument("--rounds", type=int, default=5)
  parser.add_argument("--output", type=pathlib.Path)
  given = parser.parse_args()
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  given.work.mkdir(parents=True, exist_ok=True)
  starts = contenders(given)
  for start in starts.values():  # Compile, and fill the caches of files.
    rate(start, given.batch_size, 0.5)
  rates: dict[str, list[float]] = {name: [] for name in starts}
  cpu: dict[str, list[float]] = {name: [] for name in starts}
  for number in range(given.rounds):
    names = list(starts)
    for name in names if number % 2 else reversed(names):
      found, spent = rate(starts[name], given.batch_size, given.seconds)
      rates[name].append(found)
      cpu[name].append(spent)
  result = table(rates, cpu)
  if given.output:
    given.output.write_text(json.dumps(result, indent=2) + "\n")


def table(
  rates: Mapping[str, list[float]], cpu: Mapping[str, list[float]]
) -> dict[str, Any]:
  """Prints a row for each contender, and returns what it says."""
  rows = {}
  for name, found in rates.items():
    rows[name] = {"images_per_second": statistics.median(found)}
    text = f"{name:22} {statistics.median(found):6.0f} images/s"
    if name not in _OURS:
      rows[name]["cpu_milliseconds"] = statistics.median(cpu[name])
      text += f", {statistics.median(cpu[name]):.2f} ms of CPU each"
    others = [_BASELINE] if name != _BASELINE and name not in _OURS else []
    if name in _OURS:
      text += f"; {_OURS[name]} over it:"
      pairs = zip(rates[_OURS[name]], found, strict=True)
    else:
      text += f"; over {_BASELINE}:" if others else ""
      pairs = zip(found, rates[_BASELINE], strict=True)
    ratios = [a / b for a, b in pairs]
    if others or name in _OURS:
      rows[name]["ratio"] = statistics.median(ratios)
      text += (
        f" {statistics.median(ratios):.3f} ({min(ratios):.3f} to"
        f" {max(ratios):.3f})"
      )
    print(text)
  return rows


def rate(
  start: Callable[[], Iterator[int]], size: int, least: float
) -> tuple[float, float]:
  """Images per second and milliseconds of CPU each, after the first batches."""
  batches = start()
  for _ in itertools.islice(batches, 8):
    pass
  began, cpu = time.perf_counter(), time.process_time()
  for count, _ in enumerate(batches, start=1):
    seconds = time.perf_counter() - began
    if seconds >= least:
      spent = time.process_time() - cpu
      batches.close()
      return count * size / seconds, 1000 * spent / (count * size)
  raise AssertionError("batches end")


def contenders(
  given: argparse.Namespace,
) -> dict[str, Callable[[], Iterator[int]]]:
  """By name, what starts an endless iterator over batches."""
  from vit_jax.data import sources
  from vit_jax.data.building import build

  paths = sorted(p for p in given.images.glob("*/*") if p.is_file())
  classes = sorted({path.parent.name for path in paths})
  labels = [classes.index(path.parent.name) for path in paths]
  home = given.work / "array_record"
  if not home.exists():
    lines = given.work / "train.jsonl"
    with lines.open("w") as file:
      for path, label in zip(paths, labels, strict=True):
        relative = str(path.relative_to(given.images))
        file.write(json.dumps({"path": relative, "label": label}) + "\n")
    build.build(
      "photographs",
      str(home),
      str(lines),
      image_root=str(given.images),
      num_workers=1,
      show=lambda *_: None,
    )
  shards = write_tars(given.work / "tars", paths, labels)
  opened = {
    _BASELINE: sources.open_source("photographs", "train", data_dir=str(home)),
    "webdataset": sources.open_source(
      f"webdataset:{given.work}/tars/*.tar", "train", data_dir=None
    ),
  }
  blocks = {}
  has_datasets = importlib.util.find_spec("datasets") is not None
  if has_datasets:
    saved = write_saved(given.work, paths, labels, classes)
    opened["datasets"] = sources.open_source(
      f"datasets:{saved}", "train", data_dir=None
    )
    parquet, blocks["parquet in place"] = given.work / "parquet", _PER_SHARD
    opened["parquet in place"] = sources.open_source(
      f"datasets:{parquet}", "train", data_dir=None, shuffle_block=_PER_SHARD
    )
  found = {
    name: ours(source, given.batch_size, blocks.get(name, 1))
    for name, source in opened.items()
  }
  if importlib.util.find_spec("torch") is None:
    return found
  if importlib.util.find_spec("webdataset"):
    found["webdataset, torch"] = torch_webdataset(shards, given)
  if has_datasets:
    found["datasets, torch"] = torch_datasets(saved, given)
  return found


def write_tars(
  home: pathlib.Path, paths: list[pathlib.Path], labels: list[int]
) -> list[str]:
  """Writes photographs and classes, shuffled once as shards are."""
  order = random.Random(0).sample(range(len(paths)), len(paths))
  for first in range(0, len(paths), _PER_SHARD):
    file = home / f"{first // _PER_SHARD:03d}.tar"
    file.parent.mkdir(exist_ok=True)
    if file.exists():
      continue
    with tarfile.open(file, "w") as tar:
      for number in order[first : first + _PER_SHARD]:
        parts = {"jpg": paths[number].read_bytes()}
        parts["cls"] = str(labels[number]).encode()
        for suffix, content in parts.items():
          member = tarfile.TarInfo(f"{number:06d}.{suffix}")
          member.size = len(content)
          tar.addfile(member, io.BytesIO(content))
  return sorted(map(str, home.glob("*.tar")))


def write_saved(
  work: pathlib.Path,
  paths: list[pathlib.Path],
  labels: list[int],
  classes: list[str],
) -> str:
  """Writes the library's two forms; returns the directory of the saved one."""
  import datasets

  saved, parquet = work / "saved", work / "parquet"
  if not parquet.exists():
    features = datasets.Features(
      image=datasets.Image(), label=datasets.ClassLabel(names=classes)
    )
    images = [{"bytes": p.read_bytes(), "path": p.name} for p in paths]
    values = {"image": images, "label": labels}
    found = datasets.Dataset.from_dict(values, features=features)
    found.save_to_disk(saved)
    parquet.mkdir()
    found.to_parquet(parquet / "train.parquet", batch_size=_PER_SHARD)
  return str(saved)


def ours(
  source: Any, batch_size: int, shuffle_block: int
) -> Callable[[], Iterator[int]]:
  """Our pipeline from a source to batches on the device."""
  import jax

  from vit_jax.config import schema
  from vit_jax.data import features, pipeline, spec
  from vit_jax.sharding import mesh

  parsed = spec.parse(_PREPROCESS, _SIZE)
  declared = features.of_images(parsed).of_source(source)
  devices = mesh.create_mesh(schema.Mesh())

  def start() -> Iterator[int]:
    batches = pipeline.TrainBatches(
      source,
      features=declared,
      batch_size=batch_size,
      seed=0,
      shuffle_block=shuffle_block,
      first_example=0,
      mesh=devices,
      prefetch_batches=2,
    )
    try:
      for batch in batches:
        jax.block_until_ready(batch)
        yield batch_size
    finally:
      batches.close()

  return start


def augmented(image: Image.Image) -> Any:
  """A random crop and mirroring, as people write them with Pillow."""
  import torch

  image = image.convert("RGB")
  image = image.resize((_SIZE, _SIZE), Image.BILINEAR, box=window(image))
  if random.random() < 0.5:
    image = image.transpose(Image.FLIP_LEFT_RIGHT)
  return torch.from_numpy(np.array(image).transpose(2, 0, 1))


def window(image: Image.Image) -> tuple[float, float, float, float]:
  """Draws a box of 8 % of the area or more, 3:4 to 4:3, inside of an image."""
  width, height = image.size
  for _ in range(10):
    area = width * height * random.uniform(0.08, 1)
    aspect = random.uniform(3 / 4, 4 / 3)
    w, h = (area * aspect) ** 0.5, (area / aspect) ** 0.5
    if w <= width and h <= height:
      left, top = random.uniform(0, width - w), random.uniform(0, height - h)
      return left, top, left + w, top + h
  return 0, 0, width, height


def torch_webdataset(
  shards: list[str], given: argparse.Namespace
) -> Callable[[], Iterator[int]]:
  """webdataset's own pipeline in torch's loader."""
  import torch
  import webdataset

  def start() -> Iterator[int]:
    found = (
      webdataset.WebDataset(
        shards, resampled=True, shardshuffle=False, nodesplitter=None
      )
      .shuffle(_PER_SHARD)
      .decode("pil")
      .to_tuple("jpg", "cls")
      .map_tuple(augmented)
      .batched(given.batch_size, partial=False)
    )
    loader = torch.utils.data.DataLoader(
      found,
      batch_size=None,
      num_workers=given.workers,
      multiprocessing_context="spawn",  # A fork does not suit jax's threads.
    )
    for images, _ in loader:
      yield len(images)

  return start


def transform(records: dict[str, list[Any]]) -> dict[str, list[Any]]:
  return records | {"image": list(map(augmented, records["image"]))}


class _Endless:
  """A sampler of random records without an end."""

  def __init__(self, count: int):
    self._count = count

  def __iter__(self) -> Iterator[int]:
    while True:
      yield from np.random.permutation(self._count).tolist()


def torch_datasets(
  saved: str, given: argparse.Namespace
) -> Callable[[], Iterator[int]]:
  """The library's records, transformed as they are read, in torch's loader."""
  import datasets
  import torch

  def start() -> Iterator[int]:
    found = datasets.load_from_disk(saved).with_transform(transform)
    loader = torch.utils.data.DataLoader(
      found,
      given.batch_size,
      sampler=_Endless(len(found)),
      num_workers=given.workers,
      multiprocessing_context="spawn",
    )
    for batch in loader:
      yield len(batch["image"])

  return start


if __name__ == "__main__":
  main()
