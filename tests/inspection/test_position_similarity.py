"""Similarity of position embeddings whose structure is known."""

import numpy as np
import pytest

from tests.inspection.networks import network_of
from tests.models.networks import tiny, tiny_resnet
from vit_jax.inspection import position_similarity
from vit_jax.models.layers.embeddings import sincos2d


def test_similarity_of_sines_depends_on_the_displacement_only():
  found = position_similarity.similarity(sincos2d((5, 5), 32).reshape(5, 5, -1))
  for i, j in np.ndindex(4, 4):
    # Moved by a row and a column, both of the two places.
    np.testing.assert_allclose(
      found[i, j, :4, :4], found[i + 1, j + 1, 1:, 1:], atol=1e-6
    )


def test_places_are_like_themselves_and_symmetric():
  table = np.random.default_rng(0).standard_normal((2, 3, 8))
  found = position_similarity.similarity(table)
  flat = found.reshape(6, 6)
  np.testing.assert_allclose(np.diag(flat), 1)
  np.testing.assert_allclose(flat, flat.T)
  a, b = table[0, 1], table[1, 2]
  cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
  assert found[0, 1, 1, 2] == pytest.approx(cosine)


def test_an_embedding_of_zeros_is_like_nothing():
  table = np.ones((1, 2, 4))
  table[0, 0] = 0
  found = position_similarity.similarity(table).reshape(2, 2)
  np.testing.assert_allclose(found, [[0, 0], [0, 1]])


def test_means_are_over_pairs_of_the_same_rounded_distance():
  table = np.eye(4).reshape(1, 4, 4)  # Unlike one another.
  found = position_similarity.similarity(table)
  np.testing.assert_allclose(
    position_similarity.by_distance(found), [1, 0, 0, 0]
  )
  square = position_similarity.similarity(np.ones((3, 3, 2)))
  # sqrt(8) = 2.8 is the largest distance.
  np.testing.assert_allclose(
    position_similarity.by_distance(square), [1, 1, 1, 1]
  )


@pytest.mark.parametrize("pool", ["cls", "gap"])
@pytest.mark.parametrize("at", ["stem", "every_layer"])
@pytest.mark.parametrize("kind", ["learned_1d", "learned_2d", "sincos2d"])
def test_the_table_is_what_the_first_layer_is_told(kind, at, pool):
  network = network_of(tiny(pos_embedding=kind, pos_embedding_at=at, pool=pool))
  table = position_similarity.table(network)
  assert table.shape == (2, 2, 16)
  if kind == "sincos2d":
    np.testing.assert_allclose(table.reshape(4, 16), sincos2d((2, 2), 16))
    return
  tables = network.params["Transformer"]["posembed_input"]
  if kind == "learned_1d":
    learned = tables["pos_embedding"][0][-4:]
    np.testing.assert_array_equal(table.reshape(4, 16), learned)
  else:
    np.testing.assert_array_equal(table[1, 0, :8], tables["x_embedding"][0][0])
    np.testing.assert_array_equal(table[1, 0, 8:], tables["y_embedding"][0][1])


@pytest.mark.parametrize("kind", ["none", "relative"])
def test_networks_that_add_nothing_have_no_table(kind):
  network = network_of(tiny(pos_embedding=kind))
  assert not position_similarity.has_table(network)


def test_a_resnet_has_no_table():
  assert not position_similarity.has_table(network_of(tiny_resnet()))


@pytest.mark.parametrize("cls_position", [True, False])
def test_registers_have_no_rows_in_the_table(cls_position):
  network = network_of(tiny(registers=3, cls_position=cls_position))
  found = position_similarity.table(network)
  table = network.params["Transformer"]["posembed_input"]["pos_embedding"]
  np.testing.assert_array_equal(found.reshape(4, -1), table[0, -4:])
