"""The study of docs/study.md: a ViT and a ResNet on parts of CIFAR-10.

  python benchmarks/study_small.py --data_dir=CIFAR10 --runs=DIR [--seeds=1]

For each network the learning rate is found first, in short runs on a quarter of
the images, measured on images held out of train. Then it trains on 1/16, 1/4
and all of them. What is finished is not run again, and what was cut short goes
on. Prints a table; the plot is that of

  python -m vit_jax.tables --figure=4 --runs=DIR --metric=eval/test/top1
"""

import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import studies  # noqa: E402
from configs import study_small  # noqa: E402
from vit_jax.config import resolve  # noqa: E402
from vit_jax.paper import cost  # noqa: E402

# Images that each short run sees, a fifth of those of a long one.
_SWEEP_IMAGES = 32_000
_SWEEP_PART = 4


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--data_dir", required=True, help="An image folder.")
  parser.add_argument("--runs", required=True, help="Directory of the runs.")
  parser.add_argument("--seeds", type=int, default=1, help="Runs of each kind.")
  options = parser.parse_args()
  runs = pathlib.Path(options.runs)
  rates = {
    network: _rate(network, options.data_dir, runs.parent / "study_rates")
    for network in study_small.NETWORKS
  }
  cells = [
    (part, network, seed)
    for seed in range(options.seeds)
    for part in sorted(study_small.PARTS, reverse=True)
    for network in study_small.NETWORKS
  ]
  for part, network, seed in cells:
    studies.command(
      "train",
      f"study_small.py:network={network},part={part}",
      options.data_dir,
      _workdir(runs, part, network, seed),
      f"--config.schedule.base_lr={rates[network]}",
      f"--config.seed={seed}",
    )
  print("\nimages  network  seed  rate    top1    loss    images/s")
  for part, network, seed in cells:
    workdir = _workdir(runs, part, network, seed)
    print(_line(workdir, part, network, seed, rates[network]))
  for network in study_small.NETWORKS:
    config = resolve.resolve(study_small.get_config(f"network={network}"))
    macs = cost.forward_flops(config.model, num_classes=10) / 2e6
    print(f"{network}: {macs:.2f} million multiply-adds an image, forwards")


def _rate(network: str, data_dir: str, root: pathlib.Path) -> float:
  """The learning rate that did best on images held out of train."""
  workdir = root / network
  arguments = f"network={network},part={_SWEEP_PART},images={_SWEEP_IMAGES}"
  studies.command(
    "sweep",
    f"study_small.py:{arguments}",
    data_dir,
    workdir,
  )
  return json.loads((workdir / "sweep.json").read_text())["chosen"]


def _workdir(
  runs: pathlib.Path, part: int, network: str, seed: int
) -> pathlib.Path:
  return runs / f"{network}_{study_small.NUM_TRAIN // part}_seed{seed}"


def _line(
  workdir: pathlib.Path, part: int, network: str, seed: int, rate: float
) -> str:
  metrics = studies.metrics(workdir)
  return (
    f"{study_small.NUM_TRAIN // part:6}  {network:7}  {seed:4}  {rate:<6g}"
    f"  {metrics['eval/test/top1']:.4f}  {metrics['eval/test/loss']:.4f}"
    f"  {metrics['perf/images_per_second']:.0f}"
  )


if __name__ == "__main__":
  main()
