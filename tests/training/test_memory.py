"""What --dry_run estimates and the compiler counts; what saves memory."""

import pytest

from tests import experiments
from vit_jax.sharding import rules
from vit_jax.training import memory

# Examples enough that activations are most of the memory.
LARGE = {
  "train__batch_size": 256,
  "train__preprocess": "decode|resize",
  "optimizer__name": "sgd",
  "model__depth": 4,
}


def temporaries(**changes):
  """Bytes of a device besides state and batch, as compiled."""
  parts = experiments.build(**LARGE, **changes)
  return parts.compile().memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize(
  "mesh",
  [{}, {"mesh__data": 1, "mesh__fsdp": 2, "mesh__tensor": 2}],
  ids=["replicas", "mixed"],
)
def test_state_and_batch_are_what_the_compiler_counts(mesh, monkeypatch):
  monkeypatch.setattr(rules, "FSDP_MIN_BYTES", 0)
  parts = experiments.build(ema_decay=0.9, **mesh)
  estimated = memory.by_purpose(parts)
  names = ("parameters", "optimizer state", "averaged parameters", "batch")
  counted = parts.compile().memory_analysis().argument_size_in_bytes
  assert sum(estimated[n] for n in names) == pytest.approx(counted, rel=0.02)


@pytest.mark.slow
def test_the_more_is_recomputed_the_less_memory_is_compiled_in():
  full, named, dots, none = (
    temporaries(model__scan_layers=True, model__remat=remat)
    for remat in ("full", "named", "dots", "none")
  )
  assert full < named < dots < none


@pytest.mark.slow
def test_micro_batches_take_turns_in_memory():
  assert temporaries(train__accumulate_steps=4) < 0.5 * temporaries()
