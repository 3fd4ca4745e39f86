"""DINOv3 in every form, against a forward pass by the authors' layout."""

import json

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy import special

import vit_jax
from tests.models import networks
from tests.weights import torch_zip
from tests.weights.published import outputs, relative_error
from tests.weights.spellings.test_timm_write import DINOV3
from vit_jax.config import pixels
from vit_jax.errors import UserError
from vit_jax.models.vit import sizes
from vit_jax.weights import files

WIDTH, HEADS, HIDDEN, DEPTH, PATCH, REGISTERS = 16, 2, 24, 2, 4, 4
SIZE = WIDTH // HEADS
PERIODS = 100 ** (np.arange(SIZE // 4) / (SIZE // 4))
IMAGES = np.random.default_rng(1).integers(0, 256, (2, 16, 24, 3), np.uint8)


def published(gated=False):
  """Random parameters by the authors' names."""
  rng = np.random.default_rng(0)

  def normal(*shape, around=0.0):
    return np.float32(around + rng.normal(size=shape) * 0.4)

  found = {
    "cls_token": normal(1, 1, WIDTH),
    "storage_tokens": normal(1, REGISTERS, WIDTH),
    "mask_token": normal(1, WIDTH),
    "patch_embed.proj.weight": normal(WIDTH, 3, PATCH, PATCH),
    "patch_embed.proj.bias": normal(WIDTH),
    # As their buffer is, in half precision.
    "rope_embed.periods": np.float32(PERIODS * (1 + 2**-9)),
    "norm.weight": normal(WIDTH, around=1),
    "norm.bias": normal(WIDTH),
  }
  mask = np.ones(3 * WIDTH, np.float32)
  mask[WIDTH : 2 * WIDTH] = 0
  for number in range(DEPTH):
    layer = {
      "attn.qkv.weight": normal(3 * WIDTH, WIDTH),
      # The middle third has no effect.
      "attn.qkv.bias": normal(3 * WIDTH),
      "attn.qkv.bias_mask": mask,
      "attn.proj.weight": normal(WIDTH, WIDTH),
      "attn.proj.bias": normal(WIDTH),
      "ls1.gamma": normal(WIDTH, around=1),
      "ls2.gamma": normal(WIDTH, around=1),
    }
    for norm in ("norm1", "norm2"):
      layer[f"{norm}.weight"] = normal(WIDTH, around=1)
      layer[f"{norm}.bias"] = normal(WIDTH)
    names = ("w1", "w2", "w3") if gated else ("fc1", "fc2")
    for name in names:
      shape = (WIDTH, HIDDEN) if name == names[-1] else (HIDDEN, WIDTH)
      layer[f"mlp.{name}.weight"] = normal(*shape)
      layer[f"mlp.{name}.bias"] = normal(shape[0])
    found |= {f"blocks.{number}.{name}": x for name, x in layer.items()}
  return found


def forward(tensors, images, base=100.0, pool="cls"):
  """The last norm's class token, in float64, or the mean of its patches."""
  p = {name: np.float64(x) for name, x in tensors.items()}
  mean, deviation = map(np.float64, pixels.NAMED["imagenet"])
  batch, height, width, _ = images.shape
  rows, columns = height // PATCH, width // PATCH
  cut = ((images / 255 - mean) / deviation).reshape(
    batch, rows, PATCH, columns, PATCH, 3
  )
  x = np.einsum("bricjk,dkij->brcd", cut, p["patch_embed.proj.weight"])
  x = (x + p["patch_embed.proj.bias"]).reshape(batch, -1, WIDTH)
  prefix = [p["cls_token"], p["storage_tokens"]]
  prefix = [np.broadcast_to(t, (batch, *t.shape[1:])) for t in prefix]
  x = np.concatenate([*prefix, x], axis=1)

  angles = np.zeros((1 + REGISTERS + rows * columns, SIZE // 2))
  for row in range(rows):
    for column in range(columns):
      places = (2 * (row + 0.5) / rows - 1, 2 * (column + 0.5) / columns - 1)
      angles[1 + REGISTERS + row * columns + column] = [
        2 * np.pi * place / base ** (i / (SIZE // 4))
        for place in places
        for i in range(SIZE // 4)
      ]

  def rotated(heads):  # [b, n, h, k], halves of k.
    first, second = np.split(heads, 2, axis=-1)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    return np.concatenate(
      [first * cos - second * sin, second * cos + first * sin], axis=-1
    )

  def norm(name, x):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    return x * p[f"{name}.weight"] + p[f"{name}.bias"]

  def dense(name, x):
    return x @ p[f"{name}.weight"].T + p.get(f"{name}.bias", 0)

  for number in range(DEPTH):
    at = f"blocks.{number}"
    qkv = norm(f"{at}.norm1", x) @ p[f"{at}.attn.qkv.weight"].T
    bias = p.get(f"{at}.attn.qkv.bias", 0)
    qkv = qkv + bias * p.get(f"{at}.attn.qkv.bias_mask", 1)
    query, key, value = (
      one.reshape(batch, -1, HEADS, SIZE) for one in np.split(qkv, 3, axis=-1)
    )
    scores = np.einsum("bqhk,bnhk->bhqn", rotated(query), rotated(key))
    weights = special.softmax(scores / np.sqrt(SIZE), axis=-1)
    y = np.einsum("bhqn,bnhk->bqhk", weights, value).reshape(x.shape)
    x = x + dense(f"{at}.attn.proj", y) * p[f"{at}.ls1.gamma"]
    y = norm(f"{at}.norm2", x)
    if f"{at}.mlp.w1.weight" in p:
      gate = dense(f"{at}.mlp.w1", y)
      y = gate * special.expit(gate) * dense(f"{at}.mlp.w2", y)
      y = dense(f"{at}.mlp.w3", y)
    else:
      y = dense(f"{at}.mlp.fc1", y)
      y = dense(f"{at}.mlp.fc2", y * special.ndtr(y))
    x = x + y * p[f"{at}.ls2.gamma"]
  x = norm("norm", x)
  return x[:, 0] if pool == "cls" else x[:, 1 + REGISTERS :].mean(axis=1)


def saved(path, tensors):
  return torch_zip.save(path / "dinov3.pth", tensors)


def spelled_for_hugging_face(path, tensors, **keys):
  found = {}
  for name, x in tensors.items():
    for old, new in (
      ("blocks.", "layer."),
      (".ls1.gamma", ".layer_scale1.lambda1"),
      (".ls2.gamma", ".layer_scale2.lambda1"),
      (".attn.proj.", ".attention.o_proj."),
      (".mlp.fc1.", ".mlp.up_proj."),
      (".mlp.fc2.", ".mlp.down_proj."),
      (".mlp.w1.", ".mlp.gate_proj."),
      (".mlp.w2.", ".mlp.up_proj."),
      (".mlp.w3.", ".mlp.down_proj."),
      ("cls_token", "embeddings.cls_token"),
      ("storage_tokens", "embeddings.register_tokens"),
      ("mask_token", "embeddings.mask_token"),
      ("patch_embed.proj.", "embeddings.patch_embeddings."),
    ):
      name = name.replace(old, new)
    if name == "embeddings.mask_token":
      x = x[None]
    if ".qkv." not in name and name != "rope_embed.periods":
      found[name] = x
    elif name.endswith((".weight", ".bias")):
      for part, one in zip("qkv", np.split(x, 3), strict=True):
        if (part, name[-4:]) != ("k", "bias"):
          new = name.replace(".attn.qkv.", f".attention.{part}_proj.")
          found[new] = one
  has_gate = "blocks.0.mlp.w1.weight" in tensors
  config = {
    "model_type": "dinov3_vit",
    "hidden_size": WIDTH,
    "intermediate_size": HIDDEN,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": HEADS,
    "num_register_tokens": REGISTERS,
    "patch_size": PATCH,
    "image_size": 16,
    "use_gated_mlp": has_gate,
    "hidden_act": "silu" if has_gate else "gelu",
    "layer_norm_eps": 1e-5,
    "rope_theta": 100.0,
    "query_bias": True,
    "key_bias": False,
    "value_bias": True,
    "pos_embed_rescale": 2.0,
  }
  return written(path / "huggingface", found, config | keys)


def spelled_for_timm(path, tensors, **arguments):
  found = {}
  for name, x in tensors.items():
    for old, new in (
      (".ls1.gamma", ".gamma_1"),
      (".ls2.gamma", ".gamma_2"),
      (".mlp.w1.", ".mlp.fc1_g."),
      (".mlp.w2.", ".mlp.fc1_x."),
      (".mlp.w3.", ".mlp.fc2."),
      ("storage_tokens", "reg_token"),
    ):
      name = name.replace(old, new)
    if name.endswith("qkv.bias"):
      query, _, value = np.split(x, 3)
      found[name.replace("qkv.", "q_")] = query
      found[name.replace("qkv.", "v_")] = value
    elif not name.endswith(("_mask", "periods", "mask_token")):
      found[name] = x
  config = {
    "architecture": "vit_small_patch16_dinov3_qkvb",
    "global_pool": "token",
    "model_args": {"num_heads": HEADS, **arguments},
    "pretrained_cfg": {
      "input_size": [3, 16, 16],
      "mean": [0.485, 0.456, 0.406],
      "std": [0.229, 0.224, 0.225],
    },
  }
  return written(path / "timm", found, config)


def written(path, tensors, config):
  path.mkdir()
  tensors = {name: np.ascontiguousarray(x) for name, x in tensors.items()}
  save_file(tensors, path / "model.safetensors")
  (path / "config.json").write_text(json.dumps(config))
  return str(path)


FORMS = {
  "authors": saved,
  "huggingface": spelled_for_hugging_face,
  "timm": spelled_for_timm,
}


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_files_of_every_form_compute_what_is_published(tmp_path, form, gated):
  tensors = published(gated)
  weights = files.read(FORMS[form](tmp_path, tensors))
  model = weights.model
  assert (model.rope, model.rope_base) == (True, 100)
  assert (model.rope_coordinates, model.pos_embedding) == ("unit", "none")
  assert (model.registers, model.key_bias, model.pool) == (4, False, "cls")
  assert model.mlp == ("swiglu" if gated else "gelu")
  assert sizes.vit(model).num_heads == HEADS
  for images in (IMAGES[:, :, :16], IMAGES, IMAGES[:, :8, :20]):
    wanted = forward(tensors, images)
    assert relative_error(outputs(weights, images), wanted) < 1e-5
  if form != "timm":
    mask_token = weights.beside["mask_token"]
    np.testing.assert_array_equal(mask_token[0], tensors["mask_token"])


def test_the_name_of_a_file_says_how_pixels_are_normalised(tmp_path):
  of_satellites = ((0.43, 0.411, 0.296), (0.213, 0.156, 0.143))
  usual = pixels.NAMED["imagenet"]
  for name, wanted in (("sat493m-ead", of_satellites), ("LVD1689M", usual)):
    path = tmp_path / f"dinov3_vitl16_pretrain_{name}.pth"
    weights = files.read(torch_zip.save(path, published()))
    assert pixels.parse(weights.model.normalize) == wanted
    assert not weights.assumed
  weights = files.read(saved(tmp_path, published()))
  assert weights.model.normalize == "imagenet"
  (note,) = weights.assumed
  assert "'imagenet'" in note and "'0.43,0.411,0.296/" in note


@pytest.mark.parametrize("form", FORMS)
def test_images_of_another_size_need_no_other_parameters(tmp_path, form):
  tensors = published()
  path = FORMS[form](tmp_path, tensors)
  _, params = vit_jax.load(path)
  network, others = vit_jax.load(path, image_size=28, num_classes=3)
  assert network.image_size == 28
  head = others.pop("head")
  assert not np.any(head["kernel"])
  jax.tree.map(np.testing.assert_array_equal, others, params)
  images = np.random.default_rng(2).integers(0, 256, (2, 28, 28, 3), np.uint8)
  bare = network.clone(num_classes=None)
  found = np.asarray(jax.jit(bare.apply)({"params": others}, images))
  assert relative_error(found, forward(tensors, images)) < 1e-5


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("form", ["huggingface", "timm"])
def test_tensors_are_written_as_they_were(tmp_path, form, gated):
  path = FORMS[form](tmp_path, published(gated))
  network, params = vit_jax.load(path)
  vit_jax.save(str(tmp_path / "out"), network, params, form=form)
  found = load_file(tmp_path / "out" / "model.safetensors")
  wanted = load_file(f"{path}/model.safetensors")
  if form == "timm":  # Biases of keys are in it, as zeros.
    found = {n: x for n, x in found.items() if not n.endswith(".k_bias")}
  if form == "huggingface":
    wanted["embeddings.mask_token"][:] = 0  # No part of the network.
  assert found.keys() == wanted.keys()
  for name, tensor in wanted.items():
    np.testing.assert_array_equal(found[name], tensor)
  again, same = vit_jax.load(str(tmp_path / "out"))
  assert again == network
  jax.tree.map(np.testing.assert_array_equal, same, params)


@pytest.mark.parametrize("form", ["npz", "timm", "huggingface"])
def test_another_base_is_kept(tmp_path, form):
  tensors = published()
  path = spelled_for_hugging_face(tmp_path, tensors, rope_theta=20.0)
  network, params = vit_jax.load(path)
  name = "out.npz" if form == "npz" else "out"
  keys = {} if form == "npz" else {"form": form}
  vit_jax.save(str(tmp_path / name), network, params, **keys)
  weights = files.read(str(tmp_path / name))
  assert weights.model.rope_base == 20
  wanted = forward(tensors, IMAGES, base=20.0)
  assert relative_error(outputs(weights, IMAGES), wanted) < 1e-5


def test_timm_averages_patches_unless_told(tmp_path):
  tensors = published()
  path = spelled_for_timm(tmp_path, tensors)
  config = json.loads((tmp_path / "timm" / "config.json").read_text())
  config["global_pool"] = "avg"
  (tmp_path / "timm" / "config.json").write_text(json.dumps(config))
  wanted = forward(tensors, IMAGES, pool="gap")
  assert relative_error(outputs(files.read(path), IMAGES), wanted) < 1e-5


def test_biases_of_keys_that_are_not_masked_are_kept(tmp_path):
  tensors = published()
  tensors = {n: x for n, x in tensors.items() if not n.endswith("_mask")}
  weights = files.read(saved(tmp_path, tensors))
  assert weights.model.key_bias
  wanted = forward(tensors, IMAGES)
  assert relative_error(outputs(weights, IMAGES), wanted) < 1e-5


def test_norms_of_crops_in_training_are_left_out(tmp_path):
  tensors = published()
  more = {
    f"local_cls_norm.{leaf}": np.ones(WIDTH) for leaf in ("weight", "bias")
  }
  (tmp_path / "more").mkdir()
  found = files.read(saved(tmp_path / "more", tensors | more)).params
  jax.tree.map(
    np.testing.assert_array_equal,
    found,
    files.read(saved(tmp_path, tensors)).params,
  )
  other = {"cls_norm.weight": np.ones(WIDTH)}
  with pytest.raises(UserError, match="norm of the class token alone"):
    files.read(saved(tmp_path, tensors | other))


@pytest.mark.parametrize("periods", [PERIODS * 1.02, 50 ** PERIODS[:1], []])
def test_other_periods_are_refused(tmp_path, periods):
  path = saved(tmp_path, published() | {"rope_embed.periods": periods})
  words = rf"periods' of shape \({len(periods)},\) holds other .* powers of 100"
  with pytest.raises(UserError, match=words):
    files.read(path)


@pytest.mark.parametrize(
  ("form", "keys", "words"),
  [
    ("timm", {"rope_rotate_half": False}, "rope_rotate_half = false is not"),
    ("timm", {"rope_type": "mixed"}, 'rope_type = "mixed" is not'),
    ("timm", {"use_rot_pos_emb": False}, "use_rot_pos_emb = false is not"),
    ("timm", {"rope_grid_offset": 1.0}, "rope_grid_offset"),
    ("huggingface", {"rope_theta": 0.0}, "rope_theta = 0.0 is not positive"),
    ("huggingface", {"hidden_act": "relu"}, 'hidden_act = "relu" is not'),
    ("huggingface", {"key_bias": True}, "key_bias = true is not False"),
  ],
)
def test_configs_of_other_networks_are_refused(tmp_path, form, keys, words):
  path = FORMS[form](tmp_path, published(gated=True), **keys)
  with pytest.raises(UserError, match=words):
    files.read(path)


def test_a_classifier_is_written_for_timm_alone(tmp_path):
  network = networks.tiny(**DINOV3)
  params = networks.random_params(network)
  words = "DINOv3 has no classifier.*timm"
  with pytest.raises(UserError, match=words):
    vit_jax.save(str(tmp_path / "a"), network, params, form="huggingface")
  vit_jax.save(str(tmp_path / "b"), network, params, form="timm")
  assert vit_jax.load(str(tmp_path / "b"))[0].rope_coordinates == "unit"


@pytest.mark.parametrize("keys", [{}, {"use_abs_pos_emb": False}])
def test_timms_files_without_an_architecture_are_refused(tmp_path, keys):
  """Their names are those of an EVA-02 without a table."""
  path = spelled_for_timm(tmp_path, published(), **keys)
  config = json.loads((tmp_path / "timm" / "config.json").read_text())
  del config["architecture"]
  (tmp_path / "timm" / "config.json").write_text(json.dumps(config))
  with pytest.raises(UserError, match="architecture, such as .*_dinov3_qkvb"):
    files.read(f"{path}/model.safetensors")
