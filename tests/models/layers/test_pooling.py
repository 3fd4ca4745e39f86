"""From tokens to features."""

import jax
import numpy as np
import pytest

from tests.models import oracle
from tests.models.networks import random_params, tiny
from vit_jax.models.features import features


@pytest.mark.parametrize("kind", ["cls", "gap", "map", "none"])
def test_pooled_feature_is_its_definition(kind, images):
  model = tiny(pool=kind)
  params = random_params(model)
  found = features(model, params, images, ["encoded", "pre_logits"])
  tokens, feature = found["encoded"], found["pre_logits"]
  assert tokens.shape == (4, 5 if kind == "cls" else 4, 16)
  if kind == "cls":
    expected = tokens[:, 0]
  elif kind == "gap":
    expected = np.mean(tokens, axis=1)
  elif kind == "none":
    expected = tokens
  else:
    expected = _map_head(np.float64(tokens), params["MAPHead_0"])
  np.testing.assert_allclose(feature, expected, rtol=1e-4, atol=1e-5)


def _map_head(tokens, params):
  features = []
  for example in tokens:
    attention = params["MultiHeadDotProductAttention_0"]
    x, _ = oracle.attention(params["probe"][0], example, attention)
    y = oracle.layer_norm(x, params["LayerNorm_0"])
    features.append((x + oracle.mlp(y, params["MlpBlock_0"]))[0])
  return np.stack(features)


def test_nothing_is_dropped_after_the_last_layer(images):
  """As in big_vision's MAP head: its result is that of the tokens alone."""
  model = tiny(pool="map", dropout_rate=0.5)
  params = {"params": random_params(model)}
  logits, sown = model.apply(
    params,
    images,
    train=True,
    rngs={"dropout": jax.random.key(0)},
    mutable=["intermediates"],
  )
  (tokens,) = sown["intermediates"]["encoded"]
  np.testing.assert_array_equal(
    logits, model.apply(params, tokens, method="head")
  )


def test_pool_none_applies_the_head_to_every_token(images):
  model = tiny(pool="none")
  params = random_params(model)
  logits = model.apply({"params": params}, images)
  assert logits.shape == (4, 4, 5)
  tokens = features(model, params, images, ["encoded"])["encoded"]
  head = params["head"]
  np.testing.assert_allclose(
    logits,
    np.asarray(tokens) @ head["kernel"] + head["bias"],
    rtol=1e-4,
    atol=1e-5,
  )


def test_a_cls_token_beside_gap_has_no_part_in_the_mean(images):
  """As timm's and MAE's averaging models have it."""
  model = tiny(pool="gap", cls_token=True)
  params = random_params(model)
  found = features(model, params, images, ["encoded", "pre_logits"])
  assert found["encoded"].shape == (4, 5, 16)
  np.testing.assert_allclose(
    found["pre_logits"],
    np.mean(found["encoded"][:, 1:], axis=1),
    rtol=1e-4,
    atol=1e-5,
  )


@pytest.mark.parametrize("kind", ["cls", "gap", "none"])
def test_the_last_norm_may_stand_after_the_pooling(kind, images):
  model = tiny(pool=kind, norm_after_pool=True)
  params = random_params(model)
  assert "encoder_norm" not in params["Transformer"]
  names = ["layer_02/tokens", "encoded", "pre_logits"]
  last, tokens, feature = features(model, params, images, names).values()
  np.testing.assert_array_equal(tokens, last)
  pooled = {"cls": tokens[:, 0], "gap": np.mean(tokens, 1), "none": tokens}
  np.testing.assert_allclose(
    feature,
    oracle.layer_norm(pooled[kind], params["fc_norm"]),
    rtol=1e-4,
    atol=1e-4,
  )


def test_gap_does_not_depend_on_the_order_of_tokens_without_positions(images):
  model = tiny(pool="gap", pos_embedding="none")
  params = random_params(model)
  swapped = np.roll(images, 4, axis=1)  # The two rows of patches.
  np.testing.assert_allclose(
    model.apply({"params": params}, images),
    jax.jit(model.apply)({"params": params}, swapped),
    rtol=1e-4,
    atol=1e-5,
  )
