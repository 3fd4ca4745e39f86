"""What comparing a checkpoint with its manifest costs beside restoring it."""

import shutil
import time

import jax
import jax.numpy as jnp
import pytest

from tests import experiments
from vit_jax import trees
from vit_jax.checkpoint import manifest
from vit_jax.checkpoint.store import CheckpointStore
from vit_jax.training import experiment

ROUNDS = 3


def seconds(function, *args):
  start = time.perf_counter()
  jax.block_until_ready(function(*args))
  return time.perf_counter() - start


@pytest.mark.exhaustive
def test_verifying_a_b16_with_adam_is_cheap_beside_restoring_it(
  tmp_path, capsys
):
  config = experiments.config(
    model__variant="B/16",
    model__width=None,
    model__depth=None,
    model__num_heads=None,
    model__mlp_dim=None,
    model__image_size=224,
  )
  abstract = experiment.build(config, experiments.FACTS).abstract_state
  assert trees.num_bytes(abstract) > 1e9
  # Random bits: what is saved must not compress.
  state = trees.map_named(
    lambda name, leaf: jax.device_put(
      jax.random.normal(jax.random.key(len(name)), leaf.shape).astype(
        leaf.dtype
      )
      if leaf.ndim
      else jnp.zeros((), leaf.dtype),
      leaf.sharding,
    ),
    abstract,
  )
  store = CheckpointStore(tmp_path)
  store.save(1, state, {})
  store.close()
  del state
  step = tmp_path / "checkpoints" / "1"
  size = sum(path.stat().st_size for path in step.rglob("*"))
  store = CheckpointStore(tmp_path)
  write = min(seconds(manifest.write, step) for _ in range(ROUNDS))
  verify = min(seconds(manifest.damage, step) for _ in range(ROUNDS))
  restore = min(seconds(store.restore, 1, abstract) for _ in range(ROUNDS))
  store.close()
  shutil.rmtree(step)
  with capsys.disabled():
    print(
      f"\n{size / 1e9:.2f} GB: manifest written in {write:.2f} s, verified in"
      f" {verify:.2f} s, restored in {restore:.2f} s:"
      f" {verify / restore:.0%} of the restore"
    )
  assert verify < 0.5 * restore
