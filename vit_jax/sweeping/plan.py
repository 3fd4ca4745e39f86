"""The runs of a sweep."""

import dataclasses
import re
from collections.abc import Sequence

from etils import epath

from vit_jax import buckets, registry
from vit_jax.config import best_metric, main_evaluator, schema
from vit_jax.errors import UserError

_DEV_SHARE = 10  # Percent of a split that the config does not divide.
_WHOLE_SPLIT = re.compile(r"[A-Za-z_]\w*")
DEV = "dev"


@dataclasses.dataclass(frozen=True)
class Run:
  """One run of train: its config, and the evaluator whose metric counts.

  Attributes:
    remark: Said if the run fails: what of its config a person has not written.
  """

  config: schema.Config
  workdir: epath.Path
  evaluator: str
  remark: str = ""


def read_rates(texts: Sequence[str]) -> tuple[float, ...]:
  """Learning rates from the words of a flag.

  Raises:
    UserError: One of them is not a number.
  """
  try:
    return tuple(float(text) for text in texts)
  except ValueError:
    raise UserError(
      f"--learning_rates={','.join(texts)} must be numbers separated by commas,"
      " such as 0.003,0.01,0.03."
    ) from None


def check(config: schema.Config) -> None:
  """Checks what no run of the sweep would say before the others have ended.

  Raises:
    UserError: There are no rates to try, or no way to compare them; or a run
      has no metric by which its best checkpoint is to be known.
  """
  rates = config.sweep.learning_rates
  if not rates:
    raise UserError(
      "No learning rates were named: give --learning_rates=0.003,0.01,0.03 or"
      " set config.sweep.learning_rates."
    )
  for rate in rates:
    if not 0 < rate < float("inf") or rates.count(rate) > 1:
      raise UserError(
        f"The learning rates {', '.join(f'{r:g}' for r in rates)} must be"
        " positive and different from each other."
      )
  splits(config)
  evaluator(config)
  best_metric.find(config)
  if config.early_stopping is not None and _best_of_trials(config) is None:
    raise UserError(
      f"config.early_stopping = {config.early_stopping} counts evaluations by"
      f" config.checkpoint.keep_best = {config.checkpoint.keep_best!r}, but"
      f" runs of a sweep have the evaluator {evaluator(config)!r} alone, on"
      " images held out of training; name a metric of that one."
    )


def splits(config: schema.Config) -> tuple[str, str]:
  """The splits that rates are trained on and compared on.

  Raises:
    UserError: The config neither names them nor implies them.
  """
  train, dev = config.sweep.train_split, config.sweep.dev_split
  if train is not None and dev is not None:
    return train, dev
  whole = config.train.split
  if train is not None or dev is not None or not _WHOLE_SPLIT.fullmatch(whole):
    raise UserError(
      "Set both config.sweep.train_split and config.sweep.dev_split, such as"
      " 'train[:90%]' and 'train[90%:]'; they follow by themselves only if both"
      f" are unset and config.train.split (now {whole!r}) is a whole split."
    )
  cut = 100 - _DEV_SHARE
  return f"{whole}[:{cut}%]", f"{whole}[{cut}%:]"


def evaluator(config: schema.Config) -> str:
  """The evaluator that rates are compared by: `test`, or the first one.

  Raises:
    UserError: No evaluator measures the model's own head.
  """
  name = main_evaluator.find(config)
  if name is None:
    raise UserError(
      "config.evals has no evaluator of type 'classification' or 'regression',"
      " by which learning rates could be compared; add one."
    )
  return name


def metric(config: schema.Config) -> str:
  """The metric that it is compared by: 'top1', or 'rmse', less being better."""
  entry = config.evals[evaluator(config)]
  return "rmse" if isinstance(entry, schema.RegressionEval) else "top1"


def trial(config: schema.Config, rate: float, workdir: str) -> Run:
  """The run that tries `rate`; it never sees the test data of the config."""
  train_split, dev_split = splits(config)
  measured = config.evals[evaluator(config)]
  update = {
    "dataset": None,
    "split": dev_split,
    "every_steps": None,
    "image_key": config.train.image_key,
    "label_key": config.train.label_key,
    "label_sets": None,
  }
  known = type(measured).model_fields
  measured = measured.model_copy(
    update={name: value for name, value in update.items() if name in known}
  )
  train = config.train.model_copy(update={"split": train_split})
  checkpoint = config.checkpoint.model_copy(
    update={"keep_best": _best_of_trials(config)}
  )
  config = _at_rate(config, rate).model_copy(
    update={
      "train": train,
      "evals": {DEV: measured},
      "checkpoint": checkpoint,
    }
  )
  run = run_in(workdir, _folder(rate), config, DEV)
  remark = (
    f" It learns from config.sweep.train_split ({train_split!r}), and"
    f" config.evals.{DEV} measures config.sweep.dev_split ({dev_split!r}): if"
    " one of them has too few examples, set both, such as 'train[:50%]' and"
    " 'train[50%:]', and choose another --workdir."
  )
  return dataclasses.replace(run, remark=remark)


def _best_of_trials(config: schema.Config) -> str | None:
  """`checkpoint.keep_best` of trials; None if it is not of their evaluator."""
  best = best_metric.find(config)
  if best is None:
    return None
  name = evaluator(config)
  prefix = registry.EVALUATORS.get(config.evals[name].type).prefix
  if not best.name.startswith(f"{prefix}/{name}/"):
    return None
  return best.name.replace(f"/{name}/", f"/{DEV}/", 1)


def final(config: schema.Config, rate: float, workdir: str) -> Run:
  """The run on all of the training data with the chosen rate.

  Each rate has a directory of its own: a sweep of other rates in the same
  directory may choose another one.
  """
  folder = f"final_{_folder(rate)}"
  return run_in(workdir, folder, _at_rate(config, rate), evaluator(config))


def earlier(config: schema.Config, workdir: str) -> list[tuple[float, Run]]:
  """The rates that have a directory here and are not of this sweep."""
  found = []
  for path in epath.Path(workdir).glob("lr_*"):
    try:
      rate = float(path.name.removeprefix("lr_"))
    except ValueError:
      continue
    if rate not in config.sweep.learning_rates:
      found.append((rate, trial(config, rate, workdir)))
  return sorted(found, key=lambda one: one[0])


def run_in(
  workdir: str, folder: str, config: schema.Config, evaluator: str
) -> Run:
  """The run in a folder of the sweep's directory.

  Trackers show it as 'SWEEP/FOLDER', in one group with the sweep's other runs.
  """
  log, sweep = config.log, buckets.absolute(workdir).name
  named = {"group": log.group or sweep, "name": f"{log.name or sweep}/{folder}"}
  return Run(
    config=config.model_copy(update={"log": log.model_copy(update=named)}),
    workdir=epath.Path(workdir) / folder,
    evaluator=evaluator,
  )


def _folder(rate: float) -> str:
  """The folder of a rate, which no other rate has."""
  short = f"{rate:g}"
  return f"lr_{short if float(short) == rate else repr(rate)}"


def _at_rate(config: schema.Config, rate: float) -> schema.Config:
  schedule = config.schedule.model_copy(update={"base_lr": rate})
  return config.model_copy(update={"schedule": schedule})
