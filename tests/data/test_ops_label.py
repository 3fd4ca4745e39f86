import numpy as np

from vit_jax.data import ops_label


def test_keep_drops_the_labels_or_not():
  labels = np.array([1, 2], np.int32)
  assert ops_label.keep(labels, "image") is None
  assert ops_label.keep(labels, "image", "label") is labels


def test_scalar_labels_become_padded_lists():
  labels = ops_label.pad_labels(np.array([4, 0], np.int32), 3)
  assert labels.tolist() == [[4, -1, -1], [0, -1, -1]]
  assert labels.dtype == np.int32


def test_lists_of_labels_are_padded_further():
  labels = ops_label.pad_labels(np.array([[4, 0], [1, -1]], np.int32), 3)
  assert labels.tolist() == [[4, 0, -1], [1, -1, -1]]


def test_longer_lists_are_cut_to_their_first_labels():
  labels = np.array([[4, 0, 7], [1, -1, -1], [-1, 3, 5]], np.int32)
  cut = ops_label.pad_labels(labels, 2)
  assert cut.tolist() == [[4, 0], [1, -1], [3, 5]]
  assert cut.dtype == np.int32


def test_remap_renumbers_and_leaves_padding():
  labels = np.array([[0, 2], [1, -1]], np.int32)
  assert ops_label.remap(labels, (5, -1, 3)).tolist() == [[5, 3], [-1, -1]]


def test_a_list_of_one_is_a_label():
  labels = np.array([[4, 0], [-1, 3], [-1, -1]], np.int32)
  assert ops_label.pad_labels(labels, 1).tolist() == [4, 3, -1]
  single = np.array([4, -1], np.int32)
  assert ops_label.pad_labels(single, 1).tolist() == [4, -1]
