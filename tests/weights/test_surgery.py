"""One network's parameters made to start another."""

import re
import shutil

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models import networks
from tests.weights import published, published_npz
from vit_jax import registry, trees
from vit_jax.config import named_sections
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.weights import files, flat, position_embeddings, surgery
from vit_jax.weights.contract import Weights

TABLE = "Transformer/posembed_input/pos_embedding"
CLS_ROW = "Transformer/posembed_input/cls_embedding"
HEAD = ("head/bias", "head/kernel")


def weights(**keys):
  model, params = published_npz.vit(**keys)
  return Weights("a.npz", build.config_of(model), flat.unflatten(params))


def fit(found, without=(), **keys):
  """`surgery.fit` for a network of these keys; notes in one text."""
  model, params = published_npz.vit(**keys)
  shapes = {name: leaf.shape for name, leaf in params.items()}
  fitted = surgery.fit(found, build.config_of(model), shapes, without)
  # All that the network has is either given, in its shape, or fresh.
  given = flat.flatten(fitted.params)
  assert given.keys() | set(fitted.fresh) == params.keys()
  assert not given.keys() & set(fitted.fresh)
  assert all(np.shape(leaf) == shapes[name] for name, leaf in given.items())
  return fitted, given, "\n".join(fitted.notes)


def leaves(found):
  return flat.flatten(found.params)


def assert_same(given, found, but=()):
  for name, leaf in given.items():
    if name not in but:
      np.testing.assert_array_equal(leaf, leaves(found)[name])


def test_the_same_network_takes_all_over_and_has_nothing_to_say():
  found = weights()
  fitted, given, notes = fit(found)
  assert not notes and not fitted.fresh and not fitted.dropped
  assert_same(given, found)


def test_another_number_of_classes_has_a_new_head_and_the_same_body():
  found = weights()
  fitted, given, notes = fit(found, num_classes=7)
  assert sorted(fitted.fresh) == sorted(fitted.dropped) == list(HEAD)
  assert "The head of 5 classes is dropped." in notes
  assert "A new head of 7 classes is initialised." in notes
  assert_same(given, found)


@pytest.mark.parametrize("num_classes", [5, 7])
def test_a_pre_training_head_goes_as_a_whole(num_classes):
  found = weights(representation_size=12)
  fitted, given, notes = fit(found, num_classes=num_classes)
  assert set(HEAD) == set(fitted.fresh)
  assert set(fitted.dropped) == {*HEAD, "pre_logits/kernel", "pre_logits/bias"}
  assert "config.model.representation_size=12" in notes
  assert_same(given, found)


def test_a_pre_training_head_is_kept_where_it_is_wanted():
  found = weights(representation_size=12)
  fitted, given, _ = fit(found, num_classes=7, representation_size=12)
  assert set(fitted.fresh) == set(HEAD)
  assert_same(given, found)


def test_a_file_without_a_head_starts_one():
  fitted, _, notes = fit(weights(num_classes=None), representation_size=12)
  expected = {*HEAD, "pre_logits/kernel", "pre_logits/bias"}
  assert set(fitted.fresh) == expected
  assert "A new head of 5 classes" in notes and "pre_logits" in notes


def test_a_network_without_a_head_drops_it_and_says_so():
  fitted, _, notes = fit(weights(), num_classes=None)
  assert set(fitted.dropped) == set(HEAD) and not fitted.fresh
  assert notes == "The head of 5 classes is dropped."


@pytest.mark.parametrize(
  "method", ["bilinear", "bicubic", "bicubic_antialias", "bicubic_offset"]
)
@pytest.mark.parametrize("pool", ["cls", "gap"])
def test_positions_are_resized_to_the_grid_as_the_key_says(pool, method):
  found = weights(pool=pool)
  model, params = published_npz.vit(pool=pool, image_size=20)
  shapes = {name: leaf.shape for name, leaf in params.items()}
  wanted = build.config_of(model).model_copy(
    update={"pos_embedding_resize": method}
  )
  fitted = surgery.fit(found, wanted, shapes)
  given = flat.flatten(fitted.params)
  expected = position_embeddings.resize(
    leaves(found)[TABLE],
    (2, 2),
    (5, 5),
    num_prefix=int(pool == "cls"),
    method=method,
  )
  np.testing.assert_array_equal(given[TABLE], expected)
  assert_same(given, found, but=[TABLE])
  (note,) = fitted.notes
  assert "2 x 2 to 5 x 5" in note and method in note


def test_the_class_token_is_dropped_with_its_position():
  found = weights()
  fitted, given, notes = fit(found, pool="gap", image_size=12)
  assert fitted.dropped == ("cls",)
  expected = position_embeddings.resize(
    leaves(found)[TABLE][:, 1:],
    (2, 2),
    (3, 3),
    num_prefix=0,
    method="bilinear",
  )
  np.testing.assert_array_equal(given[TABLE], expected)
  assert "class token is dropped" in notes


def test_a_class_token_that_the_file_lacks_starts_without_a_position():
  found = weights(pool="gap")
  fitted, given, notes = fit(found, pool="cls")
  assert fitted.fresh == ("cls",)
  np.testing.assert_array_equal(given[TABLE][:, 0], 0)
  np.testing.assert_array_equal(given[TABLE][:, 1:], leaves(found)[TABLE])
  assert "A class token is initialised" in notes


IMAGES = np.random.default_rng(5).standard_normal((2, 20, 20, 3))


@pytest.mark.parametrize(
  ("kind", "place"),
  [
    ("learned_2d", "stem"),
    ("learned_2d", "every_layer"),
    ("relative", "stem"),
    ("relative", "every_layer_shared"),
  ],
)
@pytest.mark.parametrize("method", ["bilinear", "bicubic"])
def test_other_positions_are_resized_as_the_network_resizes_them(
  kind, place, method
):
  """In the file they give what they give in the graph at another size."""
  keys = dict(
    pos_embedding=kind, pos_embedding_at=place, pos_embedding_resize=method
  )
  model, params = published_npz.vit(**keys)
  larger, given = published_npz.vit(**keys, image_size=20)
  wanted = build.config_of(larger)
  shapes = {name: leaf.shape for name, leaf in given.items()}
  fitted = surgery.fit(weights(**keys), wanted, shapes)
  assert not fitted.fresh and not fitted.dropped
  assert all("resized" in note and method in note for note in fitted.notes)
  images = IMAGES.astype(np.float32)
  np.testing.assert_allclose(
    larger.apply({"params": fitted.params}, images),
    model.apply({"params": flat.unflatten(params)}, images),
    rtol=1e-4,
    atol=1e-5,
  )


@pytest.mark.parametrize("kind", ["learned_2d", "relative"])
def test_other_positions_outlive_the_class_token(kind):
  """The offsets of patches stay; so do the tables of rows and columns."""
  found = weights(pos_embedding=kind)
  fitted, given, _ = fit(found, pos_embedding=kind, pool="gap")
  assert not fitted.fresh
  if kind == "relative":
    name = "Transformer/posembed/relative_keys"
    np.testing.assert_array_equal(given[name], leaves(found)[name][:, 1:-1])
  else:
    name = "Transformer/posembed_input/x_embedding"
    np.testing.assert_array_equal(given[name], leaves(found)[name])
    assert CLS_ROW in fitted.dropped and CLS_ROW not in given
  back, given, _ = fit(
    weights(pos_embedding=kind, pool="gap"), pos_embedding=kind
  )
  assert back.fresh == ("cls",)
  if kind == "learned_2d":
    assert not given[CLS_ROW].any()


@pytest.mark.parametrize("kind", ["learned_1d", "learned_2d"])
@pytest.mark.parametrize("from_file", [True, False])
def test_the_class_token_takes_in_its_position_or_gets_one(kind, from_file):
  """Either way, the same logits."""
  theirs = dict(pos_embedding=kind, cls_position=from_file)
  found = weights(**theirs)
  fitted, _, _ = fit(found, pos_embedding=kind, cls_position=not from_file)
  assert not fitted.fresh
  images = IMAGES[:, :8, :8].astype(np.float32)
  other, _ = published_npz.vit(pos_embedding=kind, cls_position=not from_file)
  np.testing.assert_allclose(
    networks.apply(other, fitted.params, images),
    networks.apply(published_npz.vit(**theirs)[0], found.params, images),
    rtol=1e-5,
    atol=1e-5,
  )


def test_layers_are_stacked_and_taken_apart():
  found = weights()
  _, stacked, notes = fit(found, scan_layers=True)
  assert not notes
  scanned = Weights(
    "b",
    found.model.model_copy(update={"scan_layers": True}),
    flat.unflatten(stacked),
  )
  _, given, _ = fit(scanned)
  assert given.keys() == leaves(found).keys()
  assert_same(given, found)
  _, still, _ = fit(scanned, scan_layers=True)
  jax.tree.map(np.testing.assert_array_equal, still, stacked)


def test_all_of_it_at_once():
  found = weights(representation_size=12)
  fitted, _, notes = fit(
    found, scan_layers=True, num_classes=3, image_size=16, pool="gap"
  )
  assert set(fitted.fresh) == set(HEAD)
  for words in ("class token", "4 x 4 patches", "pre_logits", "3 classes"):
    assert words in notes


def test_what_shall_not_be_taken_over_is_named_by_regexes():
  found = weights()
  fitted, given, notes = fit(found, without=("head/.*", ".*/LayerNorm_1/.*"))
  assert "head/.* is not taken over, as asked." in notes
  assert len(fitted.fresh) == 2 + 3 * 2 and set(HEAD) <= set(fitted.fresh)
  assert_same(given, found)


def test_a_norm_of_the_file_may_be_left_out_for_another():
  fitted, _, _ = fit(
    weights(pool="gap"),
    without=("Transformer/encoder_norm/.*", "fc_norm/.*"),
    pool="gap",
    norm_after_pool=True,
  )
  assert set(fitted.fresh) == {"fc_norm/scale", "fc_norm/bias"}
  assert len(fitted.dropped) == 2


@pytest.mark.parametrize("regex", ["heads/.*", "head", "("])
def test_a_regex_that_leaves_nothing_out_is_an_error(regex):
  with pytest.raises(UserError, match=re.escape(repr(regex))):
    fit(weights(), without=(regex,))


LAYERS = "Transformer/encoderblock_{0...2}"
MISFITS = {
  "pre_logits/kernel": (
    {"representation_size": 12},
    {"representation_size": 10},
    "the file has a pre_logits layer;"
    " set config.model.representation_size=12 or None",
  ),
  "pre_logits/bias": (
    {},
    {"representation_size": 10},
    "the file has no pre_logits layer;"
    " set config.model.representation_size=None",
  ),
  "Transformer/encoderblock_2/LayerNorm_0/scale": (
    {},
    {"depth": 2},
    "set config.model.depth=3 (it is 2)",
  ),
  "Transformer/encoderblock_{2...3}/LayerNorm_0/scale": (
    {},
    {"depth": 5},
    "set config.model.depth=3 (it is 5)",
  ),
  f"{LAYERS}/LayerNorm_0/scale": (
    {},
    {"width": 32},
    "set config.model.width=16 (it is 32)",
  ),
  f"{LAYERS}/MlpBlock_0/Dense_0/kernel": (
    {},
    {"mlp_dim": 20},
    "set config.model.mlp_dim=24 (it is 20)",
  ),
  f"{LAYERS}/MultiHeadDotProductAttention_0/key/bias": (
    {},
    {"qkv_bias": False},
    "set config.model.qkv_bias=True (it is False)",
  ),
  f"{LAYERS}/MultiHeadDotProductAttention_0/key/kernel": (
    {},
    {"num_heads": 4},
    "set config.model.num_heads=2 (it is 4)",
  ),
  "Transformer/encoderblock/LayerNorm_0/bias": (
    {},
    {"depth": 2, "scan_layers": True},
    "set config.model.depth=3 (it is 2)",
  ),
  "embedding/kernel": (
    {},
    {"variant": "Ti/8"},
    "the file's patches are of 4 pixels; set config.model.variant",
  ),
  "MAPHead_0/probe": (
    {"pool": "map"},
    {"pool": "gap"},
    "set config.model.pool='map' (it is 'gap')",
  ),
  "Transformer/encoder_norm/scale": (
    {"pool": "gap", "norm_after_pool": True},
    {"pool": "gap"},
    "set config.model.norm_after_pool=True (it is False)",
  ),
  "Transformer/posembed_input/x_embedding": (
    {"pos_embedding": "learned_2d"},
    {},
    "set config.model.pos_embedding='learned_2d' (it is 'learned_1d')",
  ),
  "Transformer/posembed_input/pos_embedding": (
    {},
    {"pos_embedding": "none"},
    "set config.model.pos_embedding='learned_1d' (it is 'none')",
  ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_a_misfit_is_a_row_with_its_likely_reason(name):
  theirs, ours, reason = MISFITS[name]
  if name == "Transformer/encoderblock_{2...3}/LayerNorm_0/scale":
    name = "Transformer/encoderblock_{3...4}/LayerNorm_0/scale"
  with pytest.raises(UserError) as error:
    fit(weights(**theirs), **ours)
  first, *rows = str(error.value).splitlines()
  assert first == "The parameters of a.npz do not fit config.model:"
  (row,) = (row for row in rows if row.startswith(name + " "))
  assert row.endswith(reason)


@pytest.mark.parametrize("representation_size", [None, 12])
def test_a_feature_of_another_length_is_put_down_to_the_pooling(
  representation_size,
):
  """A config may leave the number of classes to the data."""
  keys = {"representation_size": representation_size}
  model, params = published_npz.vit(pool="cls_gap", **keys)
  wanted = build.config_of(model).updated(num_classes=None)
  shapes = {name: leaf.shape for name, leaf in params.items()}
  with pytest.raises(UserError) as error:
    surgery.fit(weights(**keys), wanted, shapes)
  _, _, row = str(error.value).splitlines()
  assert row.endswith("set config.model.pool='cls' (it is 'cls_gap')")


def test_another_family_is_named():
  resnet = Weights(
    "r.npz",
    named_sections.section("model", name="resnet", variant="R50x1"),
    {"root_conv": {"kernel": np.ones((7, 7, 3, 64), np.float32)}},
  )
  with pytest.raises(UserError, match="config.model.name='resnet'"):
    fit(resnet)


sides = st.integers(1, 6)


@given(sides, sides, st.sampled_from(["cls", "gap"]), st.booleans())
def test_any_grid_fits_any_other(old, new, pool, scan):
  found = weights(pool=pool, image_size=4 * old)
  keys = {"pool": "cls", "image_size": 4 * new, "scan_layers": scan}
  _, given, _ = fit(found, **keys)
  assert given[TABLE].shape == (1, new * new + 1, 16)


def test_a_distillation_token_that_the_file_lacks_starts_without_a_position():
  found = weights()
  fitted, given, notes = fit(found, distillation="average", image_size=12)
  assert set(fitted.fresh) == {"dist", "head_dist/kernel", "head_dist/bias"}
  table = leaves(found)[TABLE]
  np.testing.assert_array_equal(given[TABLE][:, 0], table[:, 0])
  np.testing.assert_array_equal(given[TABLE][:, 1], 0)
  assert given[TABLE].shape[1] == 2 + 9
  assert "A distillation token is initialised" in notes


def test_a_distillation_token_is_dropped_with_its_position_and_head():
  found = weights(distillation="average")
  fitted, given, notes = fit(found)
  assert set(fitted.dropped) == {"dist", "head_dist/kernel", "head_dist/bias"}
  kept = np.delete(leaves(found)[TABLE], 1, axis=1)
  np.testing.assert_array_equal(given[TABLE], kept)
  assert "config.model.distillation='none'" in notes


def test_both_heads_change_their_classes_together():
  fitted, _, notes = fit(
    weights(distillation="average"), distillation="average", num_classes=3
  )
  assert set(fitted.fresh) == {*HEAD, "head_dist/kernel", "head_dist/bias"}
  assert "distillation head of 3 classes" in notes


@pytest.mark.parametrize("kind", ["learned_2d", "relative"])
@pytest.mark.parametrize("distillation", ["none", "token"])
def test_other_positions_have_places_for_both_tokens(kind, distillation):
  found = weights(pos_embedding=kind, distillation=distillation)
  other = "none" if distillation == "token" else "token"
  fitted, _, _ = fit(found, pos_embedding=kind, distillation=other)
  assert set(fitted.fresh) <= {"dist"}


@pytest.mark.parametrize("wanted", [0, 2])
def test_registers_of_another_number_are_dropped(wanted):
  found = weights(registers=3)
  fitted, given, notes = fit(found, registers=wanted, image_size=12)
  assert fitted.dropped == ("registers",)
  assert fitted.fresh == (("registers",) if wanted else ())
  assert "The 3 registers are dropped" in notes
  assert f"config.model.registers={wanted}" in notes
  # They have no rows in the table.
  assert given[TABLE].shape[1] == 1 + 9
  np.testing.assert_array_equal(given[TABLE][:, 0], leaves(found)[TABLE][:, 0])


def two_towers(image, text):
  """A network of two towers whose layers are scanned or not."""
  layers = {"depth": 2, "num_heads": 2, "mlp_dim": 12}
  return named_sections.section(
    "model",
    name="two_towers",
    variant="Ti/4",
    image_size=8,
    image={"width": 8, **layers, "scan_layers": image},
    text={"width": 8, **layers, "vocab_size": 9, "length": 4}
    | {"scan_layers": text},
  )


def shapes_of(model):
  images = jax.ShapeDtypeStruct((1, 8, 8, 3), np.uint8)
  network = build.create(model, num_classes=None)
  found = jax.eval_shape(network.init, jax.random.key(0), images)["params"]
  return {name: leaf.shape for name, leaf in flat.flatten(found).items()}


@pytest.mark.parametrize(
  "of_file, wanted",
  [
    ((False, False), (True, True)),
    ((True, True), (False, False)),
    ((True, False), (False, True)),
  ],
)
def test_towers_are_scanned_each_as_the_network_has_it(of_file, wanted):
  model, shapes = two_towers(*wanted), shapes_of(two_towers(*wanted))
  given = {
    name: np.random.default_rng(0).normal(size=shape)
    for name, shape in shapes_of(two_towers(*of_file)).items()
  }
  found = Weights("a.npz", two_towers(*of_file), flat.unflatten(given))
  fitted = surgery.fit(found, model, shapes)
  assert not fitted.fresh and not fitted.dropped and not fitted.notes
  params = flat.flatten(fitted.params)
  assert {name: np.shape(leaf) for name, leaf in params.items()} == shapes

  def layer(leaves, tower, i):
    name = f"{tower}/Transformer/encoderblock{{}}/MlpBlock_0/Dense_0/kernel"
    one = leaves.get(name.format(f"_{i}"))
    return leaves[name.format("")][i] if one is None else one

  for tower in ("image", "text"):
    for i in range(2):
      np.testing.assert_array_equal(
        layer(params, tower, i), layer(given, tower, i)
      )


def test_registers_that_the_file_lacks_are_initialised():
  fitted, _, notes = fit(weights(), registers=4)
  assert fitted.fresh == ("registers",) and not fitted.dropped
  assert notes == "4 registers are initialised."


@pytest.mark.parametrize("name", ["timm_vit", "timm_vit_map", "timm_deit3"])
@pytest.mark.parametrize("scan", [False, True])
def test_heads_that_a_file_does_not_tell_are_the_networks(name, scan, tmp_path):
  """Without its config, a file of timm still gives what timm computes."""
  told = files.read(str(published.folder(name)))
  path = tmp_path / "alone.safetensors"
  shutil.copy(published.folder(name) / "model.safetensors", path)
  found = files.read(str(path))
  heads = registry.FAMILIES.get("vit").size(told.model).num_heads
  assert found.model.num_heads != heads and found.heads_assumed
  assert not told.heads_assumed
  model = told.model.updated(scan_layers=scan)
  network = build.create(model, num_classes=model.num_classes)
  wanted = published.expected(name)
  images = wanted["images"]
  shapes = jax.eval_shape(network.init, jax.random.key(0), images)["params"]
  fitted = surgery.fit(
    found, model, {n: x.shape for n, x in trees.named_leaves(shapes)}
  )
  assert "config.model.num_heads" in " ".join(fitted.notes)
  result = jax.jit(network.apply)({"params": fitted.params}, images)
  result = np.asarray(result)
  assert published.relative_error(result, wanted["outputs"]) < 1e-5
