import numpy as np
import pytest

from vit_jax.data import features, order, outages, spec
from vit_jax.data.host_batches import HostBatches
from vit_jax.errors import UserError

BATCH = 8
CROP = "decode|inception_crop(16)"


def host_batches(
  source, *, text=CROP, rows=range(BATCH), first=0, seed=5, **kw
):
  def ids(rows):
    return order.example_ids(rows, source.num_examples, seed=seed)[0]

  _, declared = features.of_images(spec.parse(text, 16)).suited_to(
    source.num_classes, source.max_labels
  )
  return HostBatches(
    source,
    declared,
    **{
      "order": ids,
      "local_rows": np.array(rows),
      "batch_size": BATCH,
      "first_row": first,
      "seed": seed,
      **kw,
    },
  )


def in_order(rows):
  return rows % 20


def take(batches, count):
  return [next(batches) for _ in range(count)]


def assert_equal(ours, expected):
  for a, b in zip(ours, expected, strict=True):
    assert a.keys() == b.keys()
    for name in a:
      assert np.array_equal(a[name], b[name]), name


@pytest.fixture
def whole(jpegs):
  """Six global batches as one process sees them, two epochs and more."""
  return take(host_batches(jpegs), 6)


@pytest.mark.parametrize("num_processes", [2, 4])
def test_processes_together_read_the_same_global_batch(
  num_processes, jpegs, whole
):
  share = BATCH // num_processes
  parts = [
    take(host_batches(jpegs, rows=range(p * share, (p + 1) * share)), 6)
    for p in range(num_processes)
  ]
  together = [
    {name: np.concatenate([part[name] for part in step]) for name in step[0]}
    for step in zip(*parts, strict=True)
  ]
  assert_equal(together, whole)


def test_rows_of_a_process_need_not_be_neighbours(jpegs, whole):
  rows = [1, 2, 7]
  part = take(host_batches(jpegs, rows=rows), 6)
  assert_equal(part, [{k: v[rows] for k, v in step.items()} for step in whole])


@pytest.mark.parametrize("step", [1, 3, 5])
def test_starting_late_equals_skipping(step, jpegs, whole):
  late = take(host_batches(jpegs, first=step * BATCH), 6 - step)
  assert_equal(late, whole[step:])


def test_a_start_off_the_grid_of_batches_shifts_the_rows(jpegs, whole):
  (batch,) = take(host_batches(jpegs, first=3), 1)
  for name, array in batch.items():
    joined = np.concatenate([whole[0][name], whole[1][name]])
    assert np.array_equal(array, joined[3 : 3 + BATCH])


def test_the_seed_changes_order_and_augmentation(jpegs, whole):
  (other,) = take(host_batches(jpegs, seed=6), 1)
  assert not np.array_equal(other["label"], whole[0]["label"])
  same_order = host_batches(
    jpegs,
    seed=6,
    order=lambda rows: order.example_ids(rows, 20, seed=5)[0],
  )
  (augmented,) = take(same_order, 1)
  assert np.array_equal(augmented["label"], whole[0]["label"])
  assert not np.array_equal(augmented["image"], whole[0]["image"])


def test_an_example_is_augmented_anew_in_every_epoch(jpegs):
  batches = take(host_batches(jpegs, order=lambda rows: rows % BATCH), 2)
  assert np.array_equal(batches[0]["label"], batches[1]["label"])
  assert not np.array_equal(batches[0]["image"], batches[1]["image"])


def test_every_example_comes_exactly_once_an_epoch(raw):
  batches = host_batches(raw, text="decode|pad(4)")
  for _ in range(3):
    shown = np.concatenate([b["image"][:, 8, 8, 0] for b in take(batches, 3)])
    assert np.array_equal(np.sort(shown), np.arange(24))


def test_images_are_uint8_and_labels_int32(whole):
  assert whole[0]["image"].shape == (BATCH, 16, 16, 3)
  assert whole[0]["image"].dtype == np.uint8
  assert whole[0]["label"].dtype == np.int32


def test_lists_of_labels_stay_lists(jpegs, memory_source):
  labels = np.array([[i % 10, -1] for i in range(20)], np.int32)
  source = memory_source(jpegs.images, labels, max_labels=2)
  (batch,) = take(host_batches(source, order=in_order), 1)
  assert np.array_equal(batch["label"], labels[:BATCH])


def test_dropped_labels_do_not_come(jpegs):
  (batch,) = take(host_batches(jpegs, text=CROP + "|keep('image')"), 1)
  assert batch.keys() == {"image"}


def test_the_last_batch_is_cut_short(raw):
  batches = host_batches(
    raw, text="decode|pad(4)", order=lambda r: r, num_rows=21
  )
  shown = [batch["image"][:, 8, 8, 0].tolist() for batch in batches]
  assert shown == [list(range(8)), list(range(8, 16)), list(range(16, 21))]


@pytest.mark.parametrize("rows", [[0, 1], [2, 5], [6, 7]])
def test_the_end_is_cut_for_any_rows_of_a_process(rows, raw):
  batches = host_batches(
    raw, text="decode|pad(4)", order=lambda r: r, num_rows=21, rows=rows
  )
  shown = [i for b in batches for i in b["image"][:, 8, 8, 0].tolist()]
  assert shown == [i for i in range(21) if i % BATCH in rows]


def test_a_broken_image_is_named(jpegs):
  jpegs.images[11] = jpegs.images[11][:300]
  batches = host_batches(jpegs, order=in_order)
  next(batches)
  with pytest.raises(
    UserError, match=r"cannot be read .*: picture 11 \(damaged\)"
  ):
    next(batches)


@pytest.mark.parametrize(
  ("content", "reason"),
  [
    (b"", "empty file"),
    (b"GIF89a", "damaged"),
    (b"not an image at all", "damaged"),
  ],
)
def test_what_is_no_image_is_named(content, reason, jpegs):
  jpegs.images[0] = content
  batches = host_batches(jpegs, order=in_order)
  with pytest.raises(
    UserError, match=rf"cannot be read .*: picture 0 \({reason}\)"
  ):
    next(batches)


@pytest.mark.parametrize("op", ["central_crop", "random_crop"])
@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_an_image_too_small_for_a_crop_is_named(
  op, format, jpegs, encode, smooth
):
  jpegs.images[3] = encode(smooth(12, 30), format)
  batches = host_batches(jpegs, text=f"decode|{op}", order=in_order)
  says = r"^picture 3: the image of 30 x 12 pixels does not suit .*" + op
  with pytest.raises(UserError, match=says):
    next(batches)


def test_an_error_of_the_source_names_the_record(jpegs):
  read = jpegs.read

  def fails(ids):
    if 9 in ids:
      raise UserError("picture 9 cannot be read")
    return read(ids)

  jpegs.read = fails
  batches = host_batches(jpegs, order=in_order)
  with pytest.raises(UserError, match="picture 9 cannot be read"):
    take(batches, 2)


def test_a_batch_that_fails_though_its_images_do_not_ends_with_a_sentence(
  jpegs,
):
  read = jpegs.read

  def fails(ids):
    if len(ids) > 1:
      raise RuntimeError("no route to the shelf")
    return read(ids)

  jpegs.read = fails
  batches = host_batches(jpegs, order=in_order)
  says = r"^A batch failed 4 times \(.*no route to the shelf"
  with pytest.raises(UserError, match=says):
    next(batches)


def test_an_outage_of_the_storage_is_no_bad_example(jpegs):
  read = jpegs.read

  def fails(ids):
    if 9 in ids:
      raise outages.StorageError("picture 9 could not be read for 300 seconds")
    return read(ids)

  jpegs.read = fails
  batches = host_batches(jpegs, order=in_order, max_bad_examples=5)
  with pytest.raises(outages.StorageError, match="picture 9 could not"):
    take(batches, 2)
  assert batches.bad_examples(20) == []


def test_a_known_bad_example_that_an_outage_hides_is_not_replaced(jpegs):
  read = jpegs.read

  def fails(ids):
    if 9 in ids and len(ids) == 1:
      raise outages.StorageError("picture 9 could not be read for 300 seconds")
    return read(ids)

  jpegs.read = fails
  batches = host_batches(
    jpegs, order=in_order, max_bad_examples=5, bad_examples=[9]
  )
  with pytest.raises(outages.StorageError, match="picture 9 could not"):
    take(batches, 2)


def test_raw_images_of_the_wrong_size_are_refused_at_once(raw):
  with pytest.raises(UserError, match="yields images of 8 x 8 pixels"):
    host_batches(raw, text="decode")


def test_encoded_images_need_a_size(jpegs):
  with pytest.raises(UserError, match="leaves images of various sizes"):
    host_batches(jpegs, text="decode")
