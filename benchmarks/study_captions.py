"""Runs the study of docs/captions_study.md and prints its table.

  python benchmarks/study_captions.py --data_dir=CIFAR10 --runs=DIR
      [--seen=750000]

Makes captions of the images of CIFAR-10, an image folder: DIR/data has links to
the folder's images, lists of their captions and a tokenizer learnt from them;
DIR/data_of_names has the same with captions that name the class alone.
Trains each run of configs/study_captions.py in turn; finished runs are not
repeated, and interrupted runs resume. Prints a table with the accuracy on
the test images, and the share of images of a colour among the ten that are
nearest to its word.
"""

import argparse
import collections
import colorsys
import json
import os
import pathlib
import sys

import numpy as np
from PIL import Image

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import vit_jax  # noqa: E402
from benchmarks import studies  # noqa: E402
from configs import study_captions  # noqa: E402
from vit_jax.tokenization import learn  # noqa: E402

_HUES = {
  **{0.0: "red", 0.09: "brown", 0.16: "yellow", 0.33: "green", 0.58: "blue"},
  **{0.85: "purple", 1.0: "red"},
}
_GREY = 0.13  # Saturation below which there is no hue.
_DARK, _BRIGHT = 0.33, 0.66
_CAPTIONS = (
  "a photo of a {name}.",
  "a {colour} photo of a {name}.",
  "a {colour} {name}.",
  "a {colour} picture.",
)
_NAMES = _CAPTIONS[:1]
_NEAREST = 10


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--data_dir", required=True, help="An image folder.")
  parser.add_argument("--runs", required=True, help="Directory of the runs.")
  parser.add_argument("--seen", type=int, default=study_captions.SEEN)
  options = parser.parse_args()
  runs = pathlib.Path(options.runs).absolute()
  data = runs / "data"
  names = runs / "data_of_names"
  source = pathlib.Path(options.data_dir).absolute()
  for folder, templates in ((data, _CAPTIONS), (names, _NAMES)):
    if not (folder / "test" / "captions.jsonl").exists():
      _make_data(source, folder, templates)
  if not (data / "tokenizer").exists():
    _learn_tokenizer(data)
  for run in study_captions.RUNS:
    overrides = []
    if run != "supervised":
      overrides = [f"--config.train.tokenizer={data / 'tokenizer'}"]
    if run == "lit":
      overrides += [
        f"--config.init_from={runs / 'supervised'}",
        f"--config.objective.cache_frozen={runs / 'cache'}",
      ]
    studies.command(
      "train",
      f"study_captions.py:run={run},seen={options.seen}",
      str(names if run == "names" else data),
      runs / run,
      *overrides,
    )
  print(
    "\nrun         steps  top1    R@10 text  R@10 image  colour of 10 nearest"
  )
  for run in study_captions.RUNS:
    found = studies.metrics(runs / run)
    if run == "supervised":
      print(f"{run:10}  {found['eval/test/top1']:.4f}")
      continue
    recall = [
      found[f"retrieval/test/{direction}_r10"]
      for direction in ("image_to_text", "text_to_image")
    ]
    right, chance = _colours_found(runs / run, data)
    print(
      f"{run:10}  {found['zeroshot/cifar10/top1']:.4f}"
      f"  {recall[0]:.4f}     {recall[1]:.4f}      {right:.3f} (chance"
      f" {chance:.3f})"
    )


def colour(pixels: np.ndarray) -> str:
  """The word for the mean colour of an image, uint8 [h, w, 3]."""
  red, green, blue = pixels.reshape(-1, 3).mean(axis=0) / 255
  hue, saturation, value = colorsys.rgb_to_hsv(red, green, blue)
  if saturation < _GREY:
    if value < _DARK:
      return "dark"
    return "bright" if value > _BRIGHT else "grey"
  return _HUES[min(_HUES, key=lambda known: abs(known - hue))]


def _make_data(
  source: pathlib.Path, data: pathlib.Path, templates: tuple[str, ...]
) -> None:
  """Images by hard links, since a list names files below its own folder."""
  for split in ("train", "test"):
    lines, counts = [], collections.Counter()
    for path in sorted((source / split).glob("*/*.*")):
      place = data / split / path.parent.name / path.name
      place.parent.mkdir(parents=True, exist_ok=True)
      if not place.exists():
        os.link(path, place)
      word = colour(np.asarray(Image.open(path)))
      counts[word] += 1
      name = path.parent.name
      captions = [text.format(colour=word, name=name) for text in templates]
      image = f"{name}/{path.name}"
      lines.append(json.dumps({"image": image, "caption": captions}))
    text = "\n".join(lines) + "\n"
    (data / split / "captions.jsonl").write_text(text)
    print(split, dict(counts.most_common()), flush=True)


def _learn_tokenizer(data: pathlib.Path) -> None:
  """Learns a vocabulary from all captions."""
  captions = set()
  for path in sorted(data.glob("*/captions.jsonl")):
    for line in path.read_text().splitlines():
      captions.update(json.loads(line)["caption"])
  (data / "captions.txt").write_text("\n".join(sorted(captions)) + "\n")
  tokenizer = learn.learn(
    str(data / "captions.txt"),
    "bpe",
    study_captions.VOCAB_SIZE,
    study_captions.LENGTH,
  )
  (data / "tokenizer").mkdir()
  for name, content in tokenizer.files.items():
    (data / "tokenizer" / name).write_bytes(content)


def _colours_found(
  workdir: pathlib.Path, data: pathlib.Path
) -> tuple[float, float]:
  """The share of images near a word that have its colour, and chance."""
  model, params = vit_jax.load(str(workdir))
  tokenizer = vit_jax.load_tokenizer(str(workdir))
  paths = sorted((data / "test").glob("*/*.*"))
  images = np.stack([np.asarray(Image.open(path)) for path in paths])
  truth = np.array([colour(image) for image in images])
  embedded = np.concatenate(
    [
      model.apply({"params": params}, part)["image_embedding"]
      for part in np.array_split(images, -(-len(images) // 500))
    ]
  )
  words, counts = np.unique(truth, return_counts=True)
  texts = tokenizer([f"a {word} picture." for word in words])
  found = model.apply({"params": params}, None, texts)["text_embedding"]
  nearest = np.argsort(-np.asarray(found) @ embedded.T, axis=1)[:, :_NEAREST]
  right = truth[nearest] == words[:, None]
  return float(right.mean()), float(np.mean(counts / len(truth)))


if __name__ == "__main__":
  main()
