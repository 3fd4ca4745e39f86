"""What stands in for examples that cannot be read."""

import copy
import logging

import jax
import numpy as np
import pytest
from jax.sharding import AxisType

from tests.data.test_host_batches import assert_equal, host_batches, take
from vit_jax.data import features, pipeline, spec
from vit_jax.data.substitutes import Substitutes
from vit_jax.errors import UserError

BATCH = 8


def in_order(rows):
  return rows % 20


@pytest.fixture
def damaged(jpegs):
  """Pictures 3, 4 and 19 of twenty are broken."""
  jpegs.images[3] = jpegs.images[3][:200]
  jpegs.images[4] = b""
  jpegs.images[19] = b"no picture"
  return jpegs


def labels(batches):
  return np.concatenate([batch["label"] for batch in batches]).tolist()


def test_the_next_whole_example_takes_the_place_of_a_broken_one(damaged):
  batches = host_batches(damaged, order=in_order, max_bad_examples=3)
  expected = [i % 10 for i in range(20)]
  # 3 and 4 give way to 5, and 19, the last, to 0.
  expected[3] = expected[4] = 5
  expected[19] = 0
  assert labels(take(batches, 5)) == expected * 2


def test_a_stand_in_is_augmented_for_its_row(damaged, jpegs):
  batches = take(host_batches(damaged, order=in_order, max_bad_examples=3), 1)
  whole = [i if i not in (3, 4) else 5 for i in range(8)]
  expected = host_batches(jpegs, order=lambda rows: np.array(whole)[rows % 8])
  assert_equal(batches, take(expected, 1))


@pytest.mark.parametrize("start", [1, 2, 4])
def test_a_later_start_finds_the_same_stand_ins(start, damaged):
  settings = {"order": in_order, "max_bad_examples": 3}
  whole = take(host_batches(damaged, **settings), 6)
  first = host_batches(damaged, **settings)
  take(first, start)
  known = first.bad_examples(before=start * BATCH)
  again = host_batches(
    damaged, first=start * BATCH, bad_examples=known, **settings
  )
  assert_equal(take(again, 6 - start), whole[start:])
  assert again.bad_examples(before=48) == [3, 4, 19]


@pytest.mark.parametrize("num_processes", [2, 4])
def test_processes_together_find_the_same_stand_ins(num_processes, damaged):
  settings = {"order": in_order, "max_bad_examples": 3}
  whole = take(host_batches(damaged, **settings), 3)
  share = BATCH // num_processes
  parts = [
    host_batches(damaged, rows=range(p * share, (p + 1) * share), **settings)
    for p in range(num_processes)
  ]
  together = [
    {name: np.concatenate([part[name] for part in step]) for name in step[0]}
    for step in zip(*(take(part, 3) for part in parts), strict=True)
  ]
  assert_equal(together, whole)
  met = set().union(*(part.bad_examples(before=24) for part in parts))
  assert met == {3, 4, 19}


def test_bad_examples_are_counted_by_the_row_they_stand_in(damaged):
  batches = host_batches(damaged, order=in_order, max_bad_examples=3)
  take(batches, 3)
  counts = [len(batches.bad_examples(before)) for before in (3, 4, 5, 19, 20)]
  assert counts == [0, 2, 2, 2, 3]  # Picture 4 also failed as 3's stand-in.


def test_each_is_named_once(damaged, caplog):
  with caplog.at_level(logging.WARNING):
    take(host_batches(damaged, order=in_order, max_bad_examples=3), 8)
  named = [record.getMessage() for record in caplog.records]
  for name in ("picture 3 (damaged)", "picture 4 (empty", "picture 19 (dam"):
    assert sum(name in message for message in named) == 1


def test_one_more_than_allowed_ends_the_run_at_its_batch(damaged):
  batches = host_batches(damaged, order=in_order, max_bad_examples=2)
  take(batches, 2)
  says = (
    r"3 examples could not be used, more than config.train.max_bad_examples"
    r" = 2: picture 3; picture 4; picture 19"
  )
  with pytest.raises(UserError, match=says):
    next(batches)


def test_by_default_the_first_ends_the_run_and_the_key_is_named(damaged):
  batches = host_batches(damaged, order=in_order, max_bad_examples=0)
  with pytest.raises(UserError, match="picture 3 .*config.train.max_bad_exam"):
    next(batches)


def test_more_bad_ones_in_a_row_than_allowed_end_the_run(jpegs):
  jpegs.images[2:18] = [b""] * 16
  batches = host_batches(jpegs, order=in_order, max_bad_examples=5)
  with pytest.raises(UserError, match="picture 2"):
    next(batches)


def test_a_record_that_the_source_cannot_read_is_replaced(jpegs):
  read = jpegs.read

  def fails(ids):
    if 9 in ids:
      raise UserError("picture 9 is cut off")
    return read(ids)

  jpegs.read = fails
  batches = host_batches(jpegs, order=in_order, max_bad_examples=1)
  assert labels(take(batches, 2))[9] == 0
  assert batches.bad_examples(before=16) == [9]


def test_a_crop_above_the_damage_still_counts_as_whole(encode, memory_source):
  rng = np.random.default_rng(0)
  pixels = rng.integers(0, 256, (64, 64, 3), np.uint8)
  content = encode(pixels, "JPEG")
  source = memory_source(
    [content[: int(0.6 * len(content))], *[content] * 19],
    np.arange(20, dtype=np.int32) % 10,
  )
  text = "decode|inception_crop(16, area_min=5, area_max=10)"
  settings = {"text": text, "order": lambda rows: rows * 0}
  batches = host_batches(source, max_bad_examples=1, **settings)
  shown = labels(take(batches, 6))
  assert set(shown) == {0, 1}
  late = host_batches(source, first=24, max_bad_examples=1, **settings)
  assert labels(take(late, 3)) == shown[24:]


def test_an_image_that_the_ops_do_not_suit_is_no_bad_example(
  jpegs, encode, smooth
):
  jpegs.images[3] = encode(smooth(12, 30), "JPEG")
  batches = host_batches(
    jpegs, text="decode|central_crop", order=in_order, max_bad_examples=5
  )
  with pytest.raises(UserError, match="picture 3: the image of 30 x 12"):
    next(batches)


def test_a_disk_that_fails_for_a_moment_costs_nothing(jpegs, caplog):
  whole = take(host_batches(jpegs, order=in_order), 3)
  # Of its own: what `whole` was read by may read ahead for a moment more.
  failing, read, failures = copy.copy(jpegs), jpegs.read, iter([True])

  def fails_once(ids):
    if 9 in ids and next(failures, False):
      raise OSError("stale file handle")
    return read(ids)

  failing.read = fails_once
  batches = host_batches(failing, order=in_order)
  with caplog.at_level(logging.WARNING):
    assert_equal(take(batches, 3), whole)
  assert "Reading a batch again" in caplog.text


def test_global_batches_can_go_on_from_another_row(damaged):
  mesh = jax.make_mesh(
    (2, 1, 1),
    ("data", "fsdp", "tensor"),
    axis_types=(AxisType.Auto,) * 3,
    devices=jax.devices()[:2],
  )
  batches = pipeline.TrainBatches(
    damaged,
    features=features.of_images(spec.parse("decode|inception_crop", 16)),
    batch_size=BATCH,
    seed=3,
    shuffle_block=1,
    first_example=0,
    mesh=mesh,
    prefetch_batches=2,
    max_bad_examples=3,
  )
  shown = [jax.device_get(next(batches)) for _ in range(4)]
  batches.seek(BATCH, batches.bad_examples(BATCH))
  assert batches.first_example == BATCH
  again = [jax.device_get(next(batches)) for _ in range(3)]
  assert_equal(again, shown[1:])
  assert batches.bad_examples(32) == [3, 4, 19]
  batches.close()


def test_a_suspect_that_works_in_a_row_keeps_it():
  def fails(example, row):
    return row < 5

  found = Substitutes(10, limit=3)
  found.suspect({7: "cut off"})
  rows = np.arange(10)
  ids = np.full(10, 7)
  assert found.replace(rows, ids, fails).tolist() == [8] * 5 + [7] * 5
  assert found.met(before=1) == [7]
