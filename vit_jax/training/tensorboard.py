"""TensorBoard events through clu; the only file that knows clu's writers."""

from collections.abc import Mapping

from etils import epath

from vit_jax.data.tf_import import tf


class TensorBoard:
  """Writes scalars to event files in the background.

  Args:
    workdir: where the event files go.
  """

  def __init__(self, workdir: epath.Path):
    tf.config  # noqa: B018  Imports it quietly, before clu does.
    from clu import metric_writers

    self._writer = metric_writers.AsyncWriter(
      metric_writers.SummaryWriter(str(workdir))
    )

  def write(self, step: int, metrics: Mapping[str, float | int]) -> None:
    self._writer.write_scalars(step, dict(metrics))

  def close(self) -> None:
    self._writer.close()
