"""The study of docs/families_study.md: DeiT's recipe, a teacher, a Swin.

  python benchmarks/study_families.py --data_dir=CIFAR10 --runs=DIR
      [--images=5000] [--seen=800000]

Trains each run of configs/study_families.py in turn, the teacher before its
student. Finished runs are not repeated, and interrupted runs resume.
Prints a table and writes the accuracy over the compute to DIR/accuracy.svg.
"""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import studies  # noqa: E402
from configs import study_families  # noqa: E402
from vit_jax.report import formatting, load  # noqa: E402
from vit_jax.report.figures import curves, svg  # noqa: E402
from vit_jax.report.run import Series  # noqa: E402
from vit_jax.report.tables import page  # noqa: E402

_METRIC = "eval/test/top1"


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--data_dir", required=True, help="An image folder.")
  parser.add_argument("--runs", required=True, help="Directory of the runs.")
  parser.add_argument("--images", type=int, default=study_families.IMAGES)
  parser.add_argument("--seen", type=int, default=study_families.SEEN)
  options = parser.parse_args()
  runs = pathlib.Path(options.runs).absolute()
  sizes = f"images={options.images},seen={options.seen}"
  for run in study_families.RUNS:
    arguments = f"run={run},{sizes}"
    if run == "distilled":
      arguments += f",teacher={runs / 'resnet'}"
    studies.command(
      "train",
      f"study_families.py:{arguments}",
      options.data_dir,
      runs / run,
    )
  print("\nrun        top1    loss    loss in training")
  for run in study_families.RUNS:
    found = studies.metrics(runs / run)
    print(
      f"{run:9}  {found[_METRIC]:.4f}  {found['eval/test/loss']:.4f}"
      f"  {found['train/loss']:.4f}"
    )
  (runs / "accuracy.svg").write_text(page.standalone([_figure(runs)]))


def _figure(runs: pathlib.Path) -> svg.Figure:
  """Accuracy over compute, in steps of the plain ViT."""
  lines = []
  for run in study_families.RUNS:
    series = load.load_run(runs / run, with_evaluations=False).series(_METRIC)
    steps = series.steps * study_families.cost(run)
    steps = steps / study_families.cost("plain")
    lines.append(curves.Line(run, Series(steps, series.values)))
  drawn = curves.draw(
    lines,
    unit="top-1 on the test images",
    x_label="compute, in steps of the plain ViT",
    label="Accuracy over compute of each run",
    scale=curves.Scale(label=formatting.percent_tick),
    span=(0, max(line.series.steps[-1] for line in lines)),
  )
  return svg.Figure(drawn, "Each network and recipe, at equal compute.")


if __name__ == "__main__":
  main()
