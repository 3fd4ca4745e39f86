"""Small inputs of every form, and a way to build datasets of them."""

import io
import json
import pathlib
import tarfile

import numpy as np
from PIL import Image

from vit_jax.data import sources
from vit_jax.data.building import build

CLASSES = ("ant", "bee", "cat")


def png(number: int) -> bytes:
  """A picture that no other number has."""
  file = io.BytesIO()
  pixels = np.full((4, 4, 3), number, np.uint8)
  Image.fromarray(pixels).save(file, "PNG")
  return file.getvalue()


def folder(root: pathlib.Path, **counts: int) -> pathlib.Path:
  """root/SPLIT/CLASS/NUMBER.png; picture i is of class i % 3."""
  for split, count in (counts or {"train": 20, "test": 7}).items():
    for i in range(count):
      path = root / split / CLASSES[i % 3] / f"{i}.png"
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_bytes(png(i))
  return root


def tar(path: pathlib.Path, files: dict[str, bytes]) -> pathlib.Path:
  """A tar file of these names and contents."""
  path.parent.mkdir(parents=True, exist_ok=True)
  with tarfile.open(path, "w") as archive:
    for name, content in files.items():
      member = tarfile.TarInfo(name)
      member.size = len(content)
      archive.addfile(member, io.BytesIO(content))
  return path


def tars(root: pathlib.Path, count: int = 20) -> pathlib.Path:
  """root/CLASS.tar; picture i is in that of class i % 3."""
  for label, name in enumerate(CLASSES):
    numbers = range(label, count, 3)
    tar(root / f"{name}.tar", {f"{name}_{i}.png": png(i) for i in numbers})
  return root


def lines(path: pathlib.Path, *values: object) -> pathlib.Path:
  """A file of these JSON values, one a line."""
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text("".join(json.dumps(value) + "\n" for value in values))
  return path


def make(
  data_dir: pathlib.Path, path: pathlib.Path, name: str = "toy", **options
) -> build.Built:
  """Builds a dataset in this process."""
  arguments = {"num_workers": 1, "show": lambda *_: None, **options}
  return build.build(name, str(data_dir), str(path), **arguments)


def pairs(
  data_dir: pathlib.Path, split: str = "train", name: str = "toy", **keys
) -> list[tuple[bytes, object]]:
  """(image, label or list of labels) of every record, in their order."""
  source = sources.open_source(name, split, data_dir=str(data_dir), **keys)
  batch = source.read(np.arange(source.num_examples))
  return list(zip(batch["image"], batch["label"].tolist(), strict=True))


def contents(directory: pathlib.Path) -> dict[str, bytes]:
  """File name -> bytes of a directory."""
  return {path.name: path.read_bytes() for path in directory.iterdir()}
