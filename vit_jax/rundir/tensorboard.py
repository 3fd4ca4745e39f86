"""TensorBoard events through clu; the only file that knows clu's writers."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from etils import epath

from vit_jax.data.tf_import import tf

_logger = logging.getLogger(__name__)


class TensorBoard:
  """Writes scalars to event files in the background.

  What cannot be written, as on a full disk, is missing in TensorBoard and no
  more: `metrics.jsonl` has it.

  Args:
    workdir: Directory of the event files.
  """

  def __init__(self, workdir: epath.Path):
    tf.config  # noqa: B018  Imports it quietly, before clu does.
    from clu import metric_writers

    self._writer = metric_writers.AsyncWriter(
      _Forgiving(metric_writers.SummaryWriter(str(workdir)))
    )

  def write(self, step: int, metrics: Mapping[str, float | int]) -> None:
    self._writer.write_scalars(step, dict(metrics))

  def close(self) -> None:
    self._writer.close()


class _Forgiving:
  """A clu writer whose errors are told once."""

  def __init__(self, writer: Any):
    self._writer = writer
    self._told = False

  def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
    self._attempt(lambda: self._writer.write_scalars(step, scalars))

  def flush(self) -> None:
    self._attempt(self._writer.flush)

  def close(self) -> None:
    self._attempt(self._writer.close)

  def _attempt(self, write: Callable[[], None]) -> None:
    try:
      write()
    except (OSError, tf.errors.OpError) as error:
      if not self._told:
        reason = " ".join(str(error).split())[:200]
        _logger.error("ALARM: TensorBoard's events are incomplete: %s", reason)
      self._told = True
