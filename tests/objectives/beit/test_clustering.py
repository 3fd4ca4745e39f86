"""Tokenizers that are made of a network and some images."""

import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from tests.models import networks
from tests.objectives.beit import test_objective as objectives
from vit_jax.data import sources
from vit_jax.errors import UserError
from vit_jax.objectives.beit import centres, clustering, tokenizers


@pytest.fixture(scope="module")
def network(tmp_path_factory):
  path = str(tmp_path_factory.mktemp("network") / "network.npz")
  model = networks.tiny(normalize="imagenet")
  vit_jax.save(path, model, networks.random_params(model))
  return path


@pytest.fixture(scope="module")
def source():
  dataset = "generated:classes=4,size=8,examples=48"
  return sources.open_source(dataset, "train", data_dir=None)


def cluster(source, network, **keys):
  return clustering.cluster(
    source, network, **{"tokens": 6, "passes": 2, **keys}
  )


def test_a_tokenizer_is_made_alike_and_learned_from(network, source, tmp_path):
  found, again = (cluster(source, network) for _ in range(2))
  np.testing.assert_array_equal(found.rows, again.rows)
  assert found.rows.shape == (6, 16) and found.network == network
  path = str(tmp_path / "tokens.npz")
  centres.write(path, found)
  tokenizer = tokenizers.read(objectives.config(tokenizer=path))
  images = jnp.asarray(objectives.images_of())
  places = jnp.tile(jnp.arange(16)[None], (4, 1))
  tokens = tokenizer.tokens(tokenizer.constants.params, images, places)
  assert tokens.shape == (4, 16) and 0 <= tokens.min() <= tokens.max() < 6


def test_each_image_is_seen_as_often_as_wanted(network, source):
  shown = []
  cluster(
    source, network, examples=40, passes=3, show=lambda *one: shown.append(one)
  )
  assert [done for _, done, _ in shown] == [32, 40, 72, 80, 112, 120]
  assert {one[::2] for one in shown} == {("images", 120)}


def test_more_tokens_than_patches_are_refused(network, source):
  with pytest.raises(UserError, match="patches, fewer than the 9999 tokens"):
    cluster(source, network, tokens=9999)


def test_a_network_without_patches_is_refused(source, tmp_path):
  path = str(tmp_path / "resnet.npz")
  model = networks.tiny_resnet()
  vit_jax.save(path, model, networks.random_params(model))
  with pytest.raises(UserError, match="--checkpoint.*no patches"):
    cluster(source, path)
