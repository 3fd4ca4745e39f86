"""Transfers a model to the nineteen tasks of VTAB-1k and takes their mean.

  python -m vit_jax.vtab --config=configs/vtab.py --config.init_from=B_16.npz \\
      --config.data_dir=data --workdir=runs/vtab_b16
  python -m vit_jax.vtab --config=configs/vtab.py:split=dev,lr=0.003 \\
      --tasks=natural,dmlab --workdir=runs/dev_0.003

The tasks run one after the other, each in WORKDIR/TASK, with the arguments and
overrides of --config; the same command resumes where it was stopped. Tasks that
--tasks leaves out are included if they finished there with the same settings. A
task whose dataset is missing is left out, and the means state how many tasks
they cover. WORKDIR/vtab.json and vtab.md contain the table. Exit codes are
those of train, and 1 if a task failed.
"""

import sys
from collections.abc import Mapping, Sequence

from absl import flags
from etils import epath

from vit_jax import buckets, checks, command_line
from vit_jax.config import main_evaluator, schema
from vit_jax.data import sources
from vit_jax.data.tfds import dataset_directory
from vit_jax.errors import UserError
from vit_jax.paper import vtab
from vit_jax.suggestions import did_you_mean
from vit_jax.sweeping import plan, runner
from vit_jax.sweeping.vtab_table import ABSENT, FAILED, VtabTable


def define_flags() -> None:
  command_line.define_config()
  flags.DEFINE_string("workdir", None, "Directory of all runs.")
  flags.DEFINE_list(
    "tasks",
    list(vtab.GROUPS),
    "Tasks and groups of tasks to run.",
  )


def main(argv: Sequence[str]) -> int:
  command_line.no_arguments(argv)
  tasks = _chosen(flags.FLAGS.tasks)
  configs = {
    task: command_line.resolved_config_of(f"task={task}") for task in tasks
  }
  for config in configs.values():
    if not config.model_from_init:
      checks.check(config)
  workdir = flags.FLAGS.workdir
  if not workdir:
    raise UserError("No directory for the runs was named: give --workdir=DIR.")
  buckets.check_workdir(workdir)
  earlier = {
    task: command_line.resolved_config_of(f"task={task}")
    for task in vtab.TASKS
    if task not in tasks and runner.has_begun(epath.Path(workdir) / task)
  }
  return transfer(configs, workdir, earlier)


def transfer(
  configs: Mapping[str, schema.Config],
  workdir: str,
  earlier: Mapping[str, schema.Config],
) -> int:
  """Runs all unfinished tasks and writes the table after each.

  Args:
    configs: Task -> its experiment.
    workdir: Directory of all runs.
    earlier: The same for other tasks, which count if they have finished.

  Returns:
    The exit code: 0, or that of a run that was stopped.

  Raises:
    UserError: All datasets are missing, or a run failed.
  """
  absent = [task for task, config in configs.items() if _is_absent(config)]
  if len(absent) == len(configs):
    raise UserError(
      f"The datasets of these tasks are missing. {_advice(configs, absent)}"
    )
  table = VtabTable(workdir)
  for task, config in earlier.items():
    run = _run(task, config, workdir)
    if runner.has_ended(run):
      table.add(task, run)
  for task in absent:
    table.set(task, ABSENT)
  finished = 0
  with runner.Runner() as start:
    for task, config in configs.items():
      if task in absent:
        continue
      run = _run(task, config, workdir)
      try:
        if code := start(run):
          return code
      except UserError as error:
        if not finished:
          raise  # All others may fail for the same reason.
        print(f"error: {error}", file=sys.stderr, flush=True)
        table.set(task, FAILED)
      else:
        table.add(task, run)
        finished += runner.status(run) == "finished"
      table.write()
  print(table.text())
  if absent:
    print(f"\n{_advice(configs, absent)}")
  if failed := table.tasks(FAILED):
    raise UserError(
      f"Tasks that failed for the reasons above: {', '.join(failed)}. Fix them"
      " and start the same command again."
    )
  return 0


def _run(task: str, config: schema.Config, workdir: str) -> plan.Run:
  """Returns the run of a task; raises UserError if it measures no accuracy."""
  evaluator = main_evaluator.find(config)
  if evaluator is None:
    raise UserError(
      f"config.evals of task {task} has no evaluator of type"
      " 'classification', whose accuracy the mean is of; add one."
    )
  return plan.run_in(workdir, task, config, evaluator)


def _chosen(words: Sequence[str]) -> list[str]:
  """Returns the named tasks and those in named groups.

  Raises:
    UserError: A word is neither a task nor a group, or there are no words.
  """
  known = [*vtab.GROUPS, *vtab.TASKS]
  for word in words:
    if word not in known:
      near = did_you_mean(word, known, cutoff=0.6)
      hint = f" Did you mean {near!r}?" if near else ""
      raise UserError(
        f"--tasks: {word!r} is not known.{hint} Known: {', '.join(known)}."
      )
  chosen = [
    name
    for name, task in vtab.TASKS.items()
    if name in words or task.group in words
  ]
  if not chosen:
    raise UserError(f"--tasks is empty; known are {', '.join(known)}.")
  return chosen


def _is_absent(config: schema.Config) -> bool:
  dataset = config.train.dataset
  if sources.is_built_in(dataset):
    return False
  name = dataset_directory.DatasetName.parse(dataset)
  home = dataset_directory.resolve_data_dir(config.data_dir)
  return dataset_directory.find(name, home) is None


def _advice(configs: Mapping[str, schema.Config], absent: Sequence[str]) -> str:
  """Returns commands that prepare the absent datasets."""
  datasets = dict.fromkeys(configs[task].train.dataset for task in absent)
  home = dataset_directory.resolve_data_dir(configs[absent[0]].data_dir)
  commands = [
    f"  python -m vit_jax.prepare {dataset} --data_dir={home}"
    for dataset in datasets
  ]
  return "\n".join(["Prepare what is absent with:", *commands])


if __name__ == "__main__":
  define_flags()
  command_line.run(main, config_flag="config", outlives_output=True)
