"""What this package uses of Orbax's private interfaces is still there."""

import threading

import pytest
from etils import epath
from orbax.checkpoint._src.futures import future
from orbax.checkpoint._src.metadata import checkpoint

from vit_jax.checkpoint import orbax_private


@pytest.mark.parametrize(
  ("module", "name"),
  [
    (future, "_SignalingThread"),
    (checkpoint, "step_metadata_file_path"),
  ],
)
def test_an_interface_is_where_it_was(module, name):
  assert hasattr(module, name), (
    f"vit_jax/checkpoint/orbax_private.py uses {module.__name__}.{name}, which"
    " this version of Orbax lacks; look for its replacement there."
  )


def test_a_steps_metadata_lie_in_the_step(tmp_path):
  path = epath.Path(tmp_path) / "7"
  assert orbax_private.step_metadata_file(path).parent == path


def test_a_thread_of_ours_is_no_writer():
  assert issubclass(future._SignalingThread, threading.Thread)
  assert not orbax_private.is_writer(threading.current_thread())
