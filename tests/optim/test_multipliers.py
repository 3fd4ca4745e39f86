import functools

import jax
import numpy as np
import pytest

from vit_jax import registry, trees
from vit_jax.config import named_sections, schema
from vit_jax.errors import UserError
from vit_jax.optim import multipliers

_MLP = "MlpBlock_0/Dense_0/kernel"
_LAYER_OF = functools.partial(
  registry.FAMILIES.get("vit").layer_of, named_sections.section("model")
)


def test_first_matching_regex_counts(params):
  optimizer = schema.Optimizer(
    lr_multipliers=(("head/bias", 3.0), ("head/.*", 2.0), (".*bias", 0.5))
  )
  factors = multipliers.factors(optimizer, params)
  assert factors["head/bias"] == 3
  assert factors["head/kernel"] == 2
  assert factors["Transformer/encoderblock_0/MlpBlock_0/Dense_0/bias"] == 0.5
  assert factors["embedding/kernel"] == 1


def test_regexes_match_whole_paths(params):
  optimizer = schema.Optimizer(lr_multipliers=(("head", 2.0),))
  with pytest.raises(UserError, match="lr_multipliers: 'head' matches no"):
    multipliers.factors(optimizer, params)


def test_a_decay_multiplier_must_match_a_parameter_that_is_there(params):
  paths = [path for path, _ in trees.named_leaves(params)]
  optimizer = schema.Optimizer(decay_multipliers=(("heads/.*", 2.0),))
  with pytest.raises(UserError, match="decay_multipliers: 'heads/.*' matches"):
    multipliers.decay_factors(optimizer, paths)


def test_a_decay_multiplier_must_match_a_parameter_that_decays(params):
  paths = [path for path, _ in trees.named_leaves(params)]

  def found(factor):
    rules = ((".*/pos_embedding", factor),)
    optimizer = schema.Optimizer(decay_multipliers=rules)
    return multipliers.decay_factors(optimizer, paths)

  with pytest.raises(UserError, match="pos_embedding' matches .* that decays"):
    found(0.1)
  assert found(0.0)["Transformer/posembed_input/pos_embedding"] == 0


def test_layer_decay_falls_from_head_to_embeddings(params):
  factors = multipliers.factors(
    schema.Optimizer(layer_decay=0.5), params, _LAYER_OF
  )
  assert factors["head/kernel"] == 1
  assert factors["Transformer/encoder_norm/scale"] == 1
  for layer, factor in enumerate([0.125, 0.25, 0.5]):
    assert factors[f"Transformer/encoderblock_{layer}/{_MLP}"] == factor
  for path in (
    "embedding/kernel",
    "cls",
    "Transformer/posembed_input/pos_embedding",
  ):
    assert factors[path] == 0.0625


def test_a_stem_decays_as_the_embedding_and_a_norm_after_pooling_as_the_head(
  params,
):
  stem = {
    "conv_root": params["embedding"],
    "gn_root": params["Transformer"]["encoder_norm"],
    "block1": {"unit1": {"conv1": params["embedding"]}},
    "fc_norm": params["Transformer"]["encoder_norm"],
  }
  optimizer = schema.Optimizer(layer_decay=0.5)
  factors = multipliers.factors(optimizer, {**params, **stem}, _LAYER_OF)
  assert factors["fc_norm/scale"] == 1
  for path in (
    "conv_root/kernel",
    "gn_root/scale",
    "block1/unit1/conv1/kernel",
  ):
    assert factors[path] == factors["embedding/kernel"] == 0.0625


def test_layer_decay_is_the_same_looped_and_scanned(params, stack):
  optimizer = schema.Optimizer(
    layer_decay=0.5, lr_multipliers=((".*/kernel", 3.0),)
  )
  looped = multipliers.factors(optimizer, params, _LAYER_OF)
  scanned = multipliers.factors(optimizer, stack(params), _LAYER_OF)
  for path, factor in scanned.items():
    if "encoderblock/" in path:
      layers = [looped[path.replace("block/", f"block_{i}/")] for i in range(3)]
      np.testing.assert_allclose(factor.ravel(), layers)
    else:
      assert factor == looped[path]


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_a_stacked_text_tower_counts_as_above_the_image_tower(
  params, stack, depth
):
  """As a looped one; the image tower has three layers."""
  block = params["Transformer"]["encoderblock_0"]
  text = {f"encoderblock_{layer}": block for layer in range(depth)}
  towers = {"image": params, "text": {"Transformer": text}}
  section = named_sections.sections("model")["two_towers"]()
  layer_of = functools.partial(
    registry.FAMILIES.get("two_towers").layer_of, section
  )
  optimizer = schema.Optimizer(layer_decay=0.5)
  looped = multipliers.factors(optimizer, towers, layer_of)
  towers["text"] = stack(towers["text"])
  scanned = multipliers.factors(optimizer, towers, layer_of)
  alone = multipliers.factors(optimizer, params, _LAYER_OF)
  for path, factor in scanned.items():
    if path.startswith("image/"):
      assert factor == looped[path] == alone[path.removeprefix("image/")]
    else:
      np.testing.assert_array_equal(np.ravel(factor), np.ones(depth))
  assert all(looped[path] == 1 for path in looped if path.startswith("text/"))


@pytest.mark.parametrize("depth", [2, 5])
@pytest.mark.parametrize("is_stacked", [False, True])
def test_the_decoder_of_a_masked_autoencoder_counts_as_above_the_encoder(
  params, stack, depth, is_stacked
):
  block = params["Transformer"]["encoderblock_0"]
  blocks = {f"encoderblock_{layer}": block for layer in range(depth)}
  decoder = {
    "Transformer": blocks,
    "embedding": params["embedding"],
    "mask_token": params["cls"],
  }
  if is_stacked:
    decoder = stack(decoder)
  factors = multipliers.factors(
    schema.Optimizer(layer_decay=0.5), {**params, "decoder": decoder}, _LAYER_OF
  )
  for path, factor in factors.items():
    if path.startswith("decoder/"):
      np.testing.assert_array_equal(factor, np.ones_like(factor))
  assert factors["cls"] == 0.0625


def test_the_layers_of_beit_v2_that_predict_count_as_above_the_encoder(params):
  block = params["Transformer"]["encoderblock_0"]
  added = {"aggregation": {"encoderblock_0": block, "encoderblock_1": block}}
  factors = multipliers.factors(
    schema.Optimizer(layer_decay=0.5), {**params, **added}, _LAYER_OF
  )
  found = [x for path, x in factors.items() if path.startswith("aggregation/")]
  assert found and set(found) == {1.0}


def test_layer_decay_of_two_towers_without_layers_is_a_sentence(params):
  layer_of = {"text/head/bias": None}.get
  with pytest.raises(UserError, match="layer_decay = 0.5 needs a model"):
    multipliers.factors(
      schema.Optimizer(layer_decay=0.5),
      {"text": {"head": {"bias": params["head"]["bias"]}}},
      layer_of,
    )


def test_layer_decay_of_a_model_without_layers_is_a_sentence(params):
  with pytest.raises(UserError, match="layer_decay = 0.5 needs a model"):
    multipliers.factors(
      schema.Optimizer(layer_decay=0.5), {"head": params["head"]}
    )


def test_frozen_parameters_have_zero_gradients_and_the_others_their_own(params):
  optimizer = schema.Optimizer(lr_multipliers=(("head/.*", 1.0), (".*", 0.0)))

  def loss(params):
    params = multipliers.stop_frozen(optimizer, params)
    return params["head"]["bias"].sum() * params["cls"].sum()

  gradient = jax.grad(loss)(params)
  np.testing.assert_array_equal(gradient["cls"], np.zeros((1, 1, 8)))
  np.testing.assert_allclose(gradient["head"]["bias"], 4.0)


@pytest.mark.parametrize(
  ("freeze", "trained"),
  [
    ("backbone", {"head/bias", "head/kernel"}),
    (r"(?!head/|Transformer/encoder_norm).*", {"head/bias", "head/kernel"}),
    (r".*kernel|Transformer/.*|cls", {"head/bias"}),
  ],
)
def test_what_freeze_matches_is_frozen(params, freeze, trained):
  factors = multipliers.factors(schema.Optimizer(freeze=freeze), params)
  trained = trained | (
    {"Transformer/encoder_norm/scale"} if "norm" in freeze else set()
  )
  assert set(factors) - multipliers.frozen(factors) == trained


def test_the_backbone_is_all_but_the_heads_of_a_distilled_network(params):
  params = {**params, "head_dist": params["head"]}
  optimizer = schema.Optimizer(freeze="backbone")
  factors = multipliers.factors(optimizer, params)
  assert set(factors) - multipliers.frozen(factors) == {
    "head/bias",
    "head/kernel",
    "head_dist/bias",
    "head_dist/kernel",
  }


def test_freeze_wins_over_multipliers_and_leaves_the_others_theirs(params):
  optimizer = schema.Optimizer(
    freeze="backbone",
    lr_multipliers=(("head/.*", 3.0), (".*", 2.0)),
    layer_decay=0.5,
  )
  factors = multipliers.factors(optimizer, params, _LAYER_OF)
  assert factors["head/kernel"] == 3
  assert factors["cls"] == 0


def test_a_freeze_that_matches_nothing_is_a_sentence(params):
  with pytest.raises(UserError, match="freeze: 'had/.*' matches no parameter"):
    multipliers.factors(schema.Optimizer(freeze="had/.*"), params)


def test_the_number_of_layers_is_counted_once():
  asked = []

  def layer_of(path):
    asked.append(path)
    return int(path.removeprefix("layer_"))

  leaves = {f"layer_{i}": np.zeros(2) for i in range(8)}
  optimizer = schema.Optimizer(layer_decay=0.5)
  multipliers.factors(optimizer, leaves, layer_of)
  assert len(asked) == 2 * len(leaves)
