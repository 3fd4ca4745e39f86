"""TensorBoard events, through TensorFlow's own writer.

`clu.metric_writers` would import Keras and scikit-learn at every start, for a
callback in TensorBoard's hyperparameter plugin.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent import futures

from etils import epath

from vit_jax.data.tf_import import tf

_logger = logging.getLogger(__name__)


class TensorBoard:
  """Writes scalars to event files in the background.

  Values that cannot be written, for example on a full disk, are missing only in
  TensorBoard, not in `metrics.jsonl`.

  Args:
    workdir: Directory of the event files.
  """

  def __init__(self, workdir: epath.Path):
    self._told = False
    self._thread = futures.ThreadPoolExecutor(1, "tensorboard")
    self._writer = tf.summary.create_file_writer(str(workdir))

  def write(self, step: int, metrics: Mapping[str, float | int]) -> None:
    self._thread.submit(self._attempt, self._write, step, dict(metrics))

  def close(self) -> None:
    self._thread.submit(self._attempt, self._writer.close)
    self._thread.shutdown()

  def _write(self, step: int, metrics: Mapping[str, float | int]) -> None:
    with self._writer.as_default():
      for name, value in metrics.items():
        tf.summary.scalar(name, value, step=step)

  def _attempt(self, write: Callable[..., None], *args) -> None:
    try:
      write(*args)
    except Exception as error:  # The thread's future would hide it.
      if not self._told:
        reason = " ".join(str(error).split())[:200]
        _logger.error("ALARM: TensorBoard's events are incomplete: %s", reason)
      self._told = True
