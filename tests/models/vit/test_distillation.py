"""DeiT's distillation token, DeiT III's LayerScale and stochastic depth."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.networks import apply, random_params, tiny
from vit_jax import trees
from vit_jax.config import named_sections
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.models.layers.heads import HEADS
from vit_jax.registry import FAMILIES


@pytest.fixture
def images():
  return np.random.default_rng(0).standard_normal((3, 8, 8, 3), np.float32)


# Counts of timm 1.0.31, deit_*_distilled_patch16_224.
@pytest.mark.parametrize(
  ("variant", "wanted"),
  [("Ti/16", 5_910_800), ("S/16", 22_436_432), ("B/16", 87_338_192)],
)
def test_distilled_deits_have_the_published_number_of_parameters(
  variant, wanted
):
  model = named_sections.section(
    "model", variant=variant, distillation="average"
  )
  assert FAMILIES.get("vit").num_params(model, 1000) == wanted
  network = build.create(model, num_classes=1000)
  sample = jax.ShapeDtypeStruct((1, 224, 224, 3), jnp.uint8)
  shapes = jax.eval_shape(network.init, jax.random.key(0), sample)["params"]
  assert trees.num_elements(shapes) == wanted


def test_predictions_are_the_mean_of_the_heads_of_both_tokens(images):
  model = tiny(distillation="average")
  params = random_params(model)
  logits, sown = model.apply({"params": params}, images, mutable=[HEADS])
  tokens = model.apply(
    {"params": params},
    images,
    method=lambda network, x: network.encode(network.embed(x)),
  )

  def head(name, token):
    layer = params[name]
    return np.asarray(tokens)[:, token] @ layer["kernel"] + layer["bias"]

  by_label, by_teacher = head("head", 0), head("head_dist", 1)
  heads = sown[HEADS]
  np.testing.assert_allclose(heads["class"][0], by_label, atol=1e-5)
  np.testing.assert_allclose(heads["distillation"][0], by_teacher, atol=1e-5)
  np.testing.assert_allclose(logits, (by_label + by_teacher) / 2, atol=1e-5)


def test_a_token_without_a_head_takes_part_in_attention_only(images):
  model = tiny(distillation="token")
  params = random_params(model)
  assert "head_dist" not in params and params["dist"].shape == (1, 1, 16)
  changed = {**params, "dist": -params["dist"]}
  assert not np.allclose(
    apply(model, params, images), apply(model, changed, images)
  )


@pytest.mark.parametrize("scan_layers", [False, True])
def test_layer_scale_is_a_factor_of_each_branch(images, scan_layers):
  """Multiplied into the projection before it, it computes the same."""
  model = tiny(layer_scale=0.1, scan_layers=scan_layers)
  params = random_params(model)
  plain = jax.tree.map(np.copy, params)
  for block in plain["Transformer"].values():
    if "layer_scale_0" not in block:
      continue
    attention = block["MultiHeadDotProductAttention_0"]["out"]
    mlp = block["MlpBlock_0"]["Dense_1"]
    for name, layer in (("layer_scale_0", attention), ("layer_scale_1", mlp)):
      factors = block.pop(name)
      rows = layer["kernel"].ndim - factors.ndim
      shape = (*factors.shape[:-1], *(1,) * rows, factors.shape[-1])
      layer["kernel"] = layer["kernel"] * factors.reshape(shape)
      layer["bias"] = layer["bias"] * factors
  np.testing.assert_allclose(
    apply(model, params, images),
    apply(tiny(scan_layers=scan_layers), plain, images),
    rtol=1e-4,
    atol=1e-5,
  )


def test_layer_scale_starts_at_its_value():
  model = tiny(layer_scale=1e-4)
  params = model.init(jax.random.key(0), np.zeros((1, 8, 8, 3)))["params"]
  block = params["Transformer"]["encoderblock_2"]
  np.testing.assert_array_equal(block["layer_scale_1"], np.float32(1e-4))


def test_constant_stochastic_depth_is_the_same_in_all_layers():
  model = tiny(stochastic_depth_rate=0.4, stochastic_depth="constant", depth=2)
  params = jax.tree.map(np.zeros_like, random_params(model))
  for i in range(2):
    block = params["Transformer"][f"encoderblock_{i}"]
    block["MlpBlock_0"]["Dense_1"]["bias"][...] = 1.0
  _, sown = model.apply(
    {"params": params},
    np.zeros((600, 8, 8, 3), np.float32),
    train=True,
    rngs={"dropout": jax.random.key(0)},
    mutable=["intermediates"],
  )
  blocks = sown["intermediates"]["Transformer"]
  first = np.asarray(blocks["encoderblock_0"]["tokens"][0])[:, 0, 0]
  second = np.asarray(blocks["encoderblock_1"]["tokens"][0])[:, 0, 0] - first
  for branch in (first, second):
    assert np.mean(branch == 0) == pytest.approx(0.4, abs=0.07)


@pytest.mark.parametrize(
  ("keys", "words"),
  [
    ({"pool": "gap"}, ["config.model.distillation", "config.model.pool='cls'"]),
    ({"representation_size": 8}, ["config.model.representation_size = 8"]),
  ],
)
def test_keys_that_do_not_go_with_a_distillation_token(keys, words):
  with pytest.raises(UserError) as caught:
    tiny(distillation="average", **keys)
  assert all(word in str(caught.value) for word in words)
