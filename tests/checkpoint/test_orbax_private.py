"""What this package uses of Orbax's private interfaces is still there."""

import importlib
import threading

import pytest
from etils import epath


@pytest.mark.parametrize(
  ("module", "name"),
  [
    ("asyncio_utils", "_run_sync_via_new_loop"),
    ("futures.future", "_SignalingThread"),
    ("metadata.array_metadata_store", "Store"),
    ("metadata.checkpoint", "step_metadata_file_path"),
  ],
)
def test_an_interface_is_where_it_was(module, name):
  try:
    getattr(importlib.import_module(f"orbax.checkpoint._src.{module}"), name)
  except (ImportError, AttributeError):
    pytest.fail(
      f"vit_jax/checkpoint/orbax_private.py uses {module}.{name}, which this"
      " version of Orbax lacks; look for its replacement there.",
      pytrace=False,
    )


def test_a_steps_metadata_lie_in_the_step(tmp_path):
  from vit_jax.checkpoint import orbax_private

  path = epath.Path(tmp_path) / "7"
  assert orbax_private.step_metadata_file(path).parent == path


def test_a_thread_of_ours_is_no_writer():
  from vit_jax.checkpoint import orbax_private

  assert not orbax_private.is_writer(threading.current_thread())
