"""Images per second of timm's augmentation in torch's loader, for comparison.

  python benchmarks/timm_input.py --images=DIR --workers=2

DIR/CLASS/*.jpg is decoded with Pillow, cropped as torchvision's
RandomResizedCrop to 224 x 224 pixels, bicubic, augmented by timm's own
rand-m9-mstd0.5-inc1, mirrored and made a batch. torch and timm are needed, but
not torchvision: the crop is written out here. Ours on the same files is

  python -m vit_jax.benchmark input --config=configs/finetune_folder.py \\
      --config.data_dir=PARENT --config.model.image_size=224 \\
      --config.train.preprocess='decode|random_resized_crop|randaug(2, 9, 0.5, True)|flip_lr'

where DIR is PARENT/train. With --crop_only images are only cropped, bilinearly,
and mirrored, to compare with 'decode|inception_crop|flip_lr'.
"""  # noqa: E501

import argparse
import importlib.util
import math
import pathlib
import random
import statistics
import time

import numpy as np
import torch
from PIL import Image

_SIZE = 224
_MEAN = (124, 116, 104)


def auto_augment():
  """Imports timm's file alone, as the package would import torchvision."""
  timm = importlib.util.find_spec("timm").submodule_search_locations[0]
  path = pathlib.Path(timm, "data", "auto_augment.py")
  spec = importlib.util.spec_from_file_location("auto_augment", path)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


class Photographs(torch.utils.data.Dataset):
  """The files of a folder, over and over."""

  def __init__(self, paths: list[pathlib.Path], length: int, crop_only: bool):
    self._paths = paths
    self._length = length
    self._method = Image.BILINEAR if crop_only else Image.BICUBIC
    self._augment = None
    if not crop_only:
      # Posterizing to no bits, where magnitudes reach 10, fails in Pillow 13.
      self._augment = auto_augment().rand_augment_transform(
        "rand-m9-mstd0.5-inc1",
        {
          "img_mean": _MEAN,
          "interpolation": self._method,
          "magnitude_max": 9.99,
        },
      )

  def __len__(self) -> int:
    return self._length

  def __getitem__(self, index: int) -> torch.Tensor:
    with Image.open(self._paths[index % len(self._paths)]) as image:
      image = image.convert("RGB")
    image = image.resize((_SIZE, _SIZE), self._method, box=window(image))
    if random.random() < 0.5:
      image = image.transpose(Image.FLIP_LEFT_RIGHT)
    if self._augment:
      image = self._augment(image)
    return torch.from_numpy(np.array(image).transpose(2, 0, 1))


def window(image: Image.Image) -> tuple[int, int, int, int]:
  """Draws left, top, right and bottom as torchvision does."""
  width, height = image.size
  for _ in range(10):
    area = width * height * random.uniform(0.08, 1)
    aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
    w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
    if 0 < w <= width and 0 < h <= height:
      left = random.randint(0, width - w)
      top = random.randint(0, height - h)
      return left, top, left + w, top + h
  return 0, 0, width, height


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--images", required=True, type=pathlib.Path)
  parser.add_argument("--workers", type=int, default=2)
  parser.add_argument("--batch_size", type=int, default=64)
  parser.add_argument("--batches", type=int, default=20)
  parser.add_argument("--rounds", type=int, default=3)
  parser.add_argument("--crop_only", action="store_true")
  given = parser.parse_args()
  paths = sorted(p for p in given.images.glob("*/*") if p.is_file())
  rates = []
  for _ in range(given.rounds):
    warm_up = 2 * given.workers
    loader = torch.utils.data.DataLoader(
      Photographs(
        paths, given.batch_size * (given.batches + warm_up), given.crop_only
      ),
      given.batch_size,
      shuffle=True,
      num_workers=given.workers,
    )
    batches = iter(loader)
    for _ in range(warm_up):
      next(batches)
    start = time.perf_counter()
    count = sum(len(batch) for batch in batches)
    rates.append(count / (time.perf_counter() - start))
  what = "crop and flip" if given.crop_only else "timm's augmentation"
  print(
    f"{what}, {given.workers} workers:"
    f" {statistics.median(rates):.0f} images/s ({min(rates):.0f} to"
    f" {max(rates):.0f} in {len(rates)} rounds)"
  )


if __name__ == "__main__":
  main()
