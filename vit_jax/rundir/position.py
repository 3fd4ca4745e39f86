"""Where a run stands in its data, as it is saved beside the state."""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Position:
  """What the batches to come depend on, and what befell the run so far.

  Attributes:
    first_example: row of the stream of examples at which the next batch begins.
    bad_examples: numbers of the examples that could not be read, ascending.
    skipped_steps: updates that were left out, not being finite.
    spikes: steps whose loss or gradient norm stood out.
    roll_backs: times that the run went back to an earlier checkpoint.
  """

  first_example: int = 0
  bad_examples: tuple[int, ...] = ()
  skipped_steps: int = 0
  spikes: int = 0
  roll_backs: int = 0

  @classmethod
  def of(cls, metadata: Mapping[str, Any]) -> "Position":
    """The position in a checkpoint's metadata."""
    return cls(
      first_example=metadata["first_example"],
      bad_examples=tuple(metadata.get("bad_examples", ())),
      skipped_steps=metadata.get("skipped_steps", 0),
      spikes=metadata.get("spikes", 0),
      roll_backs=metadata.get("roll_backs", 0),
    )

  def metadata(self) -> dict[str, Any]:
    """As JSON, for the checkpoint."""
    return dataclasses.asdict(self)
