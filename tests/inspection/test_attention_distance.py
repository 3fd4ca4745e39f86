"""Mean attention distances that are known in closed form."""

import numpy as np
import pytest

from vit_jax.inspection import attention_distance


def mean(maps, grid, stride=16):
  distances = attention_distance.between_patches(grid, stride)
  maps = np.asarray(maps, np.float32)
  return np.asarray(attention_distance.mean_distance(maps, distances))


def test_attention_of_patches_to_themselves_has_no_distance():
  assert mean(np.eye(12), (3, 4)) == 0


@pytest.mark.parametrize("n", [1, 2, 7])
def test_uniform_attention_along_a_row_has_the_known_mean(n):
  # The mean of |i - j| over i, j in 1..n.
  expected = 16 * (n * n - 1) / (3 * n)
  assert mean(np.full((n, n), 1 / n), (1, n)) == pytest.approx(expected)
  distances = attention_distance.between_patches((n, 1), 16)
  assert attention_distance.uniform(distances) == pytest.approx(expected)


def test_uniform_attention_in_a_square_has_the_known_mean():
  expected = 16 * (0 + 1 + 1 + np.sqrt(2)) / 4
  assert mean(np.full((4, 4), 1 / 4), (2, 2)) == pytest.approx(expected)


def test_attention_one_column_to_the_right_is_a_patch_away():
  maps = np.roll(np.eye(4), 1, axis=1)
  maps[3] = np.eye(4)[2]  # The last one looks left.
  assert mean(maps, (1, 4), stride=32) == pytest.approx(32)


def test_each_head_and_image_has_its_own():
  maps = np.stack([np.eye(4), np.full((4, 4), 1 / 4)])[None]
  found = mean(np.repeat(maps, 3, axis=0), (2, 2))
  assert found.shape == (3, 2)
  assert (found[:, 0] == 0).all() and (found[:, 1] > 0).all()


def test_the_cls_token_is_left_out_as_query_and_as_key():
  patches = np.full((4, 4), 1 / 4)
  maps = np.zeros((5, 5))
  maps[1:, 1:] = 0.3 * patches
  maps[1:, 0] = 0.7
  maps[0] = [0, 1, 0, 0, 0]
  assert mean(maps, (2, 2)) == pytest.approx(mean(patches, (2, 2)))


def test_a_query_that_attends_to_no_patch_is_left_out():
  maps = np.zeros((3, 3))
  maps[1] = [0, 0, 1]  # Patch 0 to patch 1.
  maps[2] = [1, 0, 0]  # Patch 1 to the cls token alone.
  assert mean(maps, (1, 2), stride=4) == pytest.approx(4)
  maps[1] = [1, 0, 0]
  assert mean(maps, (1, 2), stride=4) == 0
