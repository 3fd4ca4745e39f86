"""google-research's files in every spelling, and files that are not whole."""

import dataclasses
import io
import json
import pickle
import warnings
import zipfile

import jax
import numpy as np
import pytest
from etils import epath
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.models import networks
from tests.weights import published_npz
from vit_jax.config import named_sections, schema
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.registry import FAMILIES
from vit_jax.weights import archive, flat
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import huggingface, npz
from vit_jax.weights.spellings.vit import npz as vit


def config_of(model):
  """The keys of a network; what computes attention is not told by weights."""
  return build.config_of(model).updated(attention="auto")


def read(path):
  return npz.read(epath.Path(path))


TABLE = "Transformer/posembed_input/pos_embedding"


def class_token_placed(params):
  """Parameters whose class token has taken in its position."""
  params = dict(params)
  if "cls" in params:
    table = params[TABLE]
    params["cls"] = params["cls"] + table[:, :1]
    params[TABLE] = table * (np.arange(table.shape[1]) > 0)[None, :, None]
  return params


@pytest.mark.parametrize("name", ["vit_token", "hybrid"])
def test_golden_logits(shared, name):
  found = read(shared / f"golden/{name}.npz")
  model = build.create(found.model, num_classes=found.model.num_classes)
  golden = np.load(shared / f"golden/{name}.io.npz")
  result = jax.jit(model.apply)({"params": found.params}, golden["x"])
  error = np.abs(result - golden["y"]).max() / np.abs(golden["y"]).max()
  assert error <= 1e-5
  assert not found.assumed


SPELLINGS = {
  "linen": lambda params: params,
  "pre-linen": published_npz.pre_linen,
  "top-level positions": published_npz.top_level_positions,
  "positions of the encoder": lambda params: published_npz.top_level_positions(
    params, "Transformer/pos_embedding"
  ),
  "stacked": published_npz.stacked,
  "stacked with top-level positions": lambda params: published_npz.stacked(
    published_npz.top_level_positions(params)
  ),
  "of a Flax optimizer": lambda params: published_npz.prefixed(
    published_npz.pre_linen(params), "opt/target/"
  ),
  "params/": lambda params: published_npz.prefixed(params, "params/"),
  "params/img/": lambda params: published_npz.prefixed(params, "params/img/"),
  "img/": lambda params: published_npz.prefixed(params, "img/"),
}
KINDS = {
  "cls": {},
  "gap": {"pool": "gap"},
  "map": {"pool": "map"},
  "pre_logits": {"representation_size": 12},
  "cls_gap": {"pool": "cls_gap"},
  "cls_gap and pre_logits": {"pool": "cls_gap", "representation_size": 12},
  "hybrid": {"variant": "Ti/8", "stem_blocks": (1, 2), "stem_width": 32},
  "no biases": {"qkv_bias": False},
  "no bias of keys": {"key_bias": False},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_gives_the_same_network(tmp_path, spelling, kind):
  keys = {"image_size": 16} | KINDS[kind] if kind == "hybrid" else KINDS[kind]
  model, params = published_npz.vit(**keys)
  spelled = SPELLINGS[spelling](published_npz.four_axes_in_norms(params))
  found = read(published_npz.saved(tmp_path / "x.npz", spelled))
  assert found.model == config_of(model)
  # Which of the two rows it stands in makes no difference to the token.
  result = class_token_placed(flat.flatten(found.params))
  params = class_token_placed(params)
  assert result.keys() == params.keys()
  for name, leaf in params.items():
    np.testing.assert_array_equal(result[name], leaf)


def test_a_head_that_once_stood_at_the_top_level_is_found(tmp_path):
  model, params = published_npz.vit(pool="map")
  inlined = {n.removeprefix("MAPHead_0/"): x for n, x in params.items()}
  found = read(published_npz.saved(tmp_path / "x.npz", inlined))
  assert found.model == config_of(model)
  assert flat.flatten(found.params).keys() == params.keys()


def test_bfloat16_without_a_type_is_read_exactly(tmp_path):
  _, params = published_npz.vit()
  path = published_npz.saved(tmp_path / "x.npz", published_npz.bfloat16(params))
  result = flat.flatten(read(path).params)
  for name, leaf in params.items():
    assert result[name].dtype == np.float32
    kept = (leaf.view(np.uint32) >> 16 << 16).view(np.float32)
    np.testing.assert_array_equal(result[name], kept)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ">f4"])
def test_other_floating_point_numbers_become_float32(tmp_path, dtype):
  _, params = published_npz.vit()
  stored = {name: leaf.astype(dtype) for name, leaf in params.items()}
  result = read(published_npz.saved(tmp_path / "x.npz", stored)).params
  assert {leaf.dtype.str for leaf in jax.tree.leaves(result)} == {"<f4"}


def test_what_no_file_tells_is_said(tmp_path):
  model, params = published_npz.vit(pool="gap", pos_embedding="sincos2d")
  found = read(published_npz.saved(tmp_path / "x.npz", params))
  assert found.model.pool == "gap"
  assert found.model.pos_embedding == "sincos2d"
  said = " ".join(found.assumed)
  assert "model.pool='gap'" in said and "model.pos_embedding" in said


def test_training_state_is_left_out_and_said(tmp_path):
  model, params = published_npz.vit()
  tower = published_npz.prefixed(params, "params/img/")
  others = {
    "opt/0/mu/img/cls": np.ones(3),
    "extra/accum_train_time": np.array(1),
  }
  found = read(published_npz.saved(tmp_path / "x.npz", tower | others))
  assert found.model == config_of(model)
  assert [line.partition(" (")[0] for line in found.assumed] == [
    "Left out: the optimizer's state",
    "Left out: the trainer's counters",
  ]


@pytest.mark.parametrize("extra", ["blocks/0/gamma", "opt/state/step", "Dense"])
def test_a_name_that_is_not_understood_is_an_error(tmp_path, extra):
  _, params = published_npz.vit()
  path = published_npz.saved(tmp_path / "x.npz", params | {extra: np.ones(2)})
  with pytest.raises(UserError) as error:
    read(path)
  (row,) = (x for x in str(error.value).splitlines() if x.startswith(extra))
  assert "(2,)" in row and "not there" in row


def test_missing_parameters_are_a_table_with_layers_in_one_row(tmp_path):
  _, params = published_npz.vit()
  kept = {n: x for n, x in params.items() if not n.endswith("Dense_1/bias")}
  with pytest.raises(UserError) as error:
    read(published_npz.saved(tmp_path / "x.npz", kept))
  row = str(error.value).splitlines()[-1]
  assert "encoderblock_{0...2}/MlpBlock_0/Dense_1/bias" in row
  assert "not there" in row and "(16,)" in row


def test_one_parameter_in_two_spellings_is_an_error(tmp_path):
  _, params = published_npz.vit()
  both = params | published_npz.pre_linen(params)
  with pytest.raises(UserError, match="twice"):
    read(published_npz.saved(tmp_path / "x.npz", both))


def test_a_table_that_is_no_square_is_refused(tmp_path):
  _, params = published_npz.vit()
  params[TABLE] = np.ones((1, 7, 16), np.float32)
  with pytest.raises(UserError, match="6 patches.*no square"):
    read(published_npz.saved(tmp_path / "x.npz", params))


def test_another_network_is_named_by_what_it_lacks(tmp_path):
  mixer = {"stem/kernel": np.ones((2, 2)), "MixerBlock_0/x": np.ones(1)}
  with pytest.raises(UserError, match="no Vision Transformer.*stem/kernel"):
    read(published_npz.saved(tmp_path / "x.npz", mixer))


def test_objects_are_never_unpickled(tmp_path):
  class Evil:
    def __reduce__(self):
      return print, ("unpickled",)

  _, params = published_npz.vit()
  path = tmp_path / "x.npz"
  np.savez(path, **params | {"cls": np.array([Evil()], dtype=object)})
  with pytest.raises(UserError, match="'cls' as Python objects"):
    read(path)


def test_numbers_that_are_no_parameters_are_refused(tmp_path):
  _, params = published_npz.vit()
  params["cls"] = params["cls"].astype(int)
  with pytest.raises(UserError, match="'cls' holds int64"):
    read(published_npz.saved(tmp_path / "x.npz", params))


def npz_bytes():
  file = io.BytesIO()
  np.savez(file, **published_npz.vit()[1])
  return file.getvalue()


@pytest.mark.parametrize(
  ("content", "sentence"),
  [
    (b"", "is empty"),
    (b"hello", "is not an .npz file"),
    (pickle.dumps({"a": 1}), "is a pickle"),
    (npz_bytes()[:-100], "damaged or incomplete"),
    (npz_bytes()[:2000], "damaged or incomplete"),
  ],
)
def test_a_file_that_is_not_one_is_a_sentence(tmp_path, content, sentence):
  path = tmp_path / "x.npz"
  path.write_bytes(content)
  with pytest.raises(UserError, match=sentence) as error:
    read(path)
  assert str(path) in str(error.value)


def test_a_flipped_bit_is_noticed(tmp_path):
  content = bytearray(npz_bytes())
  content[len(content) // 2] ^= 1
  path = tmp_path / "x.npz"
  path.write_bytes(content)
  with pytest.raises(UserError, match="is damaged: '.+' cannot be read"):
    read(path)


def test_a_zip_of_other_things_is_refused(tmp_path):
  path = tmp_path / "x.npz"
  with zipfile.ZipFile(path, "w") as archive:
    archive.writestr("readme.txt", "hello")
  with pytest.raises(
    UserError, match="'readme.txt', which is not a NumPy array"
  ):
    read(path)


NPZ = npz_bytes()
positions = st.integers(0, len(NPZ) - 1)
# The table of contents at the end is where most damage is done.
ends = st.integers(len(NPZ) - 4000, len(NPZ) - 1)
edits = st.lists(
  st.tuples(positions | ends, st.binary(max_size=4), st.integers(0, 8)),
  max_size=4,
)


@given(edits, st.none() | positions)
@settings(
  max_examples=200,
  suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_damage_of_any_kind_is_a_user_error(tmp_path, edits, length):
  content = bytearray(NPZ)
  for position, new, num_old in edits:
    content[position : position + num_old] = new
  path = tmp_path / "x.npz"
  path.write_bytes(content[:length])
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    try:
      read(path)
    except UserError:
      pass


PARAMS = published_npz.vit()[1]
names = st.sampled_from(
  [
    "embedding/kernel",
    "cls",
    "head/kernel",
    "pre_logits/kernel",
    "conv_root/kernel",
    "block99/unit2/conv1/kernel",
    "resnet/root_block/standardized_conv2d/kernel",
    "resnet/block1/unit01/a/group_norm/gamma",
    "opt/target/cls",
    "params/cls",
    "params/img/cls",
    "pos_embedding",
    "probe",
    "Transformer/posembed_input/pos_embedding",
    "Transformer/posembed_input/x_embedding",
    "Transformer/posembed/relative_keys",
    "Transformer/encoderblock/MlpBlock_0/Dense_0/kernel",
    "Transformer/encoderblock_0/MlpBlock_3/Dense_0/kernel",
    "Transformer/encoderblock_99999/LayerNorm_0/scale",
    "Transformer/encoderblock_0/MultiHeadDotProductAttention_0/query/kernel",
  ]
)
shapes = st.lists(st.sampled_from([0, 1, 2, 4, 5, 16]), max_size=5)


@given(st.dictionaries(names, st.none() | shapes, max_size=6), st.booleans())
@example({"cls": []}, False)
@settings(max_examples=200)
def test_wrong_names_and_shapes_are_a_user_error(changes, alone):
  params = {} if alone else dict(PARAMS)
  for name, shape in changes.items():
    params.pop(name, None)
    if shape is not None:
      params[name] = np.zeros(shape, np.float32)
  try:
    found = npz.interpret(archive.Contents(list(params), params), "memory.npz")
  except UserError:
    return
  model = build.create(found.model, num_classes=found.model.num_classes)
  wanted = networks.random_params(model)
  assert flat.flatten(found.params).keys() == flat.flatten(wanted).keys()


IDENTITY = {
  "vit": {},
  "gap": {"pool": "gap"},
  "gap with a class token": {"pool": "gap", "cls_token": True},
  "norm after pooling": {"pool": "gap", "norm_after_pool": True},
  "map": {"pool": "map"},
  "cls_gap without a head": {"pool": "cls_gap", "num_classes": None},
  "tokens": {"pool": "none"},
  "no head": {"num_classes": None},
  "pre_logits": {"representation_size": 12},
  "a class token without a position": {"cls_position": False},
  "2-D positions beside one": {
    "pos_embedding": "learned_2d",
    "cls_position": False,
  },
  "2-D positions": {"pos_embedding": "learned_2d"},
  "relative positions": {"pos_embedding": "relative"},
  "fixed positions": {"pos_embedding": "sincos2d", "pool": "gap"},
  "no positions": {"pos_embedding": "none"},
  "positions at every layer": {"pos_embedding_at": "every_layer"},
  "shared positions": {"pos_embedding_at": "every_layer_shared"},
  "Hugging Face's": {
    "gelu": "exact",
    "layer_norm_eps": 1e-12,
    "normalize": "imagenet",
  },
  "pixels left over": {"image_size": 10, "drop_remainder": True},
  "hybrid": {
    "variant": "Ti/8",
    "stem_blocks": (1, 2),
    "stem_width": 32,
    "image_size": 16,
  },
  "root alone": {"stem_blocks": (), "stem_width": 32},
}


@pytest.mark.parametrize("kind", IDENTITY)
def test_a_written_file_is_read_back_the_same(tmp_path, kind):
  model, params = published_npz.vit(**IDENTITY[kind])
  path = epath.Path(tmp_path / "new/x.npz")
  section = config_of(model)
  names = None if model.num_classes is None else list("abcde")
  npz.write(path, Weights("test", section, flat.unflatten(params), names))
  found = npz.read(path)
  assert found.model == section
  assert found.class_names == names and not found.assumed
  result = flat.flatten(found.params)
  assert result.keys() == params.keys()
  for name, leaf in params.items():
    np.testing.assert_array_equal(result[name], leaf)
  with np.load(path, allow_pickle=False) as file:
    assert set(file.files) == set(params)


def test_every_key_of_the_model_is_told_by_shapes_or_by_the_comment():
  told = {"name", "variant", "width", "depth", "num_heads", "mlp_dim"}
  told |= {"stem_blocks", "stem_width", "blocks", "num_classes", "qkv_bias"}
  told |= {
    "cls_token",
    "cls_position",
    "norm_after_pool",
    "representation_size",
  }
  training = {"dropout_rate", "stochastic_depth_rate", "head_bias_init"}
  training |= {"dtype", "head_dtype", "softmax_dtype", "attention"}
  training |= {"scan_layers", "remat", "pos_embedding_stddev"}
  training |= {"stochastic_depth", "stochastic_depth_group"}
  training |= {"pos_embedding_init", "weight_init"}
  told |= {"patch_bias", "pre_norm", "mlp", "mlp_norm", "registers"}
  told |= {"key_bias"}
  sections = [FAMILIES.get(name).section for name in ("vit", "resnet")]
  keys = {key for section in sections for key in section.model_fields}
  assert keys == told | training | set(vit.NPZ.unseen)


def test_stacked_layers_are_written_one_by_one(tmp_path):
  _, params = published_npz.vit()
  path = epath.Path(tmp_path / "x.npz")
  tree = flat.unflatten(published_npz.stacked(params))
  npz.write(
    path,
    Weights("test", named_sections.section("model", scan_layers=True), tree),
  )
  assert set(np.load(path).files) == set(params)


def test_the_same_parameters_give_the_same_bytes(tmp_path):
  model, params = published_npz.vit()
  for name in "ab":
    path = epath.Path(tmp_path / f"{name}.npz")
    npz.write(
      path, Weights("x", build.config_of(model), flat.unflatten(params))
    )
  assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_too_many_class_names_are_left_out_with_a_warning(tmp_path, caplog):
  model, params = published_npz.vit()
  path = epath.Path(tmp_path / "x.npz")
  names = ["a class with a long name"] * 5000
  npz.write(
    path, Weights("x", build.config_of(model), flat.unflatten(params), names)
  )
  assert npz.read(path).class_names is None
  assert "5000 class names" in caplog.text


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
  model, params = published_npz.vit()
  path = epath.Path(tmp_path / "x.npz")
  path.write_bytes(b"old")

  def fail(*args, **kwargs):
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(np.lib.format, "write_array", fail)
  with pytest.raises(UserError, match="No space left on device"):
    npz.write(
      path, Weights("x", build.config_of(model), flat.unflatten(params))
    )
  assert path.read_bytes() == b"old"
  assert [file.name for file in tmp_path.iterdir()] == ["x.npz"]


@pytest.mark.parametrize(
  "said",
  [
    {"vit_jax": 1},
    {"vit_jax": {"model": {"width": 3}}},
    {"vit_jax": {"model": {"gelu": "none"}}},
    {"vit_jax": {"model": {"image_size": "x"}}},
    {"vit_jax": {"model": {}, "class_names": [1]}},
    {"vit_jax": {"model": {"pool": "max"}}},
  ],
)
def test_a_comment_that_makes_no_sense_is_a_sentence(tmp_path, said):
  path = published_npz.saved(tmp_path / "x.npz", published_npz.vit()[1])
  with zipfile.ZipFile(path, "a") as archive:
    archive.comment = json.dumps(said).encode()
  with pytest.raises(UserError, match="x.npz"):
    read(path)


def test_a_foreign_comment_is_not_looked_at(tmp_path):
  path = published_npz.saved(tmp_path / "x.npz", published_npz.vit()[1])
  with zipfile.ZipFile(path, "a") as archive:
    archive.comment = b'{"made by": "others"}'
  assert read(path).model.gelu == "tanh"


def test_a_family_without_published_names_is_read_back(tmp_path, monkeypatch):
  monkeypatch.setattr(FAMILIES, "_entries", dict(FAMILIES._entries))

  class Section(schema.Model):
    channels: int = 3

  record = dataclasses.replace(FAMILIES.get("vit"), section=Section)
  FAMILIES.register("toy", record)
  section = Section(name="toy", channels=5, num_classes=2, dtype="bfloat16")
  params = {"layer": {"kernel": np.ones((2, 3), np.float32)}}
  path = epath.Path(tmp_path / "toy.npz")
  npz.write(path, Weights("toy", section, params))
  found = npz.read(path)
  assert found.model == section
  jax.tree.map(np.testing.assert_array_equal, found.params, params)
  with pytest.raises(UserError, match="no network such as .*'toy'.*npz"):
    huggingface.write(tmp_path / "toy", found)
