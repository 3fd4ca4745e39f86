"""Workdirs below a directory, each as what it trained and from what."""

import dataclasses
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from etils import epath

from vit_jax import buckets
from vit_jax.config import resolve, schema
from vit_jax.errors import UserError
from vit_jax.paper import results
from vit_jax.paper.datasets import DATASETS
from vit_jax.report import load
from vit_jax.report.run import Run, whole

# A workdir's own directories, in which no other workdir is.
_INSIDE = ("checkpoints", "evaluations", "report", "tensorboard", "profile")
_PRETRAINING = {name: k for k, name in results.PRETRAINING_DATASETS.items()}
_OPTIMIZERS = {"adamw": "adam", "adam": "adam", "sgd": "sgd"}


@dataclasses.dataclass(frozen=True)
class Origin:
  """How a network was pre-trained, as far as it is known.

  Attributes:
    data: 'i1k', 'i21k' or 'jft'; None: not known.
    epochs: passes over it, up to the checkpoint that was started from; None:
      not known.
    config: what it was trained with; None: not known.
    reason: why `data` is not known, a sentence's end.
    unfinished: why it is not a whole run, a sentence's end; '': it is, or the
      checkpoint is named.
  """

  data: str | None = None
  epochs: float | None = None
  config: schema.Config | None = None
  reason: str = ""
  unfinished: str = ""

  @property
  def optimizer(self) -> str | None:
    """'adam' or 'sgd'; None: not known."""
    if self.config is None:
      return None
    return _OPTIMIZERS.get(self.config.optimizer.name)


@dataclasses.dataclass(frozen=True)
class Found:
  """A run whose records could be read.

  Attributes:
    name: its path below the directory that was searched.
    config: what it ran with.
    origin: of a fine-tuning, what its `init_from` says; else its own.
    is_finetuning: whether it started from other parameters.
    metrics: the last value of each.
    largest: the largest finite value of each.
    unfinished: why its metrics are not those of a whole run; '': they are.
  """

  name: str
  config: schema.Config
  origin: Origin
  is_finetuning: bool
  metrics: Mapping[str, float]
  largest: Mapping[str, float]
  unfinished: str = ""


def find(
  directory: epath.PathLike, pretrained: Mapping[str, str]
) -> tuple[list[Found], list[str]]:
  """Reads all workdirs below a directory, or that it is.

  Args:
    directory: where to look.
    pretrained: what files that runs started from were pre-trained on: the
      path that `init_from` has, or its last part -> 'i1k', 'i21k' or 'jft'.

  Returns:
    Runs in the order of their names, and sentences on those left out.

  Raises:
    UserError: there is no such directory, or no run in it.
  """
  buckets.check(directory)
  root = epath.Path(directory)
  if not root.is_dir():
    raise UserError(
      f"There is no directory {str(directory)!r} to look for runs in; give"
      " --runs=DIR, a directory that has workdirs in it."
    )
  found, remarks = [], []
  for path in _workdirs(root):
    name = os.path.relpath(path, root) if path != root else root.name
    try:
      config, run = _read(path)
    except (OSError, ValueError, UserError) as error:
      reason = str(error).splitlines()[0]
      remarks.append(f"{name} is left out, as it cannot be read: {reason}")
      continue
    is_finetuning = config.init_from is not None
    found.append(
      Found(
        name=name,
        config=config,
        origin=_started_from(config.init_from, pretrained)
        if is_finetuning
        else _own(config),
        is_finetuning=is_finetuning,
        metrics=run.metrics(),
        largest=_largest(run),
        unfinished=_unfinished(run),
      )
    )
  if not found and not remarks:
    raise UserError(
      f"No run was found in {str(directory)!r}: no directory there has a"
      " config.json with a metrics.jsonl or summary.json."
    )
  return found, remarks


def _workdirs(path: epath.Path) -> Iterator[epath.Path]:
  names = {entry.name: entry for entry in path.iterdir()}
  records = {"metrics.jsonl", "summary.json"} & names.keys()
  if "config.json" in names and records:
    yield path
  for name in sorted(names):
    hidden = name.startswith(".") or (records and name in _INSIDE)
    if not hidden and names[name].is_dir():
      yield from _workdirs(names[name])


def _read(path: epath.Path) -> tuple[schema.Config, Run]:
  """A workdir's config and records.

  Raises:
    OSError, ValueError, UserError: it has none that can be read.
  """
  config = resolve.load((path / "config.json").read_text())
  return config, load.load_run(path, with_evaluations=False)


def _largest(run: Run) -> dict[str, float]:
  """The largest finite value of each metric that has one."""
  found = {
    name: [*run.series(name).finite.values, *filter(math.isfinite, [last])]
    for name, last in run.metrics().items()
  }
  return {name: float(max(values)) for name, values in found.items() if values}


def _own(config: schema.Config, step: int | None = None) -> Origin:
  """What a run that started from nothing trained on, up to a step."""
  dataset, split = config.train.dataset, config.train.split
  data = _PRETRAINING.get(dataset)
  if data is None:
    return Origin(reason=f"was trained on {dataset}")
  if split != "train":
    return Origin(reason=f"was trained on {split!r} of {dataset} only")
  epochs, steps = config.total_epochs, step
  if step is None:
    steps = config.total_steps
  if steps is not None:
    images = steps * config.train.batch_size
    epochs = images / DATASETS[dataset].num_examples["train"]
  return Origin(data, epochs, config)


def _started_from(path: str, pretrained: Mapping[str, str]) -> Origin:
  last = os.path.basename(path.rstrip("/"))
  named = pretrained.get(path) or pretrained.get(last)
  if named:
    return Origin(named)
  workdir, step = re.fullmatch(
    r"(.*?)(?:/checkpoints(?:/(\d+))?)?/?", path, re.DOTALL
  ).groups()
  try:
    config, run = _read(epath.Path(workdir))
  except (OSError, ValueError, UserError):
    return Origin(
      reason=f"starts from {path}, which has no config.json that says what it"
      f" was pre-trained on; say so by --pretrained={last}=DATA"
    )
  if config.init_from is not None:
    return Origin(
      reason=f"starts from {path}, which itself started from {config.init_from}"
    )
  start = f"starts from {path}, which "
  if step is not None:
    origin, unfinished = _own(config, int(step)), ""
  else:
    origin, unfinished = _own(config), _unfinished(run)
  return dataclasses.replace(
    origin,
    reason=origin.reason and start + origin.reason,
    unfinished=unfinished and start + unfinished,
  )


def _unfinished(run: Run) -> str:
  status = run.summary.get("status")
  if status == "finished":
    return ""
  step, total = run.step, whole(run.summary.get("total_steps"))
  steps = f"{step:,}" if total is None else f"{step:,} of {total:,}"
  told = f"is {status!r}" if status else "has no summary.json"
  return f"{told}, at {steps} steps"


def differing(configs: Sequence[schema.Config]) -> list[str]:
  """Keys that tell trainings apart, seeds and places left aside."""
  flat = [_settings(config) for config in configs]
  keys = dict.fromkeys(key for one in flat for key in one)
  return [key for key in keys if len({repr(one.get(key)) for one in flat}) > 1]


_ASIDE = (
  "seed",
  "log_every_steps",
  "data_dir",
  "init_from",
  "init_without",
  "model_from_init",
  "keep_model_keys",
  "allow_change",
  "mesh.",
  "checkpoint.",
  "faults.",
  "profile.",
  "evals",
  "sweep.",
  "train.prefetch_batches",
)


def _settings(config: schema.Config) -> dict[str, object]:
  flat = resolve.flatten(config.model_dump())
  return {k: v for k, v in flat.items() if not k.startswith(_ASIDE)}
