"""The training examples of a run, step by step."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from vit_jax.data import substitutes
from vit_jax.data.sources import Source
from vit_jax.processes import agreement
from vit_jax.rundir.position import Position
from vit_jax.training.experiment import Experiment


class DataStream(Iterator[dict[str, Any]]):
  """Iterator over training batches that tracks its position.

  Args:
    parts: The experiment.
    source: The training data.
    first_step: Number of updates already done with earlier batches.
    position: Position of the run after these updates.
  """

  def __init__(
    self,
    parts: Experiment,
    source: Source,
    first_step: int,
    position: Position,
  ):
    self._config = parts.config
    self._source = source
    self._first_step, self._first = first_step, position
    self.skipped_steps = position.skipped_steps
    self.spikes = position.spikes
    self.roll_backs = position.roll_backs
    self._batches = parts.train_batches(
      source, position.first_example, position.bad_examples
    )

  def __next__(self) -> dict[str, Any]:
    return next(self._batches)

  def position(self, step: int) -> Position:
    """Returns the position after `step` updates; all processes must call it.

    Raises:
      UserError: More examples were unreadable than the config tolerates.
    """
    return Position(
      first_example=self.row(step),
      bad_examples=tuple(self.bad_examples(step)),
      skipped_steps=self.skipped_steps,
      spikes=self.spikes,
      roll_backs=self.roll_backs,
    )

  def bad_examples(self, step: int) -> list[int]:
    """Returns the unreadable examples of all processes up to `step`.

    All processes must call it.

    Raises:
      UserError: There are more than the config tolerates.
    """
    limit = self._config.train.max_bad_examples
    if not limit:
      return []
    mine = self._batches.bad_examples(self.row(step))
    texts = agreement.gather(json.dumps(mine))
    found = sorted(set().union(*map(json.loads, texts)))
    if len(found) > limit:
      raise substitutes.too_many(self._source.names(np.array(found)), limit)
    return found

  def metrics(self, step: int) -> dict[str, int]:
    """Counts skipped examples and steps up to `step`; all processes call it.

    Raises:
      UserError: As for `bad_examples`.
    """
    faults, counts = self._config.faults, {}
    if self._config.train.max_bad_examples:
      counts["data/bad_examples"] = len(self.bad_examples(step))
    if faults.not_finite == "skip":
      counts["train/skipped_steps"] = self.skipped_steps
    if faults.not_finite == "roll_back":
      counts["train/roll_backs"] = self.roll_backs
    if self.spikes:
      counts["train/spikes"] = self.spikes
    return counts

  def leave_out(self, bad_step: int, saved_step: int, saved: Position) -> None:
    """Resumes from `saved_step` with the batches after that of `bad_step`."""
    self._first = dataclasses.replace(
      saved,
      first_example=self.row(bad_step),
      bad_examples=tuple(self.bad_examples(bad_step)),
      roll_backs=self.roll_backs + 1,
    )
    self._first_step = saved_step
    self.skipped_steps = self._first.skipped_steps
    self.spikes = self._first.spikes
    self.roll_backs = self._first.roll_backs
    self._batches.seek(self._first.first_example, self._first.bad_examples)

  def close(self) -> None:
    """Stops the threads."""
    self._batches.close()

  def row(self, step: int) -> int:
    """Returns the row of the example stream after the batch of `step`."""
    since = step - self._first_step
    return self._first.first_example + since * self._config.train.batch_size
