"""Runs the study of docs/selfsupervised_study.md and prints its table.

  python benchmarks/study_selfsupervised.py --data_dir=CIFAR10 --runs=DIR
      [--seen=1000000] [--draws=1] [--methods=dino,mae]

Trains each run of configs/study_selfsupervised.py in turn, then tunes each on
10 labels a class, which are drawn anew `draws` times, and measures raw pixels.
Finished runs are not repeated, and interrupted runs resume; BEiT needs the run
`random`, VQ-KD the run `mae`, and BEiT v2 the run `vqkd`. Prints a table of the
finished runs and writes the accuracy over the compute to DIR/neighbors.svg.
`--methods=` alone only does the latter two.
"""

import argparse
import json
import os
import pathlib
import sys

import numpy as np
from jax.sharding import Mesh
from PIL import Image

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import studies  # noqa: E402
from configs import study_selfsupervised as study  # noqa: E402
from vit_jax.config import schema  # noqa: E402
from vit_jax.data import folder  # noqa: E402
from vit_jax.evaluators import knn, linear_probe  # noqa: E402
from vit_jax.evaluators.features import Examples  # noqa: E402
from vit_jax.report import formatting, load  # noqa: E402
from vit_jax.report.figures import curves, svg  # noqa: E402
from vit_jax.report.run import Series  # noqa: E402
from vit_jax.report.tables import page  # noqa: E402
from vit_jax.sharding import mesh as meshes  # noqa: E402

_LABELS = 10  # Of each class, to tune on.
_CLASSES = 10
_FIFTH = 10_000
_WATCHED = "knn/fifth/k20"
_KNN, _PROBE = "knn/all/k20", "linear_probe/all/top1"
_TUNED = "eval/test/top1"
_CENTRED = "centred"
# Tuned without pre-training.
_SCRATCH = {"random": "scratch", "random_convnext": "scratch_convnext"}


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--data_dir", required=True, help="An image folder.")
  parser.add_argument("--runs", required=True, help="Directory of the runs.")
  parser.add_argument("--seen", type=int, default=study.SEEN)
  parser.add_argument("--draws", type=int, default=1)
  parser.add_argument(
    "--methods", default=",".join((*study.RANDOM, *study.MACS))
  )
  options = parser.parse_args()
  data = pathlib.Path(options.data_dir).absolute()
  runs = pathlib.Path(options.runs).absolute()
  methods = list(filter(None, options.methods.split(",")))
  for method in methods:
    arguments = f"run={method},seen={options.seen}"
    if method == "beit":
      arguments += f",tokenizer={_make_tokenizer(data, runs)}"
    elif method == "beitv2":
      arguments += f",tokenizer={runs / 'vqkd'}"
    elif method == "vqkd":
      arguments += f",teacher={runs / 'mae'}"
    studies.command(
      "train", f"study_selfsupervised.py:{arguments}", str(data), runs / method
    )
  for draw in range(options.draws if methods else 0):
    few = runs / f"few_{draw}"
    if not few.exists():
      _draw_labels(data, few, draw)
    for method in methods:
      network = "convnext" if method in study.CONVNEXTS else "vit"
      start = [f"--config.init_from={runs / method}"]
      studies.command(
        "train",
        f"study_selfsupervised.py:run=tuned,network={network}",
        str(few),
        runs / f"tuned_{_SCRATCH.get(method, method)}_{draw}",
        f"--config.seed={draw}",
        *([] if method in _SCRATCH else start),
      )
  pixels = runs / "pixels.json"
  if methods and not pixels.exists():
    pixels.write_text(json.dumps(_measure_pixels(str(data))))
  _print_table(runs)
  (runs / "neighbors.svg").write_text(page.standalone([_figure(runs)]))


def _make_tokenizer(data: pathlib.Path, runs: pathlib.Path) -> pathlib.Path:
  """BEiT's tokens, made once: features of random weights in clusters."""
  output = runs / "tokens.npz"
  if not output.exists():
    studies.run(
      "prepare",
      "tokenizer",
      "--images=folder",
      f"--data_dir={data}",
      f"--checkpoint={runs / 'random'}",
      f"--tokens={study.TOKENS}",
      f"--output={output}",
    )
  return output


def _draw_labels(data: pathlib.Path, few: pathlib.Path, seed: int) -> None:
  """A folder of all test images and ten training images a class, by links."""
  rng = np.random.default_rng(seed)
  for split in ("test", "train"):
    for directory in sorted((data / split).iterdir()):
      images = sorted(directory.iterdir())
      if split == "train":
        chosen = rng.choice(len(images), _LABELS, replace=False)
        images = [images[i] for i in chosen]
      place = few / split / directory.name
      place.mkdir(parents=True)
      for image in images:
        os.link(image, place / image.name)


def _measure_pixels(data_dir: str) -> dict[str, float]:
  """Accuracy of k-NN and of a linear classifier on the pixels themselves.

  k-NN sees them as they are, and minus their mean over the training images. The
  l2 of the probe is fixed, and its iterations are few: 3072 features are dear.
  """
  train, test = (_pixels(data_dir, split) for split in ("train", "test"))
  mesh = meshes.create_mesh(schema.Mesh())
  fifth = train.rows(np.arange(_FIFTH))
  found = {
    _WATCHED: _neighbors(fifth, test, mesh),
    _KNN: _neighbors(train, test, mesh),
  }
  mean = train.features.mean(axis=0)
  for examples in (train, test):
    np.subtract(examples.features, mean, out=examples.features)
  found[_CENTRED] = _neighbors(train, test, mesh)
  probe = linear_probe.probe(
    train,
    test,
    num_classes=_CLASSES,
    l2_sweep=(1e-2,),
    held_out=0.1,
    max_iterations=50,
    mesh=mesh,
    heartbeat=lambda: None,
  )
  return {**found, _PROBE: probe.top1}


def _neighbors(train: Examples, test: Examples, mesh: Mesh) -> float:
  """Accuracy of 20 nearest neighbours."""
  return knn.accuracies(
    train,
    test,
    num_classes=_CLASSES,
    neighbor_counts=(20,),
    temperature=0.07,
    mesh=mesh,
    heartbeat=lambda: None,
  )[20]


def _pixels(data_dir: str, split: str) -> Examples:
  """Pixels from 0 to 1 in the order of the split."""
  source = folder.scan(split, data_dir)
  images = [np.asarray(Image.open(path)) for path in source.paths]
  flat = np.stack(images).reshape(len(images), -1).astype(np.float32) / 255
  return Examples(flat, source.labels.astype(np.int64))


def _print_table(runs: pathlib.Path) -> None:
  print("\nfeatures         steps   k-NN    probe   tuned on 10 labels a class")
  pixels = runs / "pixels.json"
  if pixels.exists():
    found = json.loads(pixels.read_text())
    print(f"{'pixels':15}  {'':6}  {found[_KNN]:.4f}  {found[_PROBE]:.4f}")
    print(f"{'centred':15}  {'':6}  {found[_CENTRED]:.4f}")
  for method in (*study.RANDOM, *study.MACS):
    summary = runs / method / "summary.json"
    found = studies.metrics(runs / method) if summary.exists() else {}
    if _PROBE not in found:
      print(f"{method:15}  not finished")
      continue
    series = load.load_run(runs / method, with_evaluations=False)
    steps = int(series.series(_WATCHED).steps[-1])
    origin = _SCRATCH.get(method, method)
    draws = [
      studies.metrics(path.parent)
      for path in sorted(runs.glob(f"tuned_{origin}_*/summary.json"))
    ]
    tuned = [draw[_TUNED] for draw in draws if _TUNED in draw]
    shown = " ".join(f"{value:.4f}" for value in tuned)
    mean = f"mean {np.mean(tuned):.4f} of {shown}" if tuned else "not run"
    print(
      f"{method:15}  {steps:6}  {found[_KNN]:.4f}  {found[_PROBE]:.4f}  {mean}"
    )


def _figure(runs: pathlib.Path) -> svg.Figure:
  """k-NN accuracy over compute, of runs that are not finished too."""
  lines = []
  for method in study.MACS:
    if not (runs / method / "metrics.jsonl").exists():
      continue
    series = load.load_run(runs / method, with_evaluations=False).series(
      _WATCHED
    )
    images = series.steps * study.BATCH_SIZE
    spent = np.round(images * study.MACS[method] / study.MACS["supervised"])
    lines.append(curves.Line(method, Series(spent, series.values)))
  end = max((line.series.steps[-1] for line in lines), default=1)
  ends = np.array([0, end])
  if (runs / "random" / "summary.json").exists():
    value = studies.metrics(runs / "random")[_WATCHED]
    lines.append(curves.Line("random", Series(ends, np.full(2, value))))
  if (runs / "pixels.json").exists():
    value = json.loads((runs / "pixels.json").read_text())[_WATCHED]
    lines.append(curves.Line("pixels", Series(ends, np.full(2, value))))
  drawn = curves.draw(
    lines,
    unit="k-NN accuracy, 20 of 10,000 neighbours",
    x_label="compute, in images of the supervised run",
    label="k-NN accuracy over compute of each method",
    scale=curves.Scale(label=formatting.percent_tick),
    span=(0, end),
  )
  return svg.Figure(drawn, "Each way to learn, at equal compute.")


if __name__ == "__main__":
  main()
