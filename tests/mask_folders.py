"""Folders of generated images and their masks, in the layout of ADE20K."""

import pathlib

import numpy as np
from PIL import Image

# Colours of the background and of two kinds of squares.
COLOURS = np.array([[60, 60, 60], [200, 60, 50], [50, 80, 200]])
BACKGROUND, NUM_CLASSES = 0, 3


def squares(rng, side, patch):
  """An image of noisy coloured squares on a grid, and its labels."""
  grid = rng.choice(NUM_CLASSES, (side // patch,) * 2, p=(0.6, 0.2, 0.2))
  label = np.kron(grid, np.ones((patch, patch), int)).astype(np.uint8)
  noise = rng.normal(0, 20, (side, side, 3))
  image = np.clip(COLOURS[label] + noise, 0, 255).astype(np.uint8)
  return image, label


def write(root, split, images, labels, names=None):
  """Writes images and labels, uint8 [n, h, w, 3] and [n, h, w], as PNGs."""
  for kind, arrays in (("images", images), ("annotations", labels)):
    directory = pathlib.Path(root, kind, split)
    directory.mkdir(parents=True, exist_ok=True)
    for number, array in enumerate(arrays):
      name = names[number] if names else f"{number:03d}"
      Image.fromarray(array).save(directory / f"{name}.png")


def make(root, *, side=16, patch=4, num_train=24, num_test=8):
  """Splits 'training' and 'validation' of squares; their labels by split."""
  labels = {}
  for seed, (split, count) in enumerate(
    (("training", num_train), ("validation", num_test))
  ):
    rng = np.random.default_rng(seed)
    made = [squares(rng, side, patch) for _ in range(count)]
    images, labels[split] = map(np.stack, zip(*made, strict=True))
    write(root, split, images, labels[split])
  return labels
