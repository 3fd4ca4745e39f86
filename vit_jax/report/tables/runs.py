"""Finds workdirs below a directory and the networks they started from."""

import dataclasses
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from etils import epath

from vit_jax import buckets
from vit_jax.config import resolve, schema
from vit_jax.errors import UserError
from vit_jax.paper.datasets import DATASETS
from vit_jax.report import load
from vit_jax.report.run import Run, whole

# A workdir's own directories, which contain no other workdirs.
_INSIDE = ("checkpoints", "evaluations", "report", "tensorboard", "profile")
# Keys that do not distinguish trainings.
_ASIDE = (
  "seed",
  "log_every_steps",
  "data_dir",
  "init_from",
  "init_without",
  "init_classes",
  "model_from_init",
  "keep_model_keys",
  "allow_change",
  "mesh.",
  "checkpoint.",
  "faults.",
  "log.",
  "profile.",
  "evals",
  "sweep.",
  "train.prefetch_batches",
)


@dataclasses.dataclass(frozen=True)
class Start:
  """The network that a fine-tuning started from, as far as known.

  Attributes:
    path: `init_from`.
    config: Config of its training; None if unknown.
    data: Key of `results.PRETRAINING`, if `--pretrained` named it.
    problem: End of a sentence explaining why no row can be read from it, or ''.
  """

  path: str
  config: schema.Config | None = None
  data: str | None = None
  problem: str = ""


@dataclasses.dataclass(frozen=True)
class Found:
  """A run whose records could be read.

  Attributes:
    name: Path of its workdir below the searched directory.
    config: Config it ran with.
    start: Network that a fine-tuning started from; None for other runs.
    metrics: Last value of each metric.
    largest: Largest finite value of each metric.
    unfinished: End of a sentence explaining why the run is not complete, or ''.
  """

  name: str
  config: schema.Config
  start: Start | None
  metrics: Mapping[str, float]
  largest: Mapping[str, float]
  unfinished: str = ""


def find(
  directory: epath.PathLike, pretrained: Mapping[str, str]
) -> tuple[list[Found], list[str]]:
  """Reads a workdir, or all workdirs below a directory.

  Args:
    directory: Path to search.
    pretrained: Pre-training data of files that runs started from: the path in
      `init_from`, or its last part -> 'i1k', 'i21k' or 'jft'.

  Returns:
    Runs in the order of their names, and sentences about omitted ones.

  Raises:
    UserError: There is no such directory, or no run in it.
  """
  buckets.check(directory)
  root = epath.Path(directory)
  try:
    with buckets.as_os_error(directory):
      is_there = root.is_dir()
  except OSError as error:
    raise UserError(
      f"{directory} cannot be read ({error.strerror or error})."
    ) from None
  if not is_there:
    raise UserError(
      f"There is no directory {str(directory)!r} to look for runs in; give"
      " --runs=DIR, a directory that has workdirs in it."
    )
  found, remarks, old = [], [], []
  for path in _workdirs(root):
    name = os.path.relpath(path, root) if path != root else root.name
    try:
      config, run = _read(path)
    except (OSError, ValueError, UserError) as error:
      reason = str(error).splitlines()[0]
      remarks.append(f"{name} is left out, as it cannot be read: {reason}")
      continue
    if not _has_key(path):
      old.append(name)
    init_from = config.init_from
    found.append(
      Found(
        name=name,
        config=config,
        start=None if init_from is None else _start(init_from, pretrained),
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
  if old:
    remarks.append(
      f"{', '.join(old)}: made before config.paper_row named the cells that a"
      " run fills; left out of the tables."
    )
  return found, remarks


def differing(configs: Sequence[schema.Config]) -> list[str]:
  """Returns keys that distinguish trainings, except seeds and paths."""
  flat = [flatten(config) for config in configs]
  keys = dict.fromkeys(key for one in flat for key in one)
  return [
    key
    for key in keys
    if not key.startswith((*_ASIDE, "paper_row."))
    and len({repr(one.get(key)) for one in flat}) > 1
  ]


def flatten(config: schema.Config) -> dict[str, object]:
  """Maps every dotted key of a config, such as 'model.pool', to its value."""
  return resolve.flatten(config.model_dump(mode="json"))


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
  """Reads a workdir's config and records.

  Raises:
    OSError, ValueError, UserError: The config or records cannot be read.
  """
  config = resolve.load((path / "config.json").read_text())
  return config, load.load_run(path, with_evaluations=False)


def _has_key(path: epath.Path) -> bool:
  return '"paper_row"' in (path / "config.json").read_text()


def _largest(run: Run) -> dict[str, float]:
  found = {
    name: [*run.series(name).finite.values, *filter(math.isfinite, [last])]
    for name, last in run.metrics().items()
  }
  return {name: float(max(values)) for name, values in found.items() if values}


def _start(path: str, pretrained: Mapping[str, str]) -> Start:
  last = os.path.basename(path.rstrip("/"))
  named = pretrained.get(path) or pretrained.get(last)
  if named:
    return Start(path, data=named)
  workdir, step = re.fullmatch(
    r"(.*?)(?:/checkpoints(?:/(\d+))?)?/?", path, re.DOTALL
  ).groups()
  place = epath.Path(workdir).expanduser()
  try:
    config, run = _read(place)
    has_key = _has_key(place)
  except (OSError, ValueError, UserError):
    return Start(
      path,
      problem="which has no config.json that names its row; say what it was"
      f" pre-trained on by --pretrained={last}=DATA",
    )
  problem = ""
  if config.init_from is not None:
    problem = f"which itself started from {config.init_from}"
  elif not any(cell.endswith(":") for cell in config.paper_row.cells):
    told = "names no row of the paper's tables (paper_row)"
    problem = f"whose config {told}" + ("" if has_key else ", as it is older")
  elif step is None:
    unfinished = _unfinished(run)
    problem = f"which {unfinished}" if unfinished else ""
  elif int(step) < 0.99 * (total := _total_steps(config)):
    problem = f"at step {int(step):,} of {total:,} of pre-training"
  return Start(path, config, problem=problem)


def _total_steps(config: schema.Config) -> int:
  """Returns the updates of a pre-training on one of the paper's datasets."""
  if config.total_steps is not None:
    return config.total_steps
  known = DATASETS.get(config.train.dataset)
  images = known.num_examples["train"] if known else 0
  return round((config.total_epochs or 0) * images / config.train.batch_size)


def _unfinished(run: Run) -> str:
  status = run.summary.get("status")
  if status == "finished":
    return ""
  step, total = run.step, whole(run.summary.get("total_steps"))
  steps = f"{step:,}" if total is None else f"{step:,} of {total:,}"
  told = f"is {status!r}" if status else "has no summary.json"
  return f"{told}, at {steps} steps"
