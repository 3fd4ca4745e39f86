"""Published CLIP and SigLIP give what transformers and timm make of them."""

import dataclasses
import json
import re
import shutil

import jax
import numpy as np
import pytest
from etils import epath
from safetensors.numpy import load_file, save_file

import vit_jax
from tests.models import networks
from tests.weights.published import (
  GOLDEN,
  expected,
  outputs,
  relative_error,
)
from vit_jax import convert
from vit_jax.config import named_sections
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.models.names import resolve as resolve_name
from vit_jax.models.text import sizes as text_sizes
from vit_jax.models.two_towers.shapes import image_tower
from vit_jax.models.vit import sizes as vit_sizes
from vit_jax.pretrained import inference, save
from vit_jax.weights import (
  archive,
  files,
  flat,
  image_processor,
  stacking,
  tensors,
)
from vit_jax.weights.spellings import huggingface, original, timm
from vit_jax.weights.spellings.two_towers import (
  open_clip_trunks,
  open_clip_write,
)

BOTH = ("huggingface_clip", "huggingface_siglip")
both = pytest.mark.parametrize("name", BOTH)


def change(directory, tower, **values):
  """Changes keys of a tower in config.json."""
  path = directory / "config.json"
  config = json.loads(path.read_text())
  config[tower] |= values
  path.write_text(json.dumps(config))


@both
def test_outputs_of_both_towers_are_those_of_the_reference(name):
  wanted = expected(name)
  network, params = vit_jax.load(str(GOLDEN / name))
  found = network.apply({"params": params}, wanted["images"], wanted["text"])
  for key in ("image_embedding", "text_embedding", "logits"):
    assert relative_error(found[key], wanted[key]) < 1e-5, key


@both
def test_larger_images_give_what_the_reference_gives(name):
  wanted = expected(name)
  network, params = vit_jax.load(str(GOLDEN / name), image_size=24)
  found = network.apply({"params": params}, wanted["images_24"])
  error = relative_error(found["image_embedding"], wanted["image_embedding_24"])
  assert error < 1e-5


def test_what_tensors_do_not_tell_is_read_from_the_config():
  clip, siglip = (files.read(str(GOLDEN / name)).model for name in BOTH)
  assert (clip.normalize, siglip.normalize) == ("clip", "minus_one_to_one")
  assert (clip.image.pool, siglip.image.pool) == ("cls", "map")
  assert (clip.image.gelu, siglip.image.gelu) == ("quick", "tanh")
  assert (clip.text.causal, siglip.text.causal) == (True, False)
  assert (clip.text.pool, siglip.text.pool) == ("eot", "last")
  assert (clip.text.eot_token, clip.text.length) == (59, 8)
  assert (clip.embedding_size, siglip.embedding_size) == (12, 24)
  assert clip.bias_init is None and siglip.bias_init is not None


def test_the_second_config_of_an_old_file_overrides_the_first(copied):
  directory = copied("huggingface_clip")
  path = directory / "config.json"
  config = json.loads(path.read_text())
  for tower in ("vision", "text"):
    second = config[f"{tower}_config"] | {"hidden_act": "gelu"}
    del second["layer_norm_eps"]
    config[f"{tower}_config_dict"] = second
    config[f"{tower}_config"]["layer_norm_eps"] = 0.1
  path.write_text(json.dumps(config))
  model = files.read(str(directory)).model
  for tower in (model.image, model.text):
    # Defaults of CLIPVisionConfig and CLIPTextConfig override as well.
    assert (tower.gelu, tower.layer_norm_eps) == ("exact", 1e-5)


def test_the_id_of_old_files_stands_for_the_largest(copied):
  directory = copied("huggingface_clip")
  change(directory, "text_config", eos_token_id=2)
  assert files.read(str(directory)).model.text.eot_token is None


@both
def test_written_directories_are_those_of_transformers(tmp_path, name):
  wanted = huggingface.read(GOLDEN / name)
  network, params = vit_jax.load(str(GOLDEN / name))
  vit_jax.save(str(tmp_path / "out"), network, params)
  found = huggingface.read(tmp_path / "out")
  assert found.model == wanted.model
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)
  theirs = tensors.read(epath.Path(GOLDEN / name))
  ours = load_file(tmp_path / "out" / tensors.FILE)
  assert ours.keys() == theirs.keys()
  for key, tensor in theirs.items():
    np.testing.assert_array_equal(ours[key], tensor)
  config, original = (
    json.loads((directory / "config.json").read_text())
    for directory in (tmp_path / "out", GOLDEN / name)
  )
  for tower in ("vision_config", "text_config"):
    # transformers writes its default here, and reads the one above them.
    for key, value in config[tower].items() - {("projection_dim", 12)}:
      assert original[tower].get(key, value) == value, key
  assert original["architectures"] == config["architectures"]


@both
@pytest.mark.parametrize(
  "tower, values, words",
  [
    ("text_config", {"hidden_act": "relu"}, ["hidden_act", "relu", "gelu"]),
    ("vision_config", {"image_size": [16, 24]}, ["image_size", "square"]),
    ("vision_config", {"num_attention_heads": 5}, ["image", "query"]),
  ],
)
def test_a_config_of_another_network_is_refused(
  copied, name, tower, values, words
):
  directory = copied(name)
  change(directory, tower, **values)
  with pytest.raises(UserError) as caught:
    huggingface.read(directory)
  for word in words:
    assert word in str(caught.value)


@pytest.mark.parametrize(
  "missing", ["text_projection.weight", "vision_model.post_layernorm.bias"]
)
def test_a_file_without_a_part_is_refused_by_name(copied, missing):
  directory = copied("huggingface_clip")
  path = directory / tensors.FILE
  found = load_file(path)
  del found[missing]
  save_file(found, path)
  with pytest.raises(UserError, match=missing.rpartition(".")[0]):
    vit_jax.load(str(directory))


def test_what_transformers_lacks_is_named(tmp_path):
  network, params = vit_jax.create_model("SigLIP-Ti/16", image_size=32)
  network = network.clone(text=network.text.clone(pool="mean"))
  with pytest.raises(UserError, match="SigLIP cannot have model.text.pool"):
    vit_jax.save(str(tmp_path / "out"), network, params)
  assert not (tmp_path / "out").exists()


@both
@pytest.mark.parametrize("form", ["huggingface", "open_clip"])
@pytest.mark.parametrize(
  "keys, words",
  [
    ({"rope": True}, "model.image.rope=True"),
    ({"registers": 2}, "model.image.registers=2"),
    ({"mlp": "swiglu"}, "model.image.mlp='swiglu'"),
    ({"mlp_norm": True}, "model.image.mlp_norm=True"),
    ({"key_bias": False}, "model.image.key_bias=False"),
  ],
)
def test_parts_that_image_towers_of_clip_lack_are_named(
  tmp_path, name, form, keys, words
):
  weights = files.read(str(GOLDEN / name))
  image = weights.model.image.updated(**keys)
  model = weights.model.model_copy(update={"image": image})
  write = {"huggingface": huggingface, "open_clip": open_clip_write}[form].write
  with pytest.raises(UserError, match=words):
    write(tmp_path / "out", dataclasses.replace(weights, model=model))
  assert not list(tmp_path.iterdir())


def test_a_parameter_without_a_name_in_open_clip_is_never_written(tmp_path):
  weights = files.read(str(GOLDEN / "open_clip"))
  params = {**weights.params, "extra": {"scale": np.ones(3, np.float32)}}
  weights = dataclasses.replace(weights, params=params)
  with pytest.raises(UserError, match="no tensor for .*extra/scale"):
    open_clip_write.write(tmp_path / "out", weights)
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
  "name, form",
  [(name, "huggingface") for name in BOTH] + [("open_clip", "open_clip")],
)
def test_towers_of_scanned_layers_are_written_as_others_are(
  tmp_path, name, form
):
  network, params = vit_jax.load(str(GOLDEN / name))
  scanned = network.clone(
    image=network.image.clone(scan_layers=True),
    text=network.text.clone(scan_layers=True),
  )
  stacked_params = stacking.stack_layers(params)
  one, other, npz = (tmp_path / x for x in ("one", "other", "x.npz"))
  vit_jax.save(str(one), network, params, form=form)
  vit_jax.save(str(other), scanned, stacked_params, form=form)
  for path in one.iterdir():
    assert path.read_bytes() == (other / path.name).read_bytes()
  vit_jax.save(str(npz), scanned, stacked_params)
  again, loaded = vit_jax.load(str(npz))
  assert again == network
  jax.tree.map(np.testing.assert_array_equal, loaded, params)


BIG_VISION = (
  (r"^image/Transformer/posembed_input/pos_embedding$", "img/pos_embedding"),
  (r"^image/", "img/"),
  (r"^text/token_embedding/", "txt/Embed_0/"),
  (r"^text/Transformer/", "txt/Encoder_0/"),
  (r"^text_projection/", "txt/head/"),
  (r"^text/", "txt/"),
  (r"^logit_scale$", "t"),
  (r"^logit_bias$", "b"),
)


def big_visions(name):
  """The parameters of a fixture by big_vision's names."""
  leaves = flat.flatten(files.read(str(GOLDEN / name)).params)
  found = {}
  for path, leaf in leaves.items():
    for pattern, replacement in BIG_VISION:
      if re.search(pattern, path):
        path = re.sub(pattern, replacement, path)
        break
    found[path] = leaf.reshape(leaf.shape or (1,))
  return found


def stacked(params):
  """Layers of the text tower along a first axis, as its scan keeps them."""
  start = "txt/Encoder_0/encoderblock_"
  found = {k: x for k, x in params.items() if not k.startswith(start)}
  for path in params:
    if path.startswith(f"{start}0/"):
      rest = path.removeprefix(f"{start}0/")
      layers = [params[f"{start}{i}/{rest}"] for i in range(3)]
      found[f"txt/Encoder_0/encoderblock/{rest}"] = np.stack(layers)
  return found


@pytest.mark.parametrize("prefix", ["", "params/"])
@pytest.mark.parametrize("arranged", [dict, stacked])
def test_an_npz_of_big_vision_holds_both_towers(tmp_path, prefix, arranged):
  wanted = expected("huggingface_siglip")
  params = arranged(big_visions("huggingface_siglip"))
  path = str(tmp_path / "siglip.npz")
  np.savez(path, **{prefix + name: leaf for name, leaf in params.items()})
  network, params = vit_jax.load(path)
  found = network.apply({"params": params}, wanted["images"], wanted["text"])
  for key in ("image_embedding", "text_embedding", "logits"):
    assert relative_error(found[key], wanted[key]) < 1e-5, key


def test_a_file_of_big_vision_gives_what_its_network_gives():
  wanted = expected("big_vision_siglip")
  network, params = vit_jax.load(str(GOLDEN / "big_vision_siglip/towers.npz"))
  found = networks.apply(network, params, wanted["images"], wanted["text"])
  for key in ("image_embedding", "text_embedding", "logits"):
    assert relative_error(found[key], wanted[key]) < 1e-5, key


def test_the_image_tower_alone_is_a_vision_transformer(tmp_path):
  params = big_visions("huggingface_siglip")
  tower = {k: x for k, x in params.items() if k.startswith("img/")}
  path = str(tmp_path / "tower.npz")
  np.savez(path, **tower)
  network, params = vit_jax.load(path)
  wanted = expected("huggingface_siglip")
  found = np.array(network.apply({"params": params}, wanted["images"]))
  found /= np.linalg.norm(found, axis=-1, keepdims=True)
  assert relative_error(found, wanted["image_embedding"]) < 1e-5


@both
def test_an_npz_that_is_written_has_big_visions_names(tmp_path, name):
  wanted = expected(name)
  network, params = vit_jax.load(str(GOLDEN / name))
  path = str(tmp_path / "towers.npz")
  vit_jax.save(path, network, params)
  if name == "huggingface_siglip":
    with np.load(path) as arrays:
      assert set(arrays) == set(big_visions(name))
  again, params = vit_jax.load(path)
  assert again == network
  found = again.apply({"params": params}, wanted["images"], wanted["text"])
  assert relative_error(found["logits"], wanted["logits"]) < 1e-5


VIT = {"width": 16, "depth": 2, "num_heads": 2, "mlp_dim": 24}
SWIN = {"name": "swin", "depths": (1, 2), "num_heads": (1, 2), "width": 8}
SWIN |= {"patch_size": 2, "window_size": 2}
CONVNEXT = {"name": "convnext", "depths": (1, 2), "widths": (6, 8)}
PVT = {"name": "pvt", "depths": (1, 2), "widths": (4, 6), "num_heads": (1, 2)}
PVT |= {"reductions": (2, 1), "expansions": (3, 2)}
RESNET = {"name": "resnet", "width": 32, "blocks": (1, 1)}
IMAGE_TOWERS = {
  "rope": ("Ti/4", VIT | {"rope": True, "rope_grid": 14}),
  "rope of any grid": ("Ti/4", VIT | {"rope": True, "rope_grid": None}),
  "distillation": ("Ti/4", VIT | {"distillation": "token"}),
  "layer_scale": ("Ti/4", VIT | {"layer_scale": 0.1}),
  "Swin": ("T", SWIN),
  "Swin of a published size": ("T", {"name": "swin", "window_size": 2}),
  "Swin V2": ("S", SWIN | {"version": 2, "pretrained_window_sizes": (4, 2)}),
  "ConvNeXt": ("B", CONVNEXT | {"head_norm_eps": 1e-3}),
  "ConvNeXt V2": ("T", CONVNEXT | {"version": 2}),
  "PVT": ("b0", PVT | {"map_norm_eps": 1e-3}),
  "ResNet": ("R50x1", RESNET | {"standardization": "torch"}),
}


@pytest.mark.parametrize("kind", IMAGE_TOWERS)
def test_an_npz_keeps_all_keys_of_an_image_tower(tmp_path, kind):
  variant, image = IMAGE_TOWERS[kind]
  model = named_sections.section(
    "model",
    name="two_towers",
    variant=variant,
    image_size=64 if "published" in kind else 16,
    image=image,
    text=VIT | {"vocab_size": 9, "length": 4, "scan_layers": True},
    image_projection="linear",
    embedding_size=12,
  )
  network = build.create(model, num_classes=None)
  images = np.zeros((1, model.image_size, model.image_size, 3), np.uint8)
  shapes = jax.eval_shape(network.init, jax.random.key(0), images)["params"]
  rng = np.random.default_rng(0)
  params = jax.tree.map(
    lambda x: rng.normal(size=x.shape).astype(np.float32), shapes
  )
  path = str(tmp_path / "towers.npz")
  vit_jax.save(path, network, params)
  found = files.read(path)
  assert build.create(found.model, num_classes=None) == network.clone(
    text=network.text.clone(scan_layers=False)
  )
  assert not found.assumed
  wanted = stacking.unstack_layers(params)
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted)


def test_an_npz_of_a_swin_that_was_changed_by_hand_is_refused(tmp_path):
  path = tmp_path / "towers.npz"
  arrays = {"txt/head/kernel": np.zeros((2, 2), np.float32)}
  for image in ({"name": "swin", "pool": "map"}, {"name": "swan"}):
    model = {"name": "two_towers", "variant": "T", "image": image}
    comment = json.dumps({"vit_jax": {"model": model}}).encode()
    archive.write(epath.Path(path), arrays, comment)
    with pytest.raises(UserError, match="a model that this version does not"):
      files.read(str(path))


@pytest.mark.parametrize("file", ["", "open_clip_model.safetensors"])
def test_open_clips_networks_give_what_it_gives(file):
  wanted = expected("open_clip")
  path = GOLDEN / "open_clip" / file
  network, params = vit_jax.load(str(path))
  found = network.apply({"params": params}, wanted["images"], wanted["text"])
  for key in ("image_embedding", "text_embedding"):
    assert relative_error(found[key], wanted[key]) < 1e-5, key
  assert network.image.gelu == "quick"


def like_clipa(directory, **vision):
  """Makes a copy of open_clip's files one of CLIPA's form; its tensors."""
  path = directory / "open_clip_model.safetensors"
  tensors = load_file(path)
  kept = {n: x for n, x in tensors.items() if not n.startswith("visual.ln_pre")}
  save_file(kept, path)
  path = directory / "open_clip_config.json"
  config = json.loads(path.read_text())
  tanh = {"act_kwargs": {"approximate": "tanh"}}
  config["model_cfg"]["quick_gelu"] = False
  config["model_cfg"]["vision_cfg"] |= {"no_ln_pre": True, **tanh, **vision}
  config["model_cfg"]["text_cfg"] |= tanh
  path.write_text(json.dumps(config))
  return kept


@pytest.mark.parametrize("pool", ["tok", "avg"])
@pytest.mark.parametrize("norm_last", [False, True])
def test_open_clips_image_towers_pool_as_their_config_says(
  copied, tmp_path, pool, norm_last
):
  directory = copied("open_clip")
  tensors = like_clipa(directory, pool_type=pool, final_ln_after_pool=norm_last)
  network, params = vit_jax.load(str(directory))
  assert (network.image.gelu, network.text.gelu) == ("tanh", "tanh")
  assert not network.image.pre_norm
  images = expected("open_clip")["images"]
  tokens = network.image.clone(norm_after_pool=True).apply(
    {"params": params["image"]},
    images,
    method=lambda tower, x: tower.encode(tower.embed(x)),
  )
  # As `VisionTransformer._pool` of open_clip has it.
  x = np.asarray(tokens, np.float64)

  def norm(x):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(
      x.var(-1, keepdims=True) + 1e-5
    )
    return x * tensors["visual.ln_post.weight"] + tensors["visual.ln_post.bias"]

  def pooled(x):
    return x[:, 1:].mean(1) if pool == "avg" else x[:, 0]

  x = norm(pooled(x)) if norm_last else pooled(norm(x))
  x = x @ tensors["visual.proj"]
  x /= np.linalg.norm(x, axis=-1, keepdims=True)
  found = network.apply({"params": params}, images)["image_embedding"]
  assert relative_error(np.asarray(found), x) < 1e-5
  path = str(tmp_path / "towers.npz")
  vit_jax.save(path, network, params)
  assert vit_jax.load(path)[0] == network


@pytest.mark.parametrize("form", ["huggingface", "open_clip"])
def test_a_clip_that_averages_is_not_written_as_another(copied, form):
  directory = copied("open_clip")
  like_clipa(directory, pool_type="avg", final_ln_after_pool=True)
  network, params = vit_jax.load(str(directory))
  place = directory / "out"
  with pytest.raises(UserError, match="cannot have model.image.pool='gap'"):
    vit_jax.save(str(place), network, params, form=form)
  assert not place.exists()


def test_a_pooling_of_open_clip_that_is_none_of_ours_is_named(copied):
  directory = copied("open_clip")
  like_clipa(directory, pool_type="none")
  with pytest.raises(UserError, match='vision_cfg: pool_type = "none"'):
    vit_jax.load(str(directory))


# Width and heads in open_clip's ViT-B-16, ViT-L-14, ViT-H-14, ViT-g-14 and
# ViT-bigG-14.json: head_width is 64, 64, 80, 88 and 104.
@pytest.mark.parametrize(
  "width, num_heads",
  [(768, 12), (1024, 16), (1280, 16), (1408, 16), (1664, 16)],
)
def test_heads_without_a_config_are_those_of_published_towers(
  tmp_path, width, num_heads
):
  sizes = {24: width, 72: 3 * width, 96: 8}
  small = load_file(GOLDEN / "open_clip" / "open_clip_model.safetensors")
  found = {
    name: np.zeros([sizes.get(n, n) for n in x.shape], x.dtype)
    if name.startswith("visual.")
    else x
    for name, x in small.items()
    if "resblocks.1" not in name or not name.startswith("visual.")
  }
  path = tmp_path / "open_clip_model.safetensors"
  save_file(found, path)
  weights = original.read(path)
  assert vit_sizes.vit(image_tower(weights.model)).num_heads == num_heads
  assert f"model.image.num_heads={num_heads})" in " ".join(weights.assumed)
  # open_clip's own default, where a config says nothing.
  config = {"model_cfg": {"vision_cfg": {"width": width}}}
  (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
  weights = original.read(path)
  assert vit_sizes.vit(image_tower(weights.model)).num_heads == width // 64
  assert "num_heads" not in " ".join(weights.assumed)


def test_a_directory_of_open_clip_is_written_as_it_was_read(tmp_path):
  place = tmp_path / "clip"
  convert.convert(str(GOLDEN / "open_clip"), str(place), to="open_clip")
  theirs, ours = (
    load_file(folder / "open_clip_model.safetensors")
    for folder in (GOLDEN / "open_clip", place)
  )
  assert ours.keys() == theirs.keys()
  for name, tensor in theirs.items():
    np.testing.assert_array_equal(ours[name], tensor, err_msg=name)
  theirs, ours = (
    json.loads((folder / "open_clip_config.json").read_text())
    for folder in (GOLDEN / "open_clip", place)
  )
  for section in ("vision_cfg", "text_cfg"):
    wanted = theirs["model_cfg"].pop(section)
    found = ours["model_cfg"].pop(section)
    assert found.pop("mlp_ratio") == 4.0
    assert found == wanted
  assert ours["model_cfg"] == theirs["model_cfg"]
  assert ours["preprocess_cfg"]["mean"] == theirs["preprocess_cfg"]["mean"]
  assert ours["preprocess_cfg"]["std"] == theirs["preprocess_cfg"]["std"]


@pytest.mark.parametrize(
  ("preprocess", "interpolation", "mode", "notes"),
  [
    (None, "bicubic", "shortest", []),
    (
      "decode|resize_small(scale=1, method='bicubic', antialias=True)"
      "|central_crop",
      "bicubic",
      "shortest",
      ["rounded differently", "JPEG"],
    ),
    (
      "decode|resize_small(scale=1, method='bicubic', antialias=True,"
      " rounding='down')|central_crop(rounding='nearest')",
      "bicubic",
      "shortest",
      ["JPEG"],
    ),
    ("decode|resize(antialias=True)", "bilinear", "squash", ["JPEG"]),
    (
      "decode|resize_small(scale=1.25, method='bicubic', antialias=True)"
      "|central_crop",
      "bicubic",
      "shortest",
      ["rounded differently", "JPEG", "to 16 pixels there, not to 20"],
    ),
    (
      "decode|resize_small(scale=1)|central_crop",
      "bicubic",
      "shortest",
      ["rounded differently", "JPEG", "not by areas"],
    ),
    ("decode|central_crop", "bilinear", "squash", ["squares", "JPEG"]),
  ],
)
def test_open_clip_is_told_how_images_are_prepared(
  tmp_path, preprocess, interpolation, mode, notes
):
  weights = dataclasses.replace(
    files.read(str(GOLDEN / "open_clip")), preprocess=preprocess
  )
  place = tmp_path / "clip"
  found = save.write(str(place), weights, "open_clip")
  for note, words in zip(found, notes, strict=True):
    assert words in note
  told = json.loads((place / "open_clip_config.json").read_text())
  settings = told["preprocess_cfg"]
  assert settings["interpolation"] == interpolation
  assert settings["resize_mode"] == mode
  if preprocess is not None:
    assert inference.read(str(place)).weights.preprocess == preprocess


@pytest.mark.parametrize(
  ("golden", "words"),
  [
    ("huggingface_siglip", "timm has none of width 24"),
    ("huggingface_vit", "CLIPs and SigLIPs alone"),
  ],
)
def test_what_open_clip_has_no_form_for_is_refused(tmp_path, golden, words):
  place = tmp_path / "clip"
  with pytest.raises(UserError, match=words):
    convert.convert(str(GOLDEN / golden), str(place), to="open_clip")
  assert not place.exists()


def test_openais_program_is_read_as_data():
  wanted = expected("openai")
  path = str(GOLDEN / "openai" / "openai.pt")
  network, params = vit_jax.load(path)
  found = network.apply({"params": params}, wanted["images"], wanted["text"])
  for key in ("image_embedding", "text_embedding"):
    assert relative_error(found[key], wanted[key]) < 1e-5, key
  assert network.image.gelu == network.text.gelu == "quick"
  assert network.text.causal and network.text.pool == "eot"


def test_a_program_of_another_network_is_a_sentence():
  with pytest.raises(UserError, match=r"script\.pt"):
    vit_jax.load(str(GOLDEN / "torch_files" / "script.pt"))


OPEN_CLIP = (
  (r"^vision_model\.embeddings\.patch_embedding", "patch_embed.proj"),
  (r"^vision_model\.embeddings\.position_embedding\.weight", "pos_embed"),
  (
    r"^vision_model\.encoder\.layers\.(\d)\.self_attn\.out_",
    r"blocks.\1.attn.",
  ),
  (r"^vision_model\.encoder\.layers\.(\d)\.self_attn\.", r"blocks.\1.attn."),
  (r"^vision_model\.encoder\.layers\.(\d)\.layer_norm", r"blocks.\1.norm"),
  (r"^vision_model\.encoder\.layers\.", "blocks."),
  (r"^vision_model\.post_layernorm", "norm"),
  (r"^vision_model\.head\.probe", "attn_pool.latent"),
  (r"^vision_model\.head\.attention\.out_proj", "attn_pool.proj"),
  (r"^vision_model\.head\.attention\.in_proj_", "attn_pool.qkv."),
  (r"^vision_model\.head\.layernorm", "attn_pool.norm"),
  (r"^vision_model\.head\.", "attn_pool."),
)


def open_clips_siglip():
  """The fixture's tensors by open_clip's names.

  The image tower has timm's, the text tower CLIP's under `text.`.
  """
  theirs, found = load_file(GOLDEN / "huggingface_siglip" / tensors.FILE), {}
  for name, tensor in theirs.items():
    if name.startswith("vision_model."):
      for pattern, replacement in OPEN_CLIP:
        if re.search(pattern, name):
          name = re.sub(pattern, replacement, name)
          break
      found["visual.trunk." + name] = tensor
    else:
      name = name.replace(
        "text_model.embeddings.token_embedding", "token_embedding"
      )
      name = name.replace(
        "text_model.embeddings.position_embedding.weight",
        "positional_embedding",
      )
      name = name.replace(
        "text_model.encoder.layers.", "transformer.resblocks."
      )
      name = name.replace("text_model.final_layer_norm", "ln_final")
      name = name.replace("text_model.head", "text_projection")
      name = name.replace("layer_norm", "ln_").replace("self_attn.", "attn.")
      name = name.replace("mlp.fc1", "mlp.c_fc").replace(
        "mlp.fc2", "mlp.c_proj"
      )
      found[name if name.startswith("logit") else f"text.{name}"] = tensor
  found["visual.trunk.pos_embed"] = found["visual.trunk.pos_embed"][None]
  for name in [n for n in found if ".q_proj." in n]:
    parts = [found.pop(name.replace(".q_", f".{x}_")) for x in "qkv"]
    joined = np.concatenate(parts)
    if name.startswith("visual."):
      found[name.replace("q_proj", "qkv")] = joined
    else:
      found[name.replace("q_proj.", "in_proj_")] = joined
  for leaf in ("weight", "bias"):
    joined = found.pop(f"visual.trunk.attn_pool.qkv.{leaf}")
    query, *others = np.split(joined, 3)
    found[f"visual.trunk.attn_pool.q.{leaf}"] = query
    found[f"visual.trunk.attn_pool.kv.{leaf}"] = np.concatenate(others)
  for name in ("logit_scale", "logit_bias"):
    found[name] = found[name].reshape(())
  return found


def test_open_clips_siglip_is_read_by_its_names(tmp_path):
  config = {
    "model_cfg": {
      "vision_cfg": {
        "timm_model_name": "vit_so400m_patch16_siglip_256",
        "head_width": 8,
      },
      "text_cfg": {
        "heads": 2,
        "no_causal_mask": True,
        "pool_type": "last",
        "norm_kwargs": {"eps": 1e-6},
        "act_kwargs": {"approximate": "tanh"},
      },
    },
    "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3},
  }
  (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
  save_file(open_clips_siglip(), tmp_path / "open_clip_model.safetensors")
  wanted = expected("huggingface_siglip")
  network, params = vit_jax.load(str(tmp_path))
  ours = network.apply({"params": params}, wanted["images"], wanted["text"])
  # timm's name of a network says that its GELU is not exact.
  for key in ("image_embedding", "text_embedding", "logits"):
    assert relative_error(ours[key], wanted[key]) < 1e-5, key


def test_a_clip_that_does_not_tell_is_written_as_published_ones_are(
  tmp_path, copied
):
  directory = copied("huggingface_clip")
  (directory / "preprocessor_config.json").unlink(missing_ok=True)
  convert.convert(str(directory), str(tmp_path / "clip"), to="huggingface")
  told = json.loads((tmp_path / "clip/preprocessor_config.json").read_text())
  assert told["image_processor_type"] == "CLIPImageProcessor"
  assert told["resample"] == 3 and told["size"] == {"shortest_edge": 16}
  assert image_processor.OURS not in told


@pytest.fixture
def toy_trunk(monkeypatch):
  """An image tower of the fixture's size among timm's."""
  toy = open_clip_trunks.Trunk("toy", (24, 2, 3, 40), 4, (16, 32))
  trunks = (*open_clip_trunks.TRUNKS, toy)
  monkeypatch.setattr(open_clip_trunks, "TRUNKS", trunks)


def test_open_clips_siglip_is_written_by_its_names(tmp_path, toy_trunk):
  place = tmp_path / "siglip"
  golden = str(GOLDEN / "huggingface_siglip")
  convert.convert(golden, str(place), to="open_clip")
  wanted = open_clips_siglip()
  found = load_file(place / "open_clip_model.safetensors")
  assert found.keys() == wanted.keys()
  for name, tensor in wanted.items():
    np.testing.assert_array_equal(found[name], tensor, err_msg=name)


def test_open_clips_siglip_is_described_as_its_configs_do(tmp_path, toy_trunk):
  """Keys and values are those of open_clip's ViT-B-16-SigLIP2.json."""
  place = tmp_path / "siglip"
  golden = str(GOLDEN / "huggingface_siglip")
  convert.convert(golden, str(place), to="open_clip")
  config = json.loads((place / "open_clip_config.json").read_text())
  assert config["preprocess_cfg"] == {
    "mean": [0.5, 0.5, 0.5],
    "std": [0.5, 0.5, 0.5],
    "interpolation": "bicubic",
    "resize_mode": "squash",
  }
  model = config["model_cfg"]
  assert model.pop("init_logit_scale") == pytest.approx(np.log(10))
  assert model.pop("quick_gelu") is False
  tokenizer = model["text_cfg"].pop("hf_tokenizer_name")
  assert tokenizer  # An empty one would be CLIP's.
  assert model == {
    "embed_dim": 24,
    "init_logit_bias": -10,
    "custom_text": True,
    "vision_cfg": {
      "image_size": 16,
      "timm_model_name": "vit_toy_patch4_siglip_16",
      "timm_model_pretrained": False,
      "timm_pool": "map",
      "timm_proj": "none",
    },
    "text_cfg": {
      "context_length": 8,
      "vocab_size": 60,
      "tokenizer_kwargs": {"clean": "canonicalize"},
      "width": 16,
      "heads": 2,
      "layers": 3,
      "mlp_ratio": 2.25,
      "no_causal_mask": True,
      "proj_bias": True,
      "pool_type": "last",
      "norm_kwargs": {"eps": 1e-6},
      "act_kwargs": {"approximate": "tanh"},
    },
  }


def test_a_gelu_that_timms_tower_lacks_is_said(tmp_path, toy_trunk, caplog):
  golden = str(GOLDEN / "huggingface_siglip")
  convert.convert(golden, str(tmp_path / "siglip"), to="open_clip")
  (line,) = caplog.messages
  assert "vit_toy_patch4_siglip_16 has the exact GELU" in line
  assert "model.image.gelu is 'tanh'" in line


# timm 1.0.31 has these: name, image size, form of the GELU.
@pytest.mark.parametrize(
  ("name", "image_size", "trunk", "gelu"),
  [
    ("SigLIP-B/16", 224, "vit_base_patch16_siglip_224", "exact"),
    ("SigLIP-B/32", 256, "vit_base_patch32_siglip_256", "tanh"),
    ("SigLIP-L/16", 384, "vit_large_patch16_siglip_384", "exact"),
    ("SigLIP-L/16", 512, "vit_large_patch16_siglip_512", "tanh"),
    ("SigLIP-So400m/14", 224, "vit_so400m_patch14_siglip_224", "exact"),
    ("SigLIP-So400m/16", 256, "vit_so400m_patch16_siglip_256", "tanh"),
  ],
)
def test_published_siglips_have_timms_image_towers(
  name, image_size, trunk, gelu
):
  model = resolve_name(name).updated(image_size=image_size)
  assert open_clip_trunks.find(model) == trunk
  assert open_clip_trunks.gelu(trunk) == gelu


@pytest.mark.parametrize(
  ("name", "keys", "words"),
  [
    ("SigLIP-L/16", {"image_size": 224}, r"image_size=224.*256, 384, 512"),
    ("SigLIP-B/16", {"gelu": "quick"}, "gelu='quick'"),
    ("SigLIP-B/16", {"layer_norm_eps": 1e-5}, "layer_norm_eps=1e-05"),
    (
      "SigLIP-B/8",
      {},
      "timm has none of width 768, 12 layers and patches of 8",
    ),
  ],
)
def test_an_image_tower_that_timm_lacks_is_named(name, keys, words):
  with pytest.raises(UserError, match=words):
    open_clip_trunks.find(
      resolve_name(name).updated(**{"image_size": 224, **keys})
    )


def test_heads_are_those_of_the_image_tower_that_is_named(tmp_path):
  save_file(open_clips_siglip(), tmp_path / "open_clip_model.safetensors")
  vision = {"timm_model_name": "vit_giantopt_patch16_siglip_256"}
  config = {"model_cfg": {"vision_cfg": vision}}
  (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
  with pytest.raises(UserError, match="16 heads do not divide the width of 24"):
    vit_jax.load(str(tmp_path))


def test_an_mlp_is_as_wide_as_its_ratio_says():
  for width, mlp_dim in ((1152, 4304), (88, 109), (104, 426)):
    size = text_sizes.Size(width, 1, 1, mlp_dim)
    # As open_clip's ResidualAttentionBlock does.
    assert int(width * open_clip_write.mlp_ratio(size)) == mlp_dim


def test_a_resnet_of_clip_is_refused(tmp_path):
  path = tmp_path / "open_clip_model.safetensors"
  found = load_file(GOLDEN / "open_clip" / path.name)
  found["visual.layer1.0.conv1.weight"] = np.zeros((1, 1, 1, 1), np.float32)
  save_file(found, path)
  shutil.copy(GOLDEN / "open_clip" / "open_clip_config.json", tmp_path)
  with pytest.raises(UserError, match="ResNet for its image tower"):
    vit_jax.load(str(tmp_path))


def test_timms_image_tower_is_a_network_with_a_head():
  wanted = expected("timm_clip")
  weights = timm.read(GOLDEN / "timm_clip")
  assert (weights.model.pre_norm, weights.model.patch_bias) == (True, False)
  assert weights.model.gelu == "quick"
  error = relative_error(outputs(weights, wanted["images"]), wanted["outputs"])
  assert error < 1e-5
