"""Checkpoints: whole or not there, on any mesh."""

import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from vit_jax import trees
from vit_jax.checkpoint import store
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.processes import agreement
from vit_jax.sharding import mesh as mesh_lib


def state(value=1.0, ema=None):
  params = {"head": {"kernel": jnp.arange(8.0).reshape(4, 2) * value}}
  average = None if ema is None else jax.tree.map(lambda x: x * ema, params)
  return {
    "step": jnp.int32(3),
    "params": params,
    "opt_state": (jnp.zeros(3, jnp.bfloat16), {}),
    "ema_params": average,
  }


def abstract(tree, mesh=None, spec=None):
  mesh = mesh or mesh_lib.create_mesh(schema.Mesh())
  spec = spec or PartitionSpec()
  shardings = jax.tree.map(
    lambda leaf: NamedSharding(
      mesh, spec if leaf.ndim == 2 else PartitionSpec()
    ),
    tree,
  )
  return store.with_shardings(tree, shardings)


def save(path, step, tree, **options):
  checkpoints = store.CheckpointStore(path, **options)
  checkpoints.save(step, tree, {"first_example": step * 10})
  checkpoints.close()


def assert_equal(first, second):
  assert jax.tree.structure(first) == jax.tree.structure(second)
  for x, y in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
    assert x.dtype == y.dtype
    np.testing.assert_array_equal(
      np.asarray(x, np.float32), np.asarray(y, np.float32)
    )


def test_replicas_share_the_writing_of_large_arrays_alone(tmp_path):
  mesh = mesh_lib.create_mesh(schema.Mesh())
  assert mesh.size == 4
  # 16 kB, and a mebibyte for each device.
  arrays = {"small": jnp.ones((64, 64)), "large": jnp.ones((1024, 1024))}
  replicated = NamedSharding(mesh, PartitionSpec())
  save(tmp_path, 1, jax.device_put(arrays, replicated))
  with ocp.StandardCheckpointer() as reader:
    found = reader.metadata(tmp_path / "checkpoints" / "1" / "state")
  shapes = {
    name: found.item_metadata[name].storage.write_shape for name in arrays
  }
  assert shapes == {"small": (64, 64), "large": (256, 1024)}
  restored = store.CheckpointStore(tmp_path).restore(1, abstract(arrays))
  assert_equal(restored, arrays)


def test_a_state_comes_back_to_the_bit_with_its_metadata(tmp_path):
  save(tmp_path, 7, state())
  checkpoints = store.CheckpointStore(tmp_path)
  assert checkpoints.latest_step() == 7
  assert checkpoints.metadata(7) == {"first_example": 70}
  assert_equal(checkpoints.restore(7, abstract(state())), state())
  checkpoints.close()


def test_the_shapes_of_a_saved_state_are_those_of_its_named_leaves(tmp_path):
  save(tmp_path, 3, state(ema=0.5))
  shapes = store.CheckpointStore(tmp_path).shapes(3)
  named = trees.named_leaves(state(ema=0.5))
  assert shapes == {name: leaf.shape for name, leaf in named}


def test_it_comes_back_on_another_mesh(tmp_path):
  save(tmp_path, 1, state())
  mesh = mesh_lib.create_mesh(schema.Mesh(data=1, fsdp=4))
  checkpoints = store.CheckpointStore(tmp_path)
  target = abstract(state(), mesh, PartitionSpec("fsdp"))
  restored = checkpoints.restore(1, target)
  checkpoints.close()
  kernel = restored["params"]["head"]["kernel"]
  assert kernel.sharding.spec == PartitionSpec("fsdp")
  assert_equal(restored, state())


def test_the_newest_and_the_multiples_are_kept(tmp_path):
  checkpoints = store.CheckpointStore(tmp_path, keep_last=2, keep_every_steps=4)
  for step in range(1, 8):
    checkpoints.save(step, state(), {})
  checkpoints.close()
  kept = {int(path.name) for path in (tmp_path / "checkpoints").iterdir()}
  assert kept == {4, 6, 7}


def test_a_save_that_was_cut_off_is_cleared_and_the_one_before_stands(tmp_path):
  save(tmp_path, 1, state())
  torn = tmp_path / "checkpoints" / "2.orbax-checkpoint-tmp"
  torn.mkdir()
  (torn / "something").write_text("half")
  checkpoints = store.CheckpointStore(tmp_path)
  assert checkpoints.latest_step() == 1
  checkpoints.close()
  deadline = time.monotonic() + 100  # It is cleared in the background.
  while torn.exists() and time.monotonic() < deadline:
    time.sleep(0.01)
  assert not torn.exists()


def test_a_step_is_not_saved_twice(tmp_path):
  checkpoints = store.CheckpointStore(tmp_path)
  checkpoints.save(1, state(), {})
  checkpoints.save(1, state(value=2.0), {})
  checkpoints.close()
  assert_equal(store.read_params(tmp_path, 1), state()["params"])


def test_the_average_is_read_where_there_is_one(tmp_path):
  save(tmp_path, 1, state(), keep_last=2)
  save(tmp_path, 2, state(ema=0.5), keep_last=2)
  assert_equal(store.read_params(tmp_path, 1), state()["params"])
  assert_equal(store.read_params(tmp_path, 2), state(ema=0.5)["ema_params"])


def test_a_workdir_that_is_a_file_is_refused_in_a_sentence(tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(UserError, match="cannot be reached"):
    store.CheckpointStore(tmp_path / "file")


@pytest.mark.parametrize(
  "error",
  [
    ValueError("UNKNOWN: Gloo AllGather failed: Connection closed"),
    jax.errors.JaxRuntimeError("UNAVAILABLE: Connection reset by peer"),
    jax.errors.JaxRuntimeError(
      "RESOURCE_EXHAUSTED: Connection is not at fault"
    ),
  ],
)
def test_what_jax_raises_while_it_opens_is_no_fault_of_the_bucket(
  bucket, monkeypatch, error
):
  def fail(*unused):
    raise error

  monkeypatch.setattr(agreement, "gather", fail)
  with pytest.raises(type(error), match="Connection") as seen:
    store.CheckpointStore(bucket)
  assert seen.value is error


def test_a_user_without_a_name_saves_and_reads(tmp_path, nobody_has_a_name):
  save(tmp_path, 1, state())
  opened = store.CheckpointStore(tmp_path)
  assert opened.latest_step() == 1
  assert_equal(opened.restore(1, abstract(state())), state())
  assert_equal(store.read_params(tmp_path, 1), state()["params"])


def refusing(number):
  """Refuses a request, counted from 0, and its like from then on."""
  asked, refused = itertools.count(), []

  def refuse(kind, name):
    if next(asked) == number:
      refused.append((kind, name))
    return (kind, name) in refused

  return refuse, refused


def test_what_a_bucket_refuses_to_show_is_neither_damaged_nor_absent(
  bucket, storage
):
  for step in (1, 2):
    save(bucket, step, state(), keep_last=2)
  objects = storage.names()
  for number in itertools.count():
    storage.refused, refused = refusing(number)
    try:
      opened = store.CheckpointStore(bucket, keep_last=2)
      assert opened.all_steps() == [1, 2], refused
      opened.metadata(2)
      opened.restore(2, abstract(state()))
    except UserError as error:
      assert "cannot be reached: " in str(error)
    assert storage.names() == objects, refused
    if not refused:
      break
  assert number > 30
