import os

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

from vit_jax.data import features, generated, order, pipeline, spec
from vit_jax.data.balanced_order import BalancedOrder
from vit_jax.errors import UserError


def mesh_of(data=1, fsdp=1, tensor=1):
  devices = jax.devices()[: data * fsdp * tensor]
  return jax.make_mesh(
    (data, fsdp, tensor),
    ("data", "fsdp", "tensor"),
    axis_types=(AxisType.Auto,) * 3,
    devices=devices,
  )


def train_batches(source, **changes):
  text = changes.pop("preprocess", "decode|inception_crop|flip_lr")
  settings = {
    "features": features.of_images(spec.parse(text, 16)),
    "batch_size": 8,
    "seed": 3,
    "shuffle_block": 1,
    "first_example": 0,
    "mesh": mesh_of(),
    "prefetch_batches": 2,
  }
  return pipeline.TrainBatches(source, **(settings | changes))


def take(batches, count):
  result = [jax.device_get(next(batches)) for _ in range(count)]
  batches.close()
  return result


@pytest.mark.parametrize(
  "mesh", [(4, 1, 1), (2, 2, 1), (1, 2, 2), (2, 1, 2), (1, 1, 4)]
)
def test_the_batch_does_not_depend_on_the_mesh(mesh, jpegs):
  expected = take(train_batches(jpegs), 3)
  batches = train_batches(jpegs, mesh=mesh_of(*mesh))
  first = next(batches)
  assert first["image"].sharding.spec == PartitionSpec(("data", "fsdp"))
  assert first["image"].addressable_shards[0].data.shape[0] == 8 // (
    mesh[0] * mesh[1]
  )
  ours = [jax.device_get(first), *take(batches, 2)]
  for a, b in zip(ours, expected, strict=True):
    assert np.array_equal(a["image"], b["image"])
    assert np.array_equal(a["label"], b["label"])


def test_first_example_is_the_row_of_the_next_batch(jpegs):
  batches = train_batches(jpegs, first_example=13)
  assert batches.first_example == 13
  next(batches), next(batches)
  assert batches.first_example == 29
  (third,) = take(batches, 1)
  (resumed,) = take(train_batches(jpegs, first_example=29), 1)
  assert np.array_equal(third["image"], resumed["image"])


def test_labels_follow_the_data_order(raw):
  batches = take(train_batches(raw, preprocess="decode|pad(4)"), 4)
  ids, _ = order.example_ids(np.arange(32), 24, seed=3)
  labels = np.concatenate([batch["label"] for batch in batches])
  assert np.array_equal(labels, raw.labels[ids])


def test_shuffle_block_is_passed_on(raw):
  batches = take(
    train_batches(raw, preprocess="decode|pad(4)", shuffle_block=4), 3
  )
  ids, _ = order.example_ids(np.arange(24), 24, seed=3, shuffle_block=4)
  shown = np.concatenate([batch["image"][:, 8, 8, 0] for batch in batches])
  assert np.array_equal(shown, ids)


@pytest.mark.parametrize("mesh", [(1, 1, 1), (2, 2, 1)])
def test_balanced_batches_have_every_class_as_often(mesh, raw):
  labels = np.repeat([0, 1, 2, 3], [3, 1, 15, 5])
  balance = BalancedOrder(labels)
  batches = take(
    train_batches(
      raw, preprocess="decode|pad(4)", balance=balance, mesh=mesh_of(*mesh)
    ),
    6,
  )
  shown = [batch["image"][:, 8, 8, 0] for batch in batches]
  expected = balance.example_ids(np.arange(48), seed=3)
  assert np.array_equal(np.concatenate(shown), expected)
  for ids in shown:
    assert np.bincount(labels[ids]).tolist() == [2, 2, 2, 2]


def test_a_broken_image_stops_the_batches_and_is_named(jpegs):
  jpegs.images[4] = jpegs.images[4][:200]
  batches = train_batches(jpegs)
  with pytest.raises(UserError, match="picture 4"):
    take(batches, 3)
  batches.close()


def test_batches_need_no_implicit_transfer(jpegs):
  with jax.transfer_guard("disallow"):
    batches = train_batches(jpegs)
    next(batches)
    batches.close()


def iterate(source, batch_size, **changes):
  settings = {
    "preprocess": spec.parse("decode|resize", 16),
    "mesh": mesh_of(4),
  }
  return pipeline.eval_batches(
    source, batch_size=batch_size, **(settings | changes)
  )


def evaluate(source, batch_size, **changes):
  batches = iterate(source, batch_size, **changes)
  return [jax.device_get(batch) for batch in batches]


@pytest.mark.parametrize("batch_size", [1, 3, 4, 7, 20, 64])
def test_an_evaluation_has_every_example_exactly_once(batch_size, jpegs):
  batches = evaluate(jpegs, batch_size)
  rounded = -(-batch_size // 4) * 4
  assert {batch["image"].shape[0] for batch in batches} == {rounded}
  assert len(batches) == -(-20 // rounded)
  mask = np.concatenate([batch["mask"] for batch in batches])
  ids = np.concatenate([batch["id"] for batch in batches])
  labels = np.concatenate([batch["label"] for batch in batches])
  assert mask.dtype == bool and ids.dtype == np.int32
  assert ids[mask].tolist() == list(range(20))
  assert np.array_equal(labels[mask], jpegs.labels)
  assert (ids[~mask] == -1).all() and (labels[~mask] == -1).all()


def test_an_evaluation_does_not_depend_on_batch_size_and_mesh(jpegs):
  def images(batches):
    return np.concatenate([b["image"][b["mask"]] for b in batches])

  one = images(evaluate(jpegs, 20, mesh=mesh_of()))
  assert np.array_equal(one, images(evaluate(jpegs, 8)))
  assert np.array_equal(one, images(evaluate(jpegs, 3, mesh=mesh_of(2, 1, 2))))


def test_lists_of_labels_are_filled_up_too(jpegs, memory_source):
  labels = np.array([[i % 10, -1] for i in range(20)], np.int32)
  source = memory_source(jpegs.images, labels, max_labels=2)
  (batch,) = evaluate(source, 24)
  assert np.array_equal(batch["label"][:20], labels)
  assert (batch["label"][20:] == -1).all()


def test_a_broken_image_of_an_evaluation_is_named(jpegs):
  jpegs.images[19] = jpegs.images[19][:200]
  with pytest.raises(UserError, match="picture 19"):
    evaluate(jpegs, 8)


def test_evaluations_leave_no_threads_behind(jpegs):
  def threads():
    return len(os.listdir("/proc/self/task"))

  evaluate(jpegs, 4)
  before = threads()
  for _ in range(5):
    evaluate(jpegs, 4)
  next(iterate(jpegs, 4))  # One that is left in the middle.
  assert threads() <= before + 2


def test_repeats_show_an_example_in_several_augmentations(jpegs):
  (batch,) = take(train_batches(jpegs, repeats=2), 1)
  ids, _ = order.example_ids(np.arange(8), 20, seed=3, repeats=2)
  assert np.array_equal(batch["label"], jpegs.labels[ids])
  assert np.array_equal(batch["label"][::2], batch["label"][1::2])
  images = np.asarray(batch["image"])
  assert (images[::2] != images[1::2]).any(axis=(1, 2, 3)).all()


def test_repeats_resume_at_any_batch(jpegs):
  *_, third = take(train_batches(jpegs, repeats=4), 3)
  (resumed,) = take(train_batches(jpegs, repeats=4, first_example=16), 1)
  assert np.array_equal(third["image"], resumed["image"])


def test_numbers_reach_the_devices_as_they_are_read():
  source = generated.open_source("targets=2,size=16,examples=10", "train")
  batches = train_batches(
    source,
    features=features.of_images(spec.parse("decode", 16)).of_source(source),
    batch_size=4,
  )
  found = np.concatenate([batch["label"] for batch in take(batches, 2)])
  ids, _ = order.example_ids(np.arange(8), 10, seed=3)
  assert found.dtype == np.float32
  np.testing.assert_array_equal(
    found, source.known_labels()[ids].astype(np.float32)
  )
  (whole,) = evaluate(source, 12, preprocess=spec.parse("decode", 16))
  np.testing.assert_array_equal(
    whole["label"][:10], source.known_labels().astype(np.float32)
  )
  assert whole["mask"].tolist() == [True] * 10 + [False] * 2
