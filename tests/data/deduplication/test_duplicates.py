"""Pairs of training and test images that are nearly the same."""

import numpy as np
import pytest

from vit_jax.data.deduplication import duplicates, hash_file
from vit_jax.data.deduplication.duplicates import Duplicate


@pytest.fixture
def hashed(memory_source, tmp_path):
  """hashed(name, files) -> a dataset whose hashes are there."""

  def make(name, files):
    source = memory_source(files, np.zeros(len(files), np.int32))
    path = tmp_path / name
    hash_file.complete(path, source, num_threads=2, show=lambda *_: None)
    return duplicates.Hashed(name, source, path)

  return make


def picture(seed):
  """Pixels that are like those of no other seed."""
  pixels = np.random.default_rng(seed).integers(0, 256, (32, 32, 3), np.uint8)
  return pixels.repeat(2, axis=0).repeat(3, axis=1)


def find(train, *tests, max_distance=20):
  seen = []
  found = list(
    duplicates.find(
      train,
      tests,
      max_distance=max_distance,
      num_threads=2,
      show=lambda done, total: seen.append((done, total)),
    )
  )
  assert seen[-1] == (train.source.num_examples,) * 2
  return found


def test_copies_are_found_in_each_test_set(hashed, encode):
  files = [encode(picture(seed), "JPEG", quality=90) for seed in range(30)]
  train = hashed("train", files)
  first = hashed("first", [encode(picture(7)), encode(picture(100))])
  second = hashed("second", [encode(picture(s)) for s in (101, 3, 7, 102)])
  found = find(train, first, second)
  pairs = [(d.train_id, d.test_set, d.test_id) for d in found]
  assert pairs == [(3, 1, 1), (7, 0, 0), (7, 1, 2)]
  assert all(0 <= d.distance < 10 and not d.mirrored for d in found)


def test_mirrored_images_are_found_and_said_to_be(hashed, encode):
  train = hashed("train", [encode(picture(1)), encode(picture(2))])
  test = hashed("test", [encode(picture(2)[:, ::-1])])
  assert find(train, test) == [Duplicate(1, 0, 0, 0, True)]


def test_the_middle_square_of_an_image_is_found(hashed, encode):
  """Whichever of both is the one that was cut, and mirrored too."""
  wide = [encode(picture(seed)) for seed in (1, 2)]
  square = [encode(picture(2)[:, 16:80]), encode(picture(1)[:, 79:15:-1])]
  there = find(hashed("a", wide), hashed("b", square))
  back = find(hashed("c", square), hashed("d", wide))
  assert [(d.train_id, d.test_id, d.mirrored) for d in there] == [
    (0, 1, True),
    (1, 0, False),
  ]
  assert [(d.train_id, d.test_id, d.mirrored) for d in back] == [
    (0, 1, False),
    (1, 0, True),
  ]


def test_an_image_like_its_own_mirror_image_is_found_once(hashed, encode):
  half = picture(1)
  symmetric = np.concatenate([half, half[:, ::-1]], axis=1)
  found = find(
    hashed("train", [encode(symmetric)]),
    hashed("test", [encode(symmetric)]),
    max_distance=32,
  )
  assert [(d.train_id, d.test_id, d.mirrored) for d in found] == [(0, 0, False)]


def test_blank_and_damaged_images_are_near_nothing(hashed, encode):
  blank = encode(np.full((9, 9, 3), 255, np.uint8))
  train = hashed("train", [blank, b"text", b"", blank])
  test = hashed("test", [blank, b"text"])
  assert find(train, test) == []
  assert duplicates.count(train, hash_file.FLAT) == 2
  assert duplicates.count(train, hash_file.UNREADABLE) == 2


def test_pieces_of_the_training_set_change_nothing(hashed, encode, monkeypatch):
  files = [encode(picture(seed % 9)) for seed in range(40)]
  train = hashed("train", files)
  test = hashed("test", [encode(picture(s)) for s in (4, 8)])
  expected = find(train, test)
  assert [(d.train_id % 9, d.test_id) for d in expected] == (
    [(4, 0), (8, 1)] * 4
  )
  monkeypatch.setattr(duplicates, "_PIECE", 7)
  assert find(train, test) == expected


def test_unreadable_images_are_named_in_every_piece(
  hashed, encode, monkeypatch
):
  files = [encode(picture(seed)) for seed in range(10)]
  files[2] = files[7] = b"text"
  train = hashed("train", files)
  monkeypatch.setattr(duplicates, "_PIECE", 4)
  named = duplicates.names(train, hash_file.UNREADABLE)
  assert named == train.source.names(np.array([2, 7]))
  assert duplicates.names(train, hash_file.FLAT) == []
