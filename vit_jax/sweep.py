"""Finds a learning rate on held-out training examples, then trains on all.

  python -m vit_jax.sweep --config=configs/finetune.py:dataset=cifar10 \\
      --workdir=runs/cifar10 --learning_rates=0.001,0.003,0.01,0.03

Each rate is a run in WORKDIR/lr_RATE, trained on config.sweep.train_split and
measured on config.sweep.dev_split. The best one is trained again, in
WORKDIR/final_lr_RATE, on all of config.train.split; only that run uses the
config's evaluators. WORKDIR/sweep.json and sweep.md contain the table. The
same command resumes a stopped sweep; with other rates, finished runs of those
rates are kept. Exit codes are those of train.
"""

from collections.abc import Sequence

from absl import flags

from vit_jax import buckets, command_line
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.sweeping import plan, runner, table


def define_flags() -> None:
  command_line.define_config()
  flags.DEFINE_string("workdir", None, "Directory of all runs.")
  flags.DEFINE_list(
    "learning_rates",
    None,
    "Rates to try, separated by commas; default: config.sweep.learning_rates.",
  )


def main(argv: Sequence[str]) -> int:
  command_line.no_arguments(argv)
  config = command_line.resolved_config()
  if flags.FLAGS.learning_rates is not None:
    rates = plan.read_rates(flags.FLAGS.learning_rates)
    swept = config.sweep.model_copy(update={"learning_rates": rates})
    config = config.model_copy(update={"sweep": swept})
  plan.check(config)
  if not flags.FLAGS.workdir:
    raise UserError("No directory for the runs was named: give --workdir=DIR.")
  buckets.check_workdir(flags.FLAGS.workdir)
  return sweep(config, flags.FLAGS.workdir)


def sweep(config: schema.Config, workdir: str) -> int:
  """Runs all unfinished runs and writes the table after each.

  Args:
    config: Experiment; `config.sweep` has the rates to try.
    workdir: Directory of all runs.

  Returns:
    The exit code: 0, or that of a run that was stopped.

  Raises:
    UserError: A run fails for a reason other than its learning rate, or no rate
      is left.
  """
  results = table.Table(config, workdir)
  with runner.Runner() as run:
    for rate in config.sweep.learning_rates:
      trial = plan.trial(config, rate, workdir)
      if code := run(trial):
        return code
      results.add(rate, trial)
    final = plan.final(config, results.best(), workdir)
    if code := run(final):
      return code
    results.finish(final)
  print(results.text())
  return 0


if __name__ == "__main__":
  define_flags()
  command_line.run(main, config_flag="config", outlives_output=True)
