"""A source that lives in memory, and encoded images to put into it."""

import dataclasses
import io
import tarfile
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from PIL import Image

from vit_jax.data import sources


@dataclasses.dataclass
class MemorySource(sources.Source):
  """A source of given images, for tests."""

  images: Sequence[bytes] | np.ndarray
  labels: np.ndarray
  num_classes: int = 10
  max_labels: int = 1
  fingerprint: str = "memory"

  @property
  def num_examples(self) -> int:
    return len(self.images)

  @property
  def features(self) -> dict[str, sources.Image | sources.Label]:
    raw = isinstance(self.images, np.ndarray)
    return {
      "image": sources.Image(self.images.shape[1:] if raw else None),
      "label": sources.Label(self.num_classes, max_labels=self.max_labels),
    }

  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    if isinstance(self.images, np.ndarray):
      images = self.images[ids]
    else:
      images = np.empty(len(ids), object)
      images[:] = [self.images[i] for i in ids]
    return {"image": images, "label": self.labels[ids]}

  def names(self, ids: np.ndarray) -> list[str]:
    return [f"picture {i}" for i in ids]


@pytest.fixture
def encode() -> Callable[..., bytes]:
  """encode(pixels, format, **options): an image file's bytes."""

  def encode(pixels: np.ndarray, format: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format, **options)
    return file.getvalue()

  return encode


@pytest.fixture
def smooth() -> Callable[..., np.ndarray]:
  """smooth(height, width, seed): uint8 pixels that JPEG hardly changes."""

  def smooth(height: int, width: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    waves = rng.uniform(0, 3, (3, 3))
    planes = [np.sin(a * y + b * x + c) for a, b, c in waves]
    return np.uint8(128 + 100 * np.stack(planes, axis=-1))

  return smooth


@pytest.fixture
def scene(smooth) -> np.ndarray:
  """uint8 [96, 80, 3]: smooth, noisy, even, grey, black and white parts."""
  pixels = smooth(96, 80)
  rng = np.random.default_rng(0)
  pixels[:30, :40] = rng.integers(0, 256, (30, 40, 3), np.uint8)
  pixels[30:40, :20] = 77
  pixels[40:50, :20] = rng.integers(0, 256, (10, 20, 1), np.uint8)
  pixels[50:60, :20], pixels[60:70, :20] = 0, 255
  return pixels


@pytest.fixture(scope="session")
def photographs(shared) -> list[np.ndarray]:
  """12 of ImageNet, uint8 [224, 224, 3]."""
  with tarfile.open(shared / "data" / "imagenet_sample.tar") as archive:
    files = [m for m in archive if m.isfile()][::25]
    images = [Image.open(archive.extractfile(file)) for file in files]
    return [
      np.asarray(i.convert("RGB").resize((224, 224), Image.BICUBIC))
      for i in images
    ]


@pytest.fixture
def memory_source() -> type[MemorySource]:
  return MemorySource


@pytest.fixture
def jpegs(encode, smooth, memory_source) -> MemorySource:
  """20 JPEGs of various sizes, labels 0 to 9 twice."""
  images = [
    encode(smooth(40 + 3 * i, 70 - 2 * i, seed=i), "JPEG") for i in range(20)
  ]
  return memory_source(images, np.arange(20, dtype=np.int32) % 10)


@pytest.fixture
def raw(memory_source) -> MemorySource:
  """24 raw images whose every pixel is the example's number."""
  images = np.zeros((24, 8, 8, 3), np.uint8)
  images += np.arange(24, dtype=np.uint8)[:, None, None, None]
  return memory_source(images, np.arange(24, dtype=np.int32) % 10)
