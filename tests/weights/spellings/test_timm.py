"""timm's files give what timm makes of them."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from tests.weights.published import (
  GOLDEN,
  change,
  change_tensors,
  expected,
  folder,
  outputs,
  outputs_at,
  relative_error,
)
from vit_jax.config import pixels
from vit_jax.errors import UserError
from vit_jax.models.vit import sizes
from vit_jax.weights import files
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import timm

FIXTURES = [
  "timm_vit",
  "timm_vit_alone",
  "timm_vit_gap",
  "timm_vit_map",
  "timm_deit_distilled",
  "timm_deit3",
  "timm_hybrid",
  "timm_hybrid_root",
  "timm_bit",
  "timm_dinov2_registers",
]


def refusal(directory) -> str:
  with pytest.raises(UserError) as caught:
    timm.read(directory)
  return str(caught.value)


@pytest.mark.parametrize("name", FIXTURES)
def test_outputs_are_those_of_timm(name):
  weights = timm.read(folder(name))
  wanted = expected(name)
  found = outputs(weights, wanted["images"])
  assert relative_error(found, wanted["outputs"]) < 1e-5


@pytest.mark.parametrize(
  "name",
  ["timm_vit", "timm_deit_distilled", "timm_deit3", "timm_dinov2_registers"],
)
def test_larger_images_give_what_timm_gives(name):
  wanted = expected(name)
  found = outputs_at(name, 24, wanted["images_24"])
  assert relative_error(found, wanted["outputs_24"]) < 1e-5


def test_constants_of_the_stem_matter():
  name = "timm_hybrid"
  weights = timm.read(folder(name))
  wanted = expected(name)
  google = weights.model.model_copy(update={"standardization": "google"})
  found = outputs(weights, wanted["images"], model=google)
  assert relative_error(found, wanted["outputs"]) > 1e-4


def test_config_tells_heads_statistics_and_names():
  weights = timm.read(GOLDEN / "timm_vit")
  assert weights.model.num_heads == 4
  assert weights.class_names == ("ant", "bee", "cat: a pet", "dog", "eel")
  assert weights.assumed == ()
  gap = timm.read(GOLDEN / "timm_vit_gap").model
  assert gap.normalize == "imagenet"
  assert (gap.pool, gap.cls_token, gap.norm_after_pool) == ("gap", True, True)


def test_an_older_config_is_read_as_timm_reads_it(copied):
  """One object; a mean or deviation that is not there is ImageNet's."""
  directory = copied("timm_vit")
  config = json.loads((directory / "config.json").read_text())
  settings = {**config["pretrained_cfg"], "mean": [0.25, 0.25, 0.25]}
  del settings["std"]
  older = {
    "architecture": config["architecture"],
    **settings,
    "labels": config["label_names"],
  }
  (directory / "config.json").write_text(json.dumps(older))
  found, model = timm.read(directory), timm.read(GOLDEN / "timm_vit").model
  assert found.class_names == timm.read(GOLDEN / "timm_vit").class_names
  assert found.model.image_size == model.image_size
  assert pixels.parse(found.model.normalize) == (
    (0.25, 0.25, 0.25),
    (0.229, 0.224, 0.225),
  )
  assert "normalised" not in " ".join(found.assumed)


@pytest.mark.parametrize("name", ["timm_clip", "timm_vit_map"])
def test_lone_tower_says_which_gelu_is_assumed(copied, name):
  directory = copied(name)
  whole = " ".join(timm.read(directory).assumed)
  (directory / "config.json").unlink()
  assert "model.gelu=" in " ".join(timm.read(directory).assumed)
  assert "GELU" not in whole


@pytest.mark.parametrize("name", ["timm_swin", "timm_convnext", "timm_bit"])
@pytest.mark.parametrize("place", ["config", "model_args"])
def test_a_map_that_timm_does_not_pool_is_averaged_and_said(
  copied, name, place
):
  directory = copied(name)
  assert not timm.read(directory).assumed
  keys = {"global_pool": ""}
  if place == "model_args":
    config = json.loads((directory / "config.json").read_text())
    keys = {"model_args": config.get("model_args", {}) | keys}
  change(directory, **keys)
  (note,) = timm.read(directory).assumed
  assert 'global_pool = ""' in note and "'tokens'" in note


@pytest.mark.parametrize(
  "values",
  [
    {"pretrained_cfg": None},
    {"pretrained_cfg": {"input_size": [3, 16, 16]}},
  ],
)
def test_a_config_without_statistics_of_pixels_says_whose_are_taken(
  copied, values
):
  directory = copied("timm_vit")
  change(directory, **values)
  weights = timm.read(directory)
  assert weights.model.normalize == "imagenet"
  assert any("how pixels are normalised" in note for note in weights.assumed)


def test_lone_file_says_what_is_assumed():
  weights = timm.read(GOLDEN / "timm_vit_alone" / "model.safetensors")
  assert weights.model.num_heads == 1
  said = " ".join(weights.assumed)
  for words in ("model.num_heads=1", "model.normalize="):
    assert words in said


def test_parts_of_deits_are_kept():
  deit3 = timm.read(GOLDEN / "timm_deit3")
  assert not deit3.model.cls_position and deit3.model.layer_scale
  table = deit3.params["Transformer"]["posembed_input"]["pos_embedding"]
  assert table.shape == (1, 16, 32)
  distilled = timm.read(GOLDEN / "timm_deit_distilled")
  assert distilled.model.distillation == "average"
  assert distilled.params["head_dist"]["kernel"].shape == (32, 5)


@pytest.mark.parametrize(
  "width, architecture, heads",
  [
    (768, "vit_base_patch16_224", 12),
    (768, "vit_base_patch16_gap_224", 16),
    (1152, "vit_so400m_patch14_siglip_224", 16),
    (1280, "vit_huge_patch14_224", 16),
    (1536, "vit_giantopt_patch16_siglip_256", 16),
    (1536, "vit_giant_patch14_dinov2", 24),
    (1664, "vit_gigantic_patch14_224", 16),
  ],
)
def test_heads_are_those_of_timms_models(copied, width, architecture, heads):
  directory = copied("timm_vit_map")
  change(directory, architecture=architecture, model_args=None)

  def widen(tensor):
    sides = {32: width, 64: 2 * width, 96: 3 * width}
    return np.resize(tensor, [sides.get(n, n) for n in tensor.shape])

  change_tensors(directory, lambda x: {n: widen(a) for n, a in x.items()})
  assert sizes.vit(timm.read(directory).model).num_heads == heads


@pytest.mark.parametrize(
  "architecture, gelu",
  [
    ("vit_base_patch16_siglip_224", "exact"),
    ("vit_base_patch32_siglip_256", "tanh"),
    ("vit_large_patch16_siglip_384", "exact"),
    ("vit_large_patch16_siglip_gap_512", "tanh"),
    ("vit_so400m_patch14_siglip_384", "exact"),
    ("vit_so400m_patch16_siglip_384", "tanh"),
  ],
)
def test_gelu_is_that_of_timms_models(copied, architecture, gelu):
  directory = copied("timm_vit_map")
  change(directory, architecture=architecture)
  assert timm.read(directory).model.gelu == gelu


@pytest.mark.parametrize(
  "name, words",
  [
    ("blocks.0.attn.q_norm.weight", "normalised queries"),
    ("blocks.0.attn.norm.weight", "norms inside"),
    ("blocks.0.mlp.w12.weight", "SwiGLU"),
    ("blocks.0.mlp.fc1_g.weight", "SwiGLU of two layers"),
    ("blocks.0.attn.rel_pos.relative_position_bias_table", "relative"),
    ("rope.freqs", "rotary"),
    ("patch_embed.backbone.bn1.running_mean", "batch norm"),
    ("blocks.0.attns.0.qkv.weight", "parallel"),
    ("blocks.0.attn_out_proj.weight", "parallel"),
    ("something.else", "something.else"),
  ],
)
def test_parts_that_our_networks_lack_are_named(copied, name, words):
  directory = copied("timm_vit")
  change_tensors(directory, lambda x: x | {name: np.ones(3, np.float32)})
  message = refusal(directory)
  assert words in message and name in message


def test_registers_and_joined_swiglu_are_told():
  weights = timm.read(GOLDEN / "timm_dinov2_registers")
  model = weights.model
  assert (model.registers, model.cls_position) == (2, False)
  assert (model.mlp, sizes.vit(model).mlp_dim) == ("swiglu", 16)
  table = weights.params["Transformer"]["posembed_input"]["pos_embedding"]
  assert table.shape == (1, 16, 16)


def test_positions_of_registers_are_added_to_them(copied):
  directory = copied("timm_dinov2_registers")
  rows = np.random.default_rng(0).standard_normal((1, 3, 16), np.float32)

  def with_rows(tensors):
    # Of the class token and of two registers, before those of the patches.
    table = np.concatenate([rows, tensors["pos_embed"]], axis=1)
    cls = tensors["cls_token"] - rows[:, :1]
    registers = tensors["reg_token"] - rows[:, 1:]
    more = {"pos_embed": table, "cls_token": cls, "reg_token": registers}
    return tensors | more

  change_tensors(directory, with_rows)
  wanted = expected("timm_dinov2_registers")
  found = outputs(timm.read(directory), wanted["images"])
  assert relative_error(found, wanted["outputs"]) < 1e-5


@pytest.mark.parametrize(
  "values, words",
  [
    ({"architecture": "mixer_b16"}, ["architecture", "mixer_b16", "vit_*"]),
    ({"architecture": "resnetv2_50"}, ["architecture", "resnetv2_*_bit"]),
    (
      {"architecture": "poolformer_s12"},
      ["swin_*_patch*, swinv2_*_window*, pvt_v2_*, "],
    ),
    ({"architecture": "vit_base_patch16_rpn_224"}, ["norms after"]),
    ({"architecture": "vit_small_patch16_lingbot"}, ["rotary positions"]),
    ({"architecture": "vit_pe_core_tiny_patch16_384"}, ["rotary positions"]),
    ({"architecture": "vit_base_patch16_rope_ape_224"}, ["rotary positions"]),
    ({"global_pool": "max"}, ["global_pool", "max"]),
    ({"model_args": {"pool_include_prefix": True}}, ["pool_include_prefix"]),
    ({"model_args": {"act_layer": "silu"}}, ["act_layer", "quick_gelu"]),
    ({"model_args": {"num_heads": 5}}, ["5 heads", "32"]),
    ({"pretrained_cfg": {"input_size": [3, 16, 24]}}, ["input_size"]),
    ({"pretrained_cfg": {"mean": [1], "std": 0}}, ["pretrained_cfg", "mean"]),
    ({"pretrained_cfg": []}, ["pretrained_cfg"]),
  ],
)
def test_config_that_is_not_ours_is_named(copied, values, words):
  directory = copied("timm_vit")
  change(directory, **values)
  message = refusal(directory)
  assert all(word in message for word in words), message


@pytest.mark.parametrize("key", ["act_layer", "global_pool"])
def test_argument_that_bits_lack_is_refused(tmp_path, key):
  directory = shutil.copytree(folder("timm_bit"), tmp_path / "bit")
  change(directory, model_args={key: "max"})
  assert f'{key} = "max" is not' in refusal(directory)


def test_table_of_no_square_is_named(copied):
  directory = copied("timm_vit")
  change_tensors(directory, lambda x: x | {"pos_embed": x["pos_embed"][:, 2:]})
  assert "14 patches" in refusal(directory)


def test_class_token_pooling_needs_one(copied):
  directory = copied("timm_vit_map")
  change(directory, global_pool="token")
  assert "global_pool" in refusal(directory)


def test_size_that_leaves_pixels_over_is_kept(copied):
  directory = copied("timm_vit")
  change(directory, pretrained_cfg={"input_size": [3, 18, 18]})
  model = timm.read(directory).model
  assert (model.image_size, model.drop_remainder) == (18, True)


def test_size_that_is_not_the_tables_is_not(copied):
  directory = copied("timm_vit")
  change(directory, pretrained_cfg={"input_size": [3, 32, 32]})
  assert timm.read(directory).model.image_size == 16


def test_foreign_file_is_named(tmp_path):
  save_file({"x": np.ones(2, np.float32)}, tmp_path / "x.safetensors")
  with pytest.raises(UserError, match="none of timm's networks.*tensors: x"):
    timm.read(tmp_path / "x.safetensors")


def test_pre_training_head_of_older_files_is_read(copied):
  directory = copied("timm_vit")
  generator = np.random.default_rng(0)
  weight = generator.standard_normal((24, 32), np.float32)
  more = {
    "pre_logits.fc.weight": weight,
    "pre_logits.fc.bias": np.ones(24, np.float32),
    "head.weight": np.ones((5, 24), np.float32),
  }
  change_tensors(directory, lambda x: x | more)
  weights = timm.read(directory)
  assert weights.model.representation_size == 24
  np.testing.assert_array_equal(
    weights.params["pre_logits"]["kernel"], weight.T
  )


def test_file_of_hugging_face_alone_is_told_what_it_needs(tmp_path):
  file = GOLDEN / "huggingface_vit" / "model.safetensors"
  shutil.copy(file, tmp_path / "x.safetensors")
  with pytest.raises(UserError, match="config.json next to"):
    files.read(str(tmp_path / "x.safetensors"))


@pytest.mark.parametrize("name", FIXTURES)
def test_who_wrote_a_file_is_found_out(name):
  path = str(folder(name))
  assert files.is_published(path)
  assert files.read(path).model == timm.read(path).model


NAMES = {
  name: sorted(load_file(folder(name) / "model.safetensors"))
  for name in ("timm_vit", "timm_vit_gap", "timm_hybrid_root", "timm_bit")
}


def test_a_bias_of_two_dimensions_is_named_in_the_table(copied):
  directory = copied("timm_vit")
  bias = np.ones((1, 0), np.float32)
  change_tensors(directory, lambda x: x | {"blocks.0.attn.proj.bias": bias})
  with pytest.raises(UserError, match=r"blocks.0.attn.proj.bias +\(1, 0\)"):
    timm.read(directory)


@settings(max_examples=100)
@given(st.data())
def test_any_tensors_give_weights_or_a_sentence(tmp_path_factory, data):
  name = data.draw(st.sampled_from(sorted(NAMES)))
  found = load_file(folder(name) / "model.safetensors")
  for _ in range(data.draw(st.integers(1, 3))):
    tensor = data.draw(st.sampled_from(NAMES[name]))
    old = found.pop(tensor, np.ones(1, np.float32))
    what = data.draw(st.sampled_from(["drop", "shape", "rename", "number"]))
    if what == "shape":
      shape = data.draw(st.lists(st.integers(0, 9), max_size=5))
      found[tensor] = np.ones(shape, np.float32)
    elif what == "rename":
      found[data.draw(st.sampled_from(NAMES[name])) + "x"] = old
    elif what == "number":
      number = data.draw(st.integers(0, 10**12))
      found[tensor.replace(".0.", f".{number}.")] = old
  directory = tmp_path_factory.mktemp("fuzz")
  config = GOLDEN / name / "config.json"
  if data.draw(st.booleans()):
    shutil.copy(config, directory)
  save_file(found, directory / "model.safetensors")
  try:
    assert isinstance(timm.read(directory), Weights)
  except UserError as error:
    assert str(error)
