import numpy as np
import pytest

from vit_jax.data import generated
from vit_jax.errors import UserError


def _read(arguments, split="train", ids=None):
  source = generated.open_source(arguments, split)
  ids = np.arange(source.num_examples) if ids is None else np.asarray(ids)
  return source.read(ids)


def test_images_and_labels_have_the_structure_asked_for():
  source = generated.open_source("classes=5,size=16,examples=40", "train")
  assert source.num_examples == 40
  assert source.num_classes == 5
  assert source.max_labels == 1
  assert source.image_shape == (16, 16, 3)
  batch = source.read(np.array([3, 39, 0]))
  assert batch["image"].shape == (3, 16, 16, 3)
  assert batch["image"].dtype == np.uint8
  assert batch["label"].dtype == np.int32
  assert batch["label"].shape == (3,)


def test_record_is_a_pure_function_of_its_number():
  whole = _read("seed=3")
  ids = np.array([500, 2, 77, 2])
  part = _read("seed=3", ids=ids)
  for name in ("image", "label"):
    np.testing.assert_array_equal(part[name], whole[name][ids])


def test_other_seed_draws_other_images():
  assert (_read("seed=0")["image"] != _read("seed=1")["image"]).mean() > 0.9


def test_slices_cut_the_same_records():
  whole = _read("examples=64")
  part = _read("examples=64", "train[32:]")
  np.testing.assert_array_equal(part["image"], whole["image"][32:])


def test_no_image_is_in_two_splits():
  images = _read("examples=64", "all")["image"].reshape(64 + 16 + 16, -1)
  assert len(np.unique(images, axis=0)) == 96


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_every_class_has_its_share_of_a_split(split):
  labels = _read("classes=4,examples=64", split)["label"]
  counts = np.bincount(labels)
  assert counts.tolist() == [len(labels) // 4] * 4


def test_label_lists_hold_distinct_classes_then_padding():
  labels = _read("classes=7,labels=3,examples=100")["label"]
  assert labels.shape == (100, 3)
  counts = (labels >= 0).sum(1)
  assert set(counts) == {1, 2, 3}
  for row, count in zip(labels, counts, strict=True):
    assert (row[count:] == -1).all()
    assert len(set(row[:count])) == count
    assert (row[:count] < 7).all()


def test_classes_can_be_told_apart_by_a_linear_classifier_of_colours():
  def features(split):
    batch = _read("classes=4,size=16,examples=400", split)
    means = batch["image"].mean((1, 2)) / 255
    return np.concatenate([means, np.ones((len(means), 1))], 1), batch["label"]

  (train_x, train_y), (test_x, test_y) = features("train"), features("test")
  weights = np.linalg.lstsq(train_x, np.eye(4)[train_y], rcond=None)[0]
  assert ((test_x @ weights).argmax(1) == test_y).mean() > 0.8


def test_captions_are_distinct_sentences_about_the_classes():
  batch = _read("classes=7,labels=3,examples=100,captions=2")
  for labels, texts in zip(batch["label"], batch["text"], strict=True):
    assert isinstance(texts, tuple) and len(set(texts)) == 2
    for text in texts:
      named = [int(word) for word in text.split() if word.isdigit()]
      assert named == labels[labels >= 0].tolist()


def test_captions_change_nothing_else():
  plain, described = _read("examples=16"), _read("examples=16,captions=1")
  assert plain.keys() == {"image", "label"}
  for name, array in plain.items():
    np.testing.assert_array_equal(described[name], array)


def test_structure_is_part_of_the_fingerprint():
  names = ("size=8", "size=16", "seed=1", "examples=16", "captions=1")
  prints = {generated.open_source(n, "train").fingerprint for n in names}
  assert len(prints) == 5


@pytest.mark.parametrize(
  "arguments, message",
  [
    ("clases=3", "'clases=3' is not an argument; known are classes"),
    ("classes=x", "'classes=x' is not an argument"),
    ("classes=1", "classes=1 is too small"),
    ("size=0", "size=0 is too small"),
    ("captions=9", "captions=9 is too large; use 3 or less"),
  ],
)
def test_bad_argument_is_a_sentence(arguments, message):
  with pytest.raises(UserError, match=message):
    generated.check(arguments)


def test_targets_are_the_levels_of_the_colours():
  source = generated.open_source("targets=3,size=24,examples=40", "train")
  assert source.numbers == ("red", "green", "blue") and not source.num_classes
  records = source.read(np.arange(40))
  means = records["image"].mean(axis=(1, 2))
  # Noise of 12 levels, over 576 pixels.
  np.testing.assert_allclose(records["label"], means, atol=3)
  np.testing.assert_array_equal(source.known_labels(), records["label"])
  assert (np.ptp(records["label"], axis=0) > 100).all()
  two = generated.open_source("targets=2,size=24,examples=40", "train")
  np.testing.assert_array_equal(
    two.read(np.arange(5))["label"], records["label"][:5, :2]
  )
  assert two.fingerprint != source.fingerprint


@pytest.mark.parametrize("labels", [1, 3])
def test_known_labels_are_those_that_are_read(labels):
  source = generated.open_source(
    f"classes=4,examples=30,labels={labels}", "train"
  )
  np.testing.assert_array_equal(
    source.known_labels(), source.read(np.arange(30))["label"]
  )


def test_captions_and_targets_do_not_go_together():
  with pytest.raises(UserError, match="captions are sentences about classes"):
    generated.check("captions=1,targets=1")
  with pytest.raises(UserError, match="targets=4 is too large; use 3 or less"):
    generated.check("targets=4")
