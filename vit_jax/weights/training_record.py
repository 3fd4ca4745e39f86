"""The training of a checkpoint, as recorded in its workdir."""

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping

from etils import epath

from vit_jax import records
from vit_jax.config import resolve, schema

_CONFIG = "config.json"
_METRICS = "metrics.jsonl"
_SUMMARY = "summary.json"

_TOP1 = re.compile(r"eval/(.+)/top1")
_RMSE = re.compile(r"eval/([^/]+)/rmse")
_FEWSHOT = re.compile(r"fewshot/(.+)/(\d+)shot")


@dataclasses.dataclass(frozen=True)
class Training:
  """A run's record of how a checkpoint was trained.

  Attributes:
    config: Config of the run.
    step: Number of updates done.
    metrics: Metrics of the evaluations at that step.
    devices: Devices of the run, such as '8 x TPU v4'; "" if unknown.
  """

  config: schema.Config
  step: int
  metrics: Mapping[str, float]
  devices: str = ""


def read(workdir: epath.PathLike, step: int) -> Training | None:
  """Reads the record of one checkpoint from its workdir.

  Metrics of other steps are left out, as they are not this checkpoint's.

  Args:
    workdir: Directory with a config.json and, optionally, a summary.json.
    step: Step of the checkpoint.

  Returns:
    The record; None if the workdir was not left by a run, so that it has no
    metrics.jsonl.

  Raises:
    UserError: The config.json has a different version's schema.
  """
  workdir = epath.Path(workdir)
  if not (workdir / _METRICS).exists():
    return None
  config = resolve.load((workdir / _CONFIG).read_text())
  metrics: dict[str, float] = {}
  for line in records.read_lines(workdir / _METRICS):
    if line["step"] == step:
      metrics.update(line)
  # summary.json holds the last value of every metric, at any step.
  summary = records.read_json(workdir / _SUMMARY)
  is_last = summary.get("step") == step
  devices = str(summary.get("devices") or "") if is_last else ""
  finite = {
    name: float(value)
    for name, value in metrics.items()
    if isinstance(value, (int, float)) and math.isfinite(value)
  }
  return Training(config, step, finite, devices)


@dataclasses.dataclass(frozen=True)
class Result:
  """One number from one evaluation; fractions are in [0, 1]."""

  title: str
  dataset: str
  split: str
  kind: str
  value: float
  detail: str = ""
  is_share: bool = True

  @property
  def text(self) -> str:
    return f"{self.value:.2%}" if self.is_share else f"{self.value:.4g}"


def results(training: Training) -> Iterator[Result]:
  """Lists accuracies, then regression errors, then few-shot evaluations."""
  metrics, config = training.metrics, training.config
  for metric in sorted(metrics):
    match = _TOP1.fullmatch(metric)
    entry = config.evals.get(match[1]) if match else None
    if isinstance(entry, schema.ClassificationEval):
      dataset = entry.dataset or config.train.dataset
      count = metrics.get(f"eval/{match[1]}/num_examples")
      yield Result(
        "top-1 accuracy",
        dataset,
        entry.split,
        "accuracy",
        metrics[metric],
        f"{count:,.0f} images" if count else "",
      )
      if (top5 := metrics.get(f"eval/{match[1]}/top5")) is not None:
        kind = "top-5-accuracy"
        yield Result("top-5 accuracy", dataset, entry.split, kind, top5)
  for metric in sorted(metrics):
    if match := _RMSE.fullmatch(metric):
      yield from _errors(training, match[1])
  for metric in sorted(metrics, key=records.in_order):
    if match := _FEWSHOT.fullmatch(metric):
      title = f"{match[2]}-shot linear accuracy of frozen features"
      yield Result(title, match[1], "", "", metrics[metric])


def _errors(training: Training, name: str) -> Iterator[Result]:
  """Returns the results of a regression evaluator."""
  entry, metrics = training.config.evals.get(name), training.metrics
  if not isinstance(entry, schema.RegressionEval):
    return
  dataset = entry.dataset or training.config.train.dataset
  count = metrics.get(f"eval/{name}/num_examples")
  for key, title, kind in (
    ("rmse", "root mean squared error", "rmse"),
    ("mae", "mean absolute error", "mae"),
    ("r2", "R²", "r_squared"),
  ):
    if (value := metrics.get(f"eval/{name}/{key}")) is not None:
      detail = f"{count:,.0f} images" if count and key == "rmse" else ""
      yield Result(title, dataset, entry.split, kind, value, detail, False)
