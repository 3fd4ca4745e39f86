"""The training loop, in execution order."""

from collections.abc import Callable, Iterator
from typing import Any

import jax

from vit_jax.rundir.timing import Clock
from vit_jax.training.state import TrainState

Batch = dict[str, Any]
Metrics = dict[str, Any]


def train(
  state: TrainState,
  batches: Iterator[Batch],
  train_step: Callable[[TrainState, Batch], tuple[TrainState, Metrics]],
  *,
  first_step: int,
  total_steps: int,
  log: Callable[[int, Metrics, Batch, TrainState], None],
  evaluate_due: Callable[[int], bool],
  evaluate: Callable[[int, TrainState], None],
  save_due: Callable[[int], bool],
  save: Callable[[int, TrainState], None],
  stop: Callable[[int], bool],
  clock: Clock,
) -> tuple[TrainState, int]:
  """Trains from `first_step` to `total_steps` updates.

  Args:
    state: State after `first_step` updates; donated.
    batches: Batches, the first for update `first_step + 1`.
    train_step: Compiled train step.
    first_step, total_steps: Number of updates before and after training.
    log: Called with (step, metrics, batch, latest state) for every step in
      order; raises to end the run.
    evaluate_due, evaluate: Predicate on steps, and the evaluation to run; if it
      raises, a single-process run saves the step before it ends.
    save_due, save: Predicate on steps, and the function that saves.
    stop: Returns, for a step, True to save and exit; called before the first
      step and after every step and evaluation.
    clock: Clock that times the phases 'data', 'step' and 'save'.

  Returns:
    The last state, and the number of updates done: fewer than `total_steps` if
    a stop was requested.
  """
  step, pending = first_step, None
  stopping = stop(step)
  while step < total_steps and not stopping:
    with clock.phase("data"):
      batch = next(batches)
    with clock.phase("step"):
      with jax.transfer_guard("disallow"):
        state, metrics = train_step(state, batch)
      step += 1
      # Reading the previous step's metrics leaves this step in flight.
      if pending:
        log(*pending, state)
      pending = step, metrics, batch
    stopping = stop(step)
    saving = stopping or save_due(step)
    if saving or evaluate_due(step):
      # All lines up to a step are written before its checkpoint, so that a run
      # that resumes there has each line once.
      with clock.phase("step"):
        log(*pending, state)
      pending = None
      try:
        evaluate(step, state)
      except Exception:
        # The state is complete. With several processes, the others may still be
        # in the evaluation.
        if jax.process_count() == 1:
          with clock.phase("save"):
            save(step, state)
        raise
      # A request to stop interrupts an evaluation.
      stopping = stopping or stop(step)
    if stopping or save_due(step):
      with clock.phase("save"):
        save(step, state)
  return state, step
