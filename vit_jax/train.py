"""Trains a model; resumes where an earlier run in WORKDIR stopped.

  python -m vit_jax.train --config=configs/quickstart.py --workdir=runs/first

Override keys with --config.KEY=VALUE; --dry_run shows what would be run and
how long it would take here.
Exit codes: 0 finished; 1 bad input, or an error that a restart would repeat;
42 preempted after saving (start it again); 143 ended by SIGTERM before the run
had started (start it again); 130 Ctrl-C after saving; 134 another process of
the run, or the network to it, was lost (start all again); 137 no progress for
config.faults.watchdog_seconds (start it again).
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from absl import flags

from vit_jax import buckets, checks, command_line
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.pretrained import initial_model
from vit_jax.rundir import profile_signal

if TYPE_CHECKING:
  from vit_jax.rundir.run_directory import RunDirectory
  from vit_jax.training.experiment import Experiment

_NOTHING_LOST = (
  "preempted before the first step of this start: nothing is lost.\nThe same"
  " command resumes from here."
)


def define_flags() -> None:
  command_line.define_config()
  flags.DEFINE_string(
    "workdir", None, "Directory of the run: checkpoints, metrics and report."
  )
  flags.DEFINE_bool(
    "dry_run",
    False,
    "Print config, duration, parameters, sharding and memory, and stop.",
  )


def main(argv: Sequence[str]) -> int:
  command_line.no_arguments(argv)
  config = command_line.resolved_config()
  # A run restarted during an outage may have nobody to restart it later.
  buckets.check_workdir(
    flags.FLAGS.workdir or ".",
    outage_seconds=0 if flags.FLAGS.dry_run else buckets.OUTAGE_SECONDS,
  )
  config = initial_model.resolve_architecture(config, flags.FLAGS.workdir)
  checks.check(config)
  checks.check_files(config)
  checks.check_trackers(config)
  if flags.FLAGS.dry_run:
    from vit_jax.processes import compile_cache
    from vit_jax.training import dry_run

    compile_cache.enable()
    config = initial_model.keep_attention(config, flags.FLAGS.workdir)
    for piece in dry_run.describe(config, _compiled, flags.FLAGS.workdir):
      print(piece, end="", flush=True)
    return 0
  if not flags.FLAGS.workdir:
    raise UserError(
      "No directory for the run was named: give --workdir=DIR, or --dry_run."
    )
  return train(config, flags.FLAGS.workdir)


def _compiled(parts: "Experiment") -> Callable[..., Any]:
  """Returns the compiled train step, `(state, batch) -> (state, metrics)`."""
  from vit_jax.aot import xla_flags

  device_kind = parts.mesh.devices.flat[0].device_kind
  options = xla_flags.options(device_kind, parts.config.mesh)
  return functools.partial(parts.compile(options), parts.constants)


@profile_signal.ignored()
def train(config: schema.Config, workdir: str) -> int:
  """Runs an experiment to its end, or until a request to stop.

  Args:
    config: Resolved config of the experiment.
    workdir: Directory, created if it does not exist; a run in it resumes from
      its last checkpoint.

  Returns:
    The exit code.

  Raises:
    UserError: Anything that the user can fix.
  """
  config = initial_model.resolve_architecture(config, workdir)
  config = initial_model.keep_attention(config, workdir)
  # Heavy imports come after all checks of the config, which are immediate.
  import jax

  from vit_jax.data import facts
  from vit_jax.durations import EverySteps
  from vit_jax.processes import agreement, compile_cache, start
  from vit_jax.processes.liveness import Liveness
  from vit_jax.processes.stopping import (
    EXIT_PREEMPTED,
    LeaveAtOnce,
    StopRequest,
  )
  from vit_jax.rundir.profiling import Profiler
  from vit_jax.rundir.run_directory import RunDirectory
  from vit_jax.rundir.timing import Clock
  from vit_jax.training import experiment, feature_cache, loop, summary
  from vit_jax.training.data_stream import DataStream
  from vit_jax.training.evaluation import Evaluation
  from vit_jax.training.monitor import Monitor
  from vit_jax.training.recovery import Recovery
  from vit_jax.training.state import TrainState
  from vit_jax.training.watchdog import Watchdog

  clock = Clock()
  with ExitStack() as stack:
    with clock.phase("start"):
      start.initialize()
      liveness = stack.enter_context(Liveness())
      starting = stack.enter_context(
        LeaveAtOnce(liveness.leave, EXIT_PREEMPTED, _NOTHING_LOST)
      )
      start.check_alike(config)
      compile_cache.enable()
      source = facts.open_data(config)
      parts = experiment.build(config, facts.of_source(config, source))
      agreement.check_same(parts.facts.fingerprint, "training data")
      for path, digest in sorted(parts.objective.constants.digests.items()):
        agreement.check_same(digest, f"content of {path}")
      stack.enter_context(experiment.memory_explained(config))
      # Outside the directory's context, whose exit waits for its saves.
      watchdog = stack.enter_context(
        Watchdog(config.faults.watchdog_seconds, clock)
      )
      directory = RunDirectory(workdir, parts, clock)
      stack.push(functools.partial(_report_error, directory))
      stack.enter_context(directory)
      liveness.on_leave(directory.release)
      state = None
      if parts.objective.stored is not None:
        state = directory.restore_or_init()
        source = feature_cache.with_stored(parts, source, state.params)
      data_stream = DataStream(
        parts, source, directory.first_step, directory.position
      )
      running = stack.enter_context(ExitStack())
      running.enter_context(closing(data_stream))
      recovery = Recovery(parts, directory, data_stream, clock)
      monitor = Monitor(parts, directory, data_stream, recovery, clock)
      running.enter_context(closing(monitor))
      request = StopRequest()
      evaluation = Evaluation(parts, directory, monitor, request, clock)
      for line in summary.lines(
        parts,
        evaluation.evaluators,
        first_step=directory.first_step,
        is_over=directory.is_over,
      ):
        monitor.say(line)
      directory.track()
    if not directory.is_over:
      monitor.say("compiling the train step")
      with clock.phase("compile"):
        train_step = _compiled(parts)
      monitor.say(f"compiled in {clock.seconds['compile']:.0f} s")
    with clock.phase("restore" if directory.first_step else "init"):
      state = state or directory.restore_or_init()
    regular = EverySteps(
      parts.steps(config.checkpoint.every_steps), parts.total_steps
    )
    watchdog.start(directory.store.path)
    starting.close()
    stack.enter_context(request)
    evaluation.catch_up(state)

    profiler = running.enter_context(Profiler(config.profile, directory.path))

    def run(state: TrainState) -> tuple[TrainState, int]:
      monitor.start()
      return loop.train(
        state,
        data_stream,
        monitor.timed(profiler.watched(train_step, directory.first_step)),
        first_step=directory.first_step,
        total_steps=parts.total_steps,
        log=monitor.log,
        evaluate_due=evaluation.due,
        evaluate=evaluation.run,
        save_due=lambda step: regular.due(step) or step == evaluation.best_step,
        save=lambda step, state: directory.save(
          step,
          recovery.checked(step, state),
          dataclasses.replace(
            data_stream.position(step), unlogged=monitor.unlogged()
          ),
          evaluation_due=evaluation.unfinished,
        ),
        stop=lambda step: (
          directory.best_checkpoint.is_in_vain or request.asked()
        ),
        clock=clock,
      )

    step = directory.first_step
    if not directory.is_over:
      state, step = recovery.train(run, state)
    status, exit_code = "finished", 0
    in_vain = directory.best_checkpoint.is_in_vain and not evaluation.unfinished
    if (step < parts.total_steps and not in_vain) or evaluation.unfinished:
      status, exit_code = "preempted", EXIT_PREEMPTED
      if request.interrupted:
        status, exit_code = "interrupted", command_line.EXIT_INTERRUPTED
    running.close()  # Its last lines precede the end of the records.
    directory.finish(status)
  if jax.process_index() == 0:
    if in_vain and step < parts.total_steps:
      best = directory.best_checkpoint.best
      print(
        f"ended early: {best.since} evaluations after step {best.step} were not"
        f" better in {config.checkpoint.keep_best} (config.early_stopping)"
      )
    print(f"{status} at step {step}; report: {_report(workdir)}")
    if status != "finished":
      print("The same command resumes from here.")
  return exit_code


def _report_error(
  directory: "RunDirectory", kind: type | None, *unused: object
) -> None:
  """Writes a report if an error ended a start after its first line."""
  # A second Ctrl-C does not wait.
  is_error = kind is not None and issubclass(kind, Exception)
  if is_error and directory.is_ours and directory.has_lines:
    print(f"report: {_report(str(directory.path))}")


def _report(workdir: str) -> str:
  """Writes the run's report; returns its path, or why there is none.

  A report that cannot be drawn does not make a run fail.
  """
  from vit_jax.report import render

  try:
    with buckets.as_os_error(workdir):
      return render.write_report(workdir)
  except Exception as error:
    return f"not written ({error})"


if __name__ == "__main__":
  define_flags()
  command_line.run(main, config_flag="config", outlives_output=True)
