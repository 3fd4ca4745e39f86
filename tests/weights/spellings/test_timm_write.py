"""timm's directories of our networks: read back, and what they cannot hold.

`test_timm_parity.py` asks timm and transformers themselves.
"""

import json

import jax
import numpy as np
import pytest

import vit_jax
from tests.models import networks
from vit_jax.config import named_sections
from vit_jax.errors import UserError
from vit_jax.models.vit import sizes
from vit_jax.weights import files
from vit_jax.weights.spellings import timm_write

VIT = dict(depth=2, gelu="exact", pos_embedding_resize="bicubic_antialias")
STAGES4 = dict(depths=(1, 1, 1, 1), widths=(6, 8, 8, 10), image_size=64)
ROPE = VIT | {"rope": True, "key_bias": False}
DINOV3 = ROPE | {"pos_embedding": "none", "registers": 2, "rope_base": 100.0}
DINOV3 |= {"rope_coordinates": "unit", "layer_norm_eps": 1e-5}
DINOV3 |= {"layer_scale": 0.1}
BEIT = VIT | {"pos_embedding": "relative_bias", "cls_token": True}
BEIT |= {"pos_embedding_at": "every_layer"}
# Made by a function of `networks`, with keys.
CASES = {
  "cls": ("tiny", VIT),
  "gap": ("tiny", VIT | {"pool": "gap"}),
  "gap_with_cls": (
    "tiny",
    VIT | {"pool": "gap", "cls_token": True, "norm_after_pool": True},
  ),
  "map": ("tiny", VIT | {"pool": "map", "qkv_bias": False}),
  "no_pooling": ("tiny", VIT | {"pool": "none"}),
  "tanh": ("tiny", VIT | {"gelu": "tanh"}),
  "quick": ("tiny", VIT | {"gelu": "quick"}),
  "registers": ("tiny", VIT | {"registers": 2, "layer_scale": 0.1}),
  "swiglu": ("tiny", VIT | {"mlp": "swiglu", "mlp_norm": True}),
  "pre_norm": ("tiny", VIT | {"pre_norm": True}),
  "clip": (
    "tiny",
    VIT | {"pre_norm": True, "patch_bias": False, "layer_norm_eps": 1e-5},
  ),
  "without_biases": ("tiny", VIT | {"qkv_bias": False, "patch_bias": False}),
  "2d": ("tiny", VIT | {"pos_embedding": "learned_2d"}),
  "sincos2d": ("tiny", VIT | {"pos_embedding": "sincos2d", "pool": "gap"}),
  "no_positions": ("tiny", VIT | {"pos_embedding": "none"}),
  "distilled": (
    "tiny",
    VIT | {"distillation": "average", "norm_after_pool": True},
  ),
  "distilled_without_rows": (
    "tiny",
    VIT | {"distillation": "average", "cls_position": False},
  ),
  "dist_token": ("tiny", VIT | {"distillation": "token", "registers": 1}),
  "remainder": ("tiny", VIT | {"image_size": 10, "drop_remainder": True}),
  "scanned": ("tiny", VIT | {"scan_layers": True}),
  "eva02": ("tiny", ROPE | {"mlp": "swiglu", "mlp_norm": True}),
  "eva": (
    "tiny",
    ROPE | {"pool": "gap", "norm_after_pool": True, "registers": 2},
  ),
  "eva_map": ("tiny", ROPE | {"pool": "map", "rope_grid": None}),
  "eva_without_table": ("tiny", ROPE | {"pos_embedding": "none"}),
  "eva_of_another_base": ("tiny", ROPE | {"rope_base": 100.0}),
  "dinov3": ("tiny", DINOV3 | {"pool": "gap", "cls_token": True}),
  "dinov3_plus": ("tiny", DINOV3 | {"mlp": "swiglu"}),
  "beit": ("tiny", BEIT | {"pool": "gap", "layer_scale": 0.1}),
  "beit_shared": (
    "tiny",
    BEIT | {"pos_embedding_at": "every_layer_shared", "qkv_bias": False},
  ),
  "hybrid": (
    "tiny_hybrid",
    dict(stem_blocks=(), stem_width=64, standardization="torch")
    | {"variant": "Ti/8", "gelu": "exact"},
  ),
  "swin": ("tiny_swin", {"image_size": 22}),
  "swin_v2": (
    "tiny_swin",
    {"version": 2, "pretrained_window_sizes": (3, 2)},
  ),
  "convnext": (
    "tiny_convnext",
    {"depths": (1, 1, 1, 1), "widths": (6, 8, 8, 10), "image_size": 32},
  ),
  "convnext_v2": (
    "tiny_convnext",
    {"depths": (1, 1, 1, 1), "widths": (6, 8, 8, 10), "image_size": 32}
    | {"version": 2, "layer_norm_eps": 1e-5, "head_norm_eps": 1e-5},
  ),
  "pvt": ("tiny_pvt", {}),
  "pvt_linear": ("tiny_pvt", {"linear_attention": True}),
}
# Too slow for a quick test; `test_timm_parity.py` has them too.
LARGE = {
  "r26": (
    "tiny_hybrid",
    dict(stem_blocks=None, stem_width=64, standardization="torch")
    | {"variant": "R26+S/32", "image_size": 64, "gelu": "exact"},
  ),
  "bit": (
    "tiny_resnet",
    {"blocks": (3, 4, 6, 3), "image_size": 64},
  ),
  # Of a name whose dense layers are convolutions in timm.
  "convnext_v2_atto": (
    "tiny_convnext",
    {"version": 2, "variant": "atto", "depths": None, "widths": None}
    | {"image_size": 32},
  ),
}


def made(name, num_classes=networks.NUM_CLASSES):
  """A network, its random parameters and images."""
  kind, keys = (CASES | LARGE)[name]
  network = getattr(networks, kind)(num_classes, **keys)
  side = network.image_size
  images = np.random.default_rng(0).integers(0, 256, (2, side, side, 3))
  return network, networks.random_params(network), images.astype(np.uint8)


def relative_error(found, wanted) -> float:
  assert found.shape == wanted.shape
  return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def config_of(path) -> dict:
  return json.loads((path / "config.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_for_timm_computes_the_same(tmp_path, name):
  network, params, images = made(name)
  wanted = networks.apply(network, params, images)
  for path in (tmp_path / "directory", tmp_path / "file.safetensors"):
    form = "timm" if path.suffix == "" else None
    vit_jax.save(str(path), network, params, form=form)
    found = networks.apply(*vit_jax.load(str(path)), images)
    assert relative_error(found, wanted) < 1e-5


@pytest.mark.parametrize("name", ["cls", "gap", "map", "registers", "eva02"])
def test_networks_of_timms_own_parts_come_back_as_they_were(tmp_path, name):
  kind, keys = CASES[name]
  keys = keys | {"key_bias": name != "eva02"}
  keys |= {"cls_position": False} if name == "registers" else {}
  network = getattr(networks, kind)(**keys)
  params = networks.random_params(network)
  vit_jax.save(str(tmp_path / "out"), network, params, form="timm")
  again, loaded = vit_jax.load(str(tmp_path / "out"))
  changes = {"layer_scale": network.layer_scale, "gelu": network.gelu}
  assert again.clone(**changes) == network
  jax.tree.map(np.testing.assert_array_equal, loaded, params)


def test_the_config_has_what_timm_and_transformers_ask_for(tmp_path):
  network, params, _ = made("gap")
  names = ["ant", "bee", "cat", "dog", "eel"]
  path = tmp_path / "out"
  vit_jax.save(str(path), network, params, form="timm", class_names=names)
  config = config_of(path)
  assert config["architecture"] == "vit_base_patch16_224"
  assert config["label_names"] == names
  assert (config["num_classes"], config["num_features"]) == (5, 16)
  assert config["global_pool"] == config["model_args"]["global_pool"] == "avg"
  # create_model is given the number of classes besides, and drops null.
  assert "num_classes" not in config["model_args"]
  assert None not in config["model_args"].values()
  settings = config["pretrained_cfg"]
  assert settings["input_size"] == [3, 8, 8]
  assert settings["mean"] == settings["std"] == [0.5, 0.5, 0.5]
  assert settings["first_conv"] == "patch_embed.proj"
  assert settings["classifier"] == "head"
  assert files.read(str(path)).class_names == tuple(names)


@pytest.mark.parametrize("variant", ["atto", "femto", "pico", "nano", "T"])
def test_convnexts_are_said_to_have_dense_layers(variant):
  model = named_sections.section(
    "model", name="convnext", version=2, variant=variant, image_size=32
  )
  # In timm the small ones have convolutions, of weights of another shape.
  assert timm_write.check(model).arguments["conv_mlp"] is False


def test_classes_without_names_are_numbered(tmp_path):
  network, params, _ = made("gap")
  vit_jax.save(str(tmp_path / "out"), network, params, form="timm")
  labels = config_of(tmp_path / "out")["label_names"]
  assert labels == [f"LABEL_{number}" for number in range(5)]
  assert files.read(str(tmp_path / "out")).class_names is None


def test_a_file_tells_its_config_whatever_lies_beside_it(tmp_path):
  network, params, _ = made("cls")
  vit_jax.save(str(tmp_path / "x.safetensors"), network, params)
  (tmp_path / "config.json").write_text('{"model_type": "t5"}')
  weights = files.read(str(tmp_path / "x.safetensors"))
  assert sizes.vit(weights.model).num_heads == 2
  assert weights.assumed == ()


@pytest.mark.parametrize(
  ("kind", "keys", "words"),
  [
    ("tiny", {"representation_size": 8}, "model.representation_size=8"),
    ("tiny", {"layer_norm_eps": 1e-12}, "model.layer_norm_eps=1e-12"),
    ("tiny", {"pos_embedding": "relative"}, "model.pos_embedding='relative'"),
    (
      "tiny",
      {"pos_embedding_at": "every_layer"},
      "model.pos_embedding_at='every_layer'",
    ),
    (
      "tiny",
      {"mlp": "swiglu", "layer_norm_eps": 1e-5},
      "model.mlp='swiglu' together with model.layer_norm_eps=1e-05",
    ),
    (
      "tiny",
      {"distillation": "average", "registers": 3},
      "model.registers=3 with model.distillation='average'",
    ),
    ("tiny", {"pool": "map", "mlp": "swiglu"}, "model.mlp='swiglu'"),
    ("tiny", {"pool": "cls_gap"}, "model.pool='cls_gap'"),
    ("tiny", BEIT | {"pool": "cls_gap"}, "model.pool='cls_gap'"),
    ("tiny", VIT | {"rope": True}, "model.key_bias=True with model.rope=True"),
    ("tiny", DINOV3 | {"layer_scale": None}, "model.layer_scale=None"),
    ("tiny", DINOV3 | {"layer_norm_eps": 1e-6}, "model.layer_norm_eps=1e-06"),
    ("tiny", BEIT | {"gelu": "tanh"}, "model.gelu='tanh'"),
    ("tiny_hybrid", {}, "model.stem_blocks=\\(1, 1\\)"),
    ("tiny_resnet", {}, "model.blocks=\\(1, 2\\)"),
    ("tiny_convnext", {}, "model.depths=\\(1, 2\\)"),
    ("tiny_convnext", STAGES4 | {"stem_stride": 2}, "model.stem_stride=2"),
    ("tiny_convnext", STAGES4 | {"stem_stride": 8}, "model.stem_stride=8"),
    ("tiny_pvt", {"map_norm_eps": 1e-6}, "model.map_norm_eps=1e-06"),
  ],
)
def test_what_timm_cannot_hold_is_named(tmp_path, kind, keys, words):
  network = getattr(networks, kind)(**keys)
  params = networks.random_params(network)
  for name, form in (("out", "timm"), ("out.safetensors", None)):
    with pytest.raises(UserError, match=f"timm's .* cannot have {words}"):
      vit_jax.save(str(tmp_path / name), network, params, form=form)
  assert not list(tmp_path.iterdir())


# Keys with which transformers has these networks as well.
OF_STAGES = {
  "swin": {},
  "swin_v2": {},
  "convnext": {},
  "convnext_v2": {"layer_norm_eps": 1e-6},
  "pvt": {"map_norm_eps": 1e-6},
  "pvt_linear": {"map_norm_eps": 1e-6},
}


@pytest.mark.parametrize("num_classes", [networks.NUM_CLASSES, None])
@pytest.mark.parametrize("form", ["timm", "huggingface"])
@pytest.mark.parametrize("name", OF_STAGES)
def test_networks_of_stages_come_back_bit_by_bit(
  tmp_path, name, form, num_classes
):
  """Without a head too, as after pre-training."""
  kind, keys = CASES[name]
  keys = keys | (OF_STAGES[name] if form == "huggingface" else {})
  network = getattr(networks, kind)(num_classes, **keys)
  params = networks.random_params(network)
  vit_jax.save(str(tmp_path / "out"), network, params, form=form)
  _, loaded = vit_jax.load(str(tmp_path / "out"))
  jax.tree.map(np.testing.assert_array_equal, loaded, params)
