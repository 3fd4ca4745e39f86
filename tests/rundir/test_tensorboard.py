import errno
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from etils import epath
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tensor_util

from vit_jax.rundir.tensorboard import TensorBoard

_WRITE = """
import sys
from etils import epath
from vit_jax.rundir.tensorboard import TensorBoard
board = TensorBoard(epath.Path(sys.argv[1]))
for step in (10, 20):
  board.write(step, {"train/loss": 1 / step, "eval/test/num_examples": 7})
board.close()
assert not {"keras", "sklearn"} & set(sys.modules)
"""


def test_tensorboard_reads_what_is_written_without_keras(tmp_path):
  subprocess.run([sys.executable, "-c", _WRITE, str(tmp_path)], check=True)
  events = event_accumulator.EventAccumulator(str(tmp_path)).Reload()
  found = {
    (name, event.step): tensor_util.make_ndarray(event.tensor_proto).item()
    for name in events.Tags()["tensors"]
    for event in events.Tensors(name)
  }
  assert found == {
    ("train/loss", 10): float(np.float32(0.1)),
    ("train/loss", 20): float(np.float32(0.05)),
    ("eval/test/num_examples", 10): 7,
    ("eval/test/num_examples", 20): 7,
  }


@pytest.mark.parametrize(
  "error",
  [OSError(errno.ENOSPC, "No space left"), ValueError("not a number")],
  ids=lambda error: type(error).__name__,
)
def test_what_cannot_be_written_is_told_once(
  tmp_path, monkeypatch, caplog, error
):
  def fails(*args, **options):
    raise error

  monkeypatch.setattr(tf.summary, "scalar", fails)
  board = TensorBoard(epath.Path(tmp_path))
  for step in (1, 2):
    board.write(step, {"train/loss": 1.0})
  board.close()
  assert caplog.text.count("TensorBoard's events are incomplete") == 1
  assert error.args[-1] in caplog.text
