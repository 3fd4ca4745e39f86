"""Position of a run in its data, saved with the state."""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Position:
  """State that determines the coming batches, and counts of past steps.

  Attributes:
    first_example: Row of the example stream at which the next batch begins.
    bad_examples: Indices of the unreadable examples, ascending.
    skipped_steps: Updates that were skipped because they were not finite.
    spikes: Steps whose loss or gradient norm was a spike.
    roll_backs: Number of returns to an earlier checkpoint.
    unlogged: Sums of the training metrics since the last line of metrics, from
      `IntervalMeans.sums`.
  """

  first_example: int = 0
  bad_examples: tuple[int, ...] = ()
  skipped_steps: int = 0
  spikes: int = 0
  roll_backs: int = 0
  unlogged: Mapping[str, float] = dataclasses.field(default_factory=dict)

  @classmethod
  def of(cls, metadata: Mapping[str, Any]) -> "Position":
    """Reads the position from a checkpoint's metadata."""
    return cls(
      first_example=metadata["first_example"],
      bad_examples=tuple(metadata.get("bad_examples", ())),
      skipped_steps=metadata.get("skipped_steps", 0),
      spikes=metadata.get("spikes", 0),
      roll_backs=metadata.get("roll_backs", 0),
      unlogged=metadata.get("unlogged", {}),
    )

  def metadata(self) -> dict[str, Any]:
    """Returns the position as JSON for the checkpoint."""
    return dataclasses.asdict(self)
