"""The steps of a run to compare."""

import logging
from collections.abc import Iterator

import numpy as np
from etils import epath

from vit_jax.checkpoint import verification
from vit_jax.checkpoint.store import DIRECTORY
from vit_jax.errors import UserError
from vit_jax.inspection import network
from vit_jax.pretrained import reading

_logger = logging.getLogger(__name__)


def steps(checkpoint: str, count: int) -> list[int]:
  """Returns evenly spaced steps among those that a path stands for.

  Args:
    checkpoint: Path as for `reading.read`; a workdir stands for all its steps,
      any other path for none.
    count: Number of steps to return, including the first and the last.
  """
  if reading.is_published(checkpoint):
    return []
  workdir, _ = reading.locate(checkpoint)
  where = epath.Path(checkpoint)
  if where.parent.name == DIRECTORY and where.name.isdigit():
    return []
  found = verification.steps_in(workdir / DIRECTORY)
  places = np.linspace(0, len(found) - 1, min(count, len(found)))
  return [found[place] for place in np.rint(places).astype(int)]


def networks(
  checkpoint: str, wanted: list[int]
) -> Iterator[tuple[int, network.Network]]:
  """Yields a run's network after each step; skips damaged ones."""
  workdir, _ = reading.locate(checkpoint)
  for step in wanted:
    try:
      weights = reading.read(str(workdir / DIRECTORY / str(step)))
      yield step, network.of_weights(weights)
    except UserError as error:
      _logger.warning("Step %d is left out: %s", step, error)
