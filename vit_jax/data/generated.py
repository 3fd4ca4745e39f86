"""Images drawn on demand: data of any structure, without storage.

'generated:classes=10,size=32,examples=512,labels=1,seed=0' has 512 training
images of 32 px in 10 classes (the defaults); `validation` and `test` have a
quarter of that each. Every class has its own stripes and colour, every image
its own phase and noise: a model can learn the classes, but not by comparing
pixels. With labels=3 an image shows one to three classes at once, and its
labels are a list padded with -1. With captions=2 it also has two captions,
sentences about its classes, which then have names. With targets=2 an image has
two numbers instead of classes: its levels of red and green.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence

import numpy as np

from vit_jax.data import sources, splits
from vit_jax.errors import UserError

_DEFAULTS = {
  "classes": 10,
  "size": 32,
  "examples": 512,
  "labels": 1,
  "seed": 0,
  "captions": 0,
  "targets": 0,
}
_AT_LEAST = {"classes": 2, "size": 1, "examples": 4, "labels": 1}
_COLOURS = ("red", "green", "blue")
_DARKEST, _BRIGHTEST = 40.0, 215.0
_SENTENCES = ("stripes of {}", "a picture of {}", "{} and some noise")
_AT_MOST = {"captions": len(_SENTENCES), "targets": len(_COLOURS)}
# Distance between splits in the numbering that seeds the noise, so that no two
# splits share an image.
_SPLIT_STRIDE = 2**40


def open_source(
  arguments: str, split: str, **unused: object
) -> "GeneratedSource":
  """Opens generated data; see `vit_jax.data.sources.open_source`.

  The directory, names of features and limits on damage are ignored.
  """
  values = check(arguments)
  counts = {
    "train": values["examples"],
    "validation": values["examples"] // 4,
    "test": values["examples"] // 4,
  }
  pieces = splits.resolve(
    split, {name: [n] for name, n in counts.items()}, dataset="generated"
  )
  offsets = {name: i * _SPLIT_STRIDE for i, name in enumerate(counts)}
  num_captions, num_targets = values.pop("captions"), values.pop("targets")
  name = ",".join(f"{key}={value}" for key, value in values.items())
  names = None
  if num_captions:
    names = tuple(f"class {label}" for label in range(values["classes"]))
  features = {
    "image": sources.Image((values["size"], values["size"], 3)),
    "label": sources.Label(values["classes"], names, values["labels"]),
  }
  if num_captions:
    name += f",captions={num_captions}"
    features["text"] = sources.Text()
  if num_targets:
    name += f",targets={num_targets}"
    features["label"] = sources.Numbers(_COLOURS[:num_targets])
  return GeneratedSource(
    num_examples=splits.count(pieces),
    features=features,
    fingerprint=f"generated:{name}:{split}:{splits.count(pieces)}",
    seed=values["seed"],
    num_captions=num_captions,
    pieces=tuple(pieces),
    offsets=tuple(offsets[piece.name] for piece in pieces),
  )


@dataclasses.dataclass(frozen=True)
class GeneratedSource(sources.Source):
  """A split of generated data; see `sources.Source`."""

  num_examples: int
  features: Mapping[str, sources.Feature]
  fingerprint: str
  seed: int
  num_captions: int
  pieces: Sequence[splits.Piece]
  offsets: Sequence[int]

  def _keys(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions in the splits, and the keys that the noise is drawn from."""
    which, positions = splits.locate(self.pieces, np.asarray(ids))
    return positions, np.asarray(self.offsets)[which] + positions

  def known_labels(self) -> np.ndarray:
    positions, keys = self._keys(np.arange(self.num_examples))
    if self.numbers:
      levels = [_level(_generator(self.seed, int(key))) for key in keys]
      return np.array(levels).reshape(-1, 3)[:, : len(self.numbers)]
    labels = _labels(positions, self.num_classes, self.max_labels)
    return labels[:, 0] if self.max_labels == 1 else labels

  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    positions, keys = self._keys(ids)
    images = np.empty((len(positions), *self.image_shape), np.uint8)
    if self.numbers:
      levels = np.empty((len(keys), 3))
      for image, key, level in zip(images, keys, levels, strict=True):
        rng = _generator(self.seed, int(key))
        level[:] = _level(rng)
        image[:] = np.clip(level + rng.normal(0, 12, image.shape), 0, 255)
      return {"image": images, "label": levels[:, : len(self.numbers)]}
    labels = _labels(positions, self.num_classes, self.max_labels)
    for image, key, shown in zip(images, keys, labels, strict=True):
      classes = shown[shown >= 0]
      image[:] = _draw(self.seed, int(key), classes, self.image_shape[0])
    label = labels[:, 0] if self.max_labels == 1 else labels
    result = {"image": images, "label": label}
    if self.num_captions:
      result["text"] = _captions(labels, self.num_captions)
    return result

  def names(self, ids: np.ndarray) -> list[str]:
    which, positions = splits.locate(self.pieces, np.asarray(ids))
    return [
      f"generated {self.pieces[w].name} image {position}"
      for w, position in zip(which, positions, strict=True)
    ]


def _labels(
  positions: np.ndarray, num_classes: int, max_labels: int
) -> np.ndarray:
  """Returns int32 [n, max_labels]: consecutive classes, then -1.

  The first label cycles through the classes, so any `num_classes` consecutive
  images have each class once; the number of labels cycles from 1 to
  `max_labels`.
  """
  column = np.arange(max_labels)
  labels = (positions[:, None] + column) % num_classes
  counts = 1 + positions // num_classes % min(max_labels, num_classes)
  return np.where(column < counts[:, None], labels, -1).astype(np.int32)


def _generator(seed: int, key: int) -> np.random.Generator:
  """Random number generator of one image."""
  return np.random.Generator(np.random.Philox(key=seed, counter=key << 64))


def _level(rng: np.random.Generator) -> np.ndarray:
  """Draws float64 [3], the level of each colour in an image."""
  return rng.uniform(_DARKEST, _BRIGHTEST, len(_COLOURS))


def _captions(labels: np.ndarray, count: int) -> np.ndarray:
  """Returns object [n], `count` captions each, for int32 [n, max_labels]."""
  texts = np.empty(len(labels), object)
  for row, shown in enumerate(labels):
    classes = " and ".join(f"class {label}" for label in shown[shown >= 0])
    texts[row] = tuple(text.format(classes) for text in _SENTENCES[:count])
  return texts


def _draw(seed: int, key: int, classes: np.ndarray, size: int) -> np.ndarray:
  """Draws uint8 [size, size, 3], the mean of the patterns of its classes."""
  rng = _generator(seed, key)
  axis = np.arange(size, dtype=np.float32) / size
  image = np.zeros((size, size, 3), np.float32)
  for label in classes:
    style = np.random.Generator(
      np.random.Philox(key=seed, counter=int(label) << 128)
    )
    # Two to six waves across the image at any angle, in the class's colour.
    angle, waves = style.uniform([0, 2], [np.pi, 6]).astype(np.float32)
    colour = style.uniform(-80, 80, 3).astype(np.float32)
    along_y, along_x = waves * np.sin(angle), waves * np.cos(angle)
    phase = np.float32(rng.random())
    turns = along_y * axis[:, None] + along_x * axis + phase
    stripes = np.cos(2 * np.pi * turns)
    image += 128 + colour * (0.5 + stripes[..., None])
  image = image / len(classes)
  image += rng.normal(0, 12, image.shape).astype(np.float32)
  return np.clip(image, 0, 255).astype(np.uint8)


def check(arguments: str) -> dict[str, int]:
  """Parses the part after 'generated:'.

  Raises:
    UserError: An argument, named in the message, is unknown or out of range.
  """
  values = dict(_DEFAULTS)
  for part in filter(None, arguments.split(",")):
    match = re.fullmatch(r"\s*(\w+)\s*=\s*(\d{1,9})\s*", part)
    if not match or match[1] not in values:
      raise UserError(
        f"generated: {part.strip()!r} is not an argument; known are"
        f" {', '.join(values)}, each with a whole number of up to"
        " nine digits, as in"
        " 'generated:classes=10,size=32,examples=512,labels=1,seed=0'."
      )
    name, value = match[1], int(match[2])
    least = _AT_LEAST.get(name, 0)
    if value < least:
      raise UserError(
        f"generated: {name}={value} is too small; use {least} or more."
      )
    most = _AT_MOST.get(name, value)
    if value > most:
      raise UserError(
        f"generated: {name}={value} is too large; use {most} or less."
      )
    values[name] = value
  if values["captions"] and values["targets"]:
    raise UserError(
      "generated: captions are sentences about classes, which data with targets"
      " lack; leave out one of the two."
    )
  return values
