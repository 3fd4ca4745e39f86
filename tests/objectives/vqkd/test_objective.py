"""VQ-KD, beside the released code in NumPy."""

import ast
import functools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from tests.models import networks
from tests.objectives.beit import released
from tests.objectives.beit import test_objective as beit
from tests.objectives.beit import test_vqkd as published_vqkd
from tests.weights import torch_zip
from vit_jax import rngs
from vit_jax.checkpoint.store import CheckpointStore
from vit_jax.config import named_sections, resolve, schema
from vit_jax.data import facts, features
from vit_jax.errors import UserError
from vit_jax.objectives import build
from vit_jax.objectives.beit import kind as beit_kind
from vit_jax.objectives.beit import tokenizers
from vit_jax.objectives.vqkd import kind
from vit_jax.pretrained import start

SIDE, BATCH = 16, 6  # 4 x 4 patches of 4 pixels.
WIDTH, HEADS, CODES, CODE = 32, 4, 12, 8
RNGS = functools.partial(rngs.stream, 0, step=0)
_DENSE = ("kernel", "bias")


def config(teacher="random", *, model=None, batch_size=BATCH, **objective):
  keys = dict(variant="Ti/4", width=WIDTH, depth=2, num_heads=HEADS)
  keys |= dict(mlp_dim=32, image_size=SIDE, pool="gap", cls_token=True)
  keys |= dict(key_bias=False, gelu="exact", normalize="minus_one_to_one")
  return schema.Config(
    total_steps=10,
    model=named_sections.section("model", **(keys | (model or {}))),
    train=schema.Train(
      batch_size=batch_size, preprocess="decode|resize|keep('image')"
    ),
    objective=named_sections.section(
      "objective",
      name="vqkd",
      teacher=teacher,
      **(dict(tokens=CODES, code_width=CODE, decoder_depth=1) | objective),
    ),
  )


def objective_of(config):
  found = facts.declare(config, num_classes=None, num_examples=None)
  return build.build(config, found, 10)


def check(config):
  build.check(config, features.check(config))


def images():
  rng = np.random.default_rng(0)
  return jnp.asarray(rng.integers(0, 256, (BATCH, SIDE, SIDE, 3), np.uint8))


@functools.cache
def started(**keys):
  objective = objective_of(config(**keys))
  params, state = jax.jit(objective.init)(jax.random.key(0))
  # Differences that are felt: those at the start are small.
  leaves, tree = jax.tree.flatten(params)
  rng = np.random.default_rng(1)
  leaves = [x + np.float32(0.1 * rng.standard_normal(x.shape)) for x in leaves]
  return objective, jax.tree.unflatten(tree, leaves), state


@jax.jit
def unit(x):
  return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def loss_of(objective, params, state):
  return jax.jit(
    lambda params, constants, state: objective.loss(
      params, constants, state, {"image": images()}, RNGS, 0
    )
  )(params, objective.constants.params, state)


def with_codes(seed=5):
  rows = np.random.default_rng(seed).standard_normal((CODES, CODE), np.float32)
  return {"codebook": unit(rows), "started": jnp.ones(())}


def released_state(params, prefix=""):
  """The released names of an encoder's or decoder's parameters."""
  layers = params["Transformer"]
  embedding = params["embedding"]
  found = {
    "cls_token": params["cls"],
    "pos_embed": layers["posembed_input"]["pos_embedding"],
    "patch_embed.proj.weight": embedding["kernel"].transpose(3, 2, 0, 1),
    "patch_embed.proj.bias": embedding["bias"],
    "fc_norm.weight": layers["encoder_norm"]["scale"],
    "fc_norm.bias": layers["encoder_norm"]["bias"],
  }
  for name, block in layers.items():
    if not name.startswith("encoderblock_"):
      continue
    attention = block["MultiHeadDotProductAttention_0"]
    mlp = block["MlpBlock_0"]
    parts = [
      attention[part]["kernel"].reshape(WIDTH, WIDTH).T
      for part in ("query", "key", "value")
    ]
    theirs = {
      "norm1.weight": block["LayerNorm_0"]["scale"],
      "norm1.bias": block["LayerNorm_0"]["bias"],
      "norm2.weight": block["LayerNorm_1"]["scale"],
      "norm2.bias": block["LayerNorm_1"]["bias"],
      "attn.qkv.weight": np.concatenate(parts),
      "attn.q_bias": attention["query"]["bias"].reshape(WIDTH),
      "attn.v_bias": attention["value"]["bias"].reshape(WIDTH),
      "attn.proj.weight": attention["out"]["kernel"].reshape(WIDTH, WIDTH).T,
      "attn.proj.bias": attention["out"]["bias"],
      "mlp.fc1.weight": mlp["Dense_0"]["kernel"].T,
      "mlp.fc1.bias": mlp["Dense_0"]["bias"],
      "mlp.fc2.weight": mlp["Dense_1"]["kernel"].T,
      "mlp.fc2.bias": mlp["Dense_1"]["bias"],
    }
    layer = name.removeprefix("encoderblock_")
    found |= {f"blocks.{layer}.{n}": x for n, x in theirs.items()}
  return {n: np.asarray(x, np.float64) for n, x in found.items()}


def encoded(state, pixels, depth):
  """VisionTransformer of modeling_finetune.py with `return_patch_tokens`."""
  x = released.with_class_token(state, released.patches(state, pixels))
  for layer in range(depth):
    x = released.block(state, f"blocks.{layer}", x, HEADS)
  return released.layer_norm(state, "fc_norm", x[:, 1:])


def dense(layer, x):
  return x @ np.float64(layer["kernel"]) + np.float64(layer["bias"])


def test_losses_are_those_of_the_released_code():
  objective, params, _ = started()
  state = with_codes()
  found, (aux, metrics) = loss_of(objective, params, state)
  x = encoded(released_state(params), np.asarray(images()) / 127.5 - 1, 2)
  quantizer, decoder = params["quantizer"], params["decoder"]
  x = dense(quantizer["code"], np.tanh(dense(quantizer["hidden"], x)))
  x = np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))
  codes = np.asarray(state["codebook"], np.float64)
  tokens = np.square(x[:, :, None] - codes).sum(axis=-1).argmin(axis=-1)
  chosen = codes[tokens]
  np.testing.assert_allclose(
    metrics["quantization_loss"], np.square(chosen - x).mean(), rtol=1e-5
  )
  maps = chosen.reshape(BATCH, 4, 4, CODE)
  theirs = released_state(decoder)
  predicted = released.with_class_token(
    theirs,
    maps.reshape(BATCH, 16, CODE)
    @ theirs["patch_embed.proj.weight"][:, :, 0, 0].T
    + theirs["patch_embed.proj.bias"],
  )
  predicted = released.block(theirs, "blocks.0", predicted, HEADS)
  predicted = released.layer_norm(theirs, "fc_norm", predicted[:, 1:])
  predicted = np.tanh(dense(decoder["hidden"], predicted))
  predicted = dense(decoder["prediction"], predicted)
  teacher = encoded(
    released_state(objective.constants.params),
    np.asarray(images()) / 127.5 - 1,
    2,
  )
  cosines = (predicted * teacher).sum(axis=-1)
  cosines /= np.linalg.norm(predicted, axis=-1)
  cosines /= np.linalg.norm(teacher, axis=-1)
  np.testing.assert_allclose(
    metrics["reconstruction_loss"], 1 - cosines.mean(), rtol=1e-5
  )
  np.testing.assert_allclose(
    found, metrics["quantization_loss"] + metrics["reconstruction_loss"]
  )
  counts = np.bincount(tokens.flat, minlength=CODES)
  np.testing.assert_allclose(metrics["codes_used"], (counts > 0).mean())
  np.testing.assert_allclose(aux["counts"] * BATCH, counts, rtol=1e-6)


def test_codes_follow_the_patches_of_a_step():
  objective, params, _ = started()
  state = with_codes()
  _, (aux, _) = loss_of(objective, params, state)
  found = objective.after_update(state, params, aux, 1)
  counts, sums = np.asarray(aux["counts"]), np.asarray(aux["sums"])
  codes = np.asarray(state["codebook"])
  for i in range(CODES):
    wanted = codes[i]
    if counts[i]:
      wanted = 0.99 * codes[i] + 0.01 * unit(sums[i])
    np.testing.assert_allclose(
      found["codebook"][i], unit(wanted), rtol=1e-5, atol=1e-6
    )


def test_the_first_step_finds_the_codes():
  objective, params, state = started()
  assert state["started"] == 0
  _, (aux, metrics) = loss_of(objective, params, state)
  # Centres of k-means are all used, unless two started at equal vectors.
  assert metrics["codes_used"] > 0.8
  after = objective.after_update(state, params, aux, 1)
  assert after["started"] == 1
  _, (again, _) = loss_of(objective, params, after)
  np.testing.assert_array_equal(again["codebook"], after["codebook"])


def test_gradients_pass_the_codes_to_the_encoder():
  objective, params, _ = started()
  constants, state = objective.constants.params, with_codes()

  def reconstruction(params):
    _, (_, metrics) = objective.loss(
      params, constants, state, {"image": images()}, RNGS, 0
    )
    return metrics["reconstruction_loss"]

  grads = jax.jit(jax.grad(reconstruction))(params)
  for name in ("embedding", "quantizer", "decoder"):
    assert all(np.any(x) for x in jax.tree.leaves(grads[name]))


def test_parameters_start_as_in_the_released_code():
  objective = objective_of(config(model={"width": 128, "mlp_dim": 128}))
  params, _ = jax.jit(objective.init)(jax.random.key(0))
  quantizer = params["quantizer"]
  np.testing.assert_allclose(
    np.std(quantizer["hidden"]["kernel"]), 0.02, rtol=0.05
  )
  for part, depth in ((params, 2), (params["decoder"], 1)):
    kernel = part["embedding"]["kernel"]
    bound = math.prod(kernel.shape[:3]) ** -0.5
    largest = np.abs(kernel).max()
    assert 0.97 * bound < largest <= bound * (1 + 1e-6)
    np.testing.assert_allclose(np.std(part["cls"]), 0.02, rtol=0.25)
    for layer in range(depth):
      block = part["Transformer"][f"encoderblock_{layer}"]
      attention = block["MultiHeadDotProductAttention_0"]
      wanted = 0.02 / np.sqrt(2 * (layer + 1))
      for kernel in (
        attention["out"]["kernel"],
        block["MlpBlock_0"]["Dense_1"]["kernel"],
      ):
        np.testing.assert_allclose(np.std(kernel), wanted, rtol=0.05)
      np.testing.assert_allclose(
        np.std(attention["query"]["kernel"]), 0.02, rtol=0.05
      )


def test_its_cost_is_that_of_its_parts(tmp_path):
  """A teacher of width 24 and three layers, without a gradient."""
  path = str(tmp_path / "teacher.npz")
  model = networks.tiny(image_size=SIDE, width=24)
  vit_jax.save(path, model, networks.random_params(model))
  found = build.forward_flops(config(path), num_classes=None)

  def layers(depth, width, mlp):
    tokens = 17
    projections = 4 * tokens * width**2 + 2 * tokens**2 * width
    return depth * (projections + 2 * tokens * width * mlp)

  encoder = 16 * 48 * WIDTH + layers(2, WIDTH, 32)
  # No MLP of the class token in the last layer, which is not read.
  encoder -= 2 * WIDTH * 32
  dense = WIDTH**2 + WIDTH * CODE + CODE * WIDTH + WIDTH**2 + WIDTH * 24
  macs = encoder + layers(1, WIDTH, 32) + 16 * dense
  frozen = 16 * 48 * 24 + layers(3, 24, 24) + 16 * CODES * CODE
  assert found == 2 * macs + 2 * frozen // 3


def written(directory):
  """A run with parameters and codes that are those of `started`."""
  directory.mkdir()
  objective, params, _ = started()
  state = with_codes()
  store = CheckpointStore(directory, keep_last=1)
  saved = {"params": params, "ema_params": None, "objective_state": state}
  store.save(3, saved, {})
  store.close()
  (directory / "config.json").write_text(resolve.dump(config()))
  return objective, params, state


def test_its_run_is_a_tokenizer(tmp_path):
  """`get_codebook_indices` of modeling_vqkd.py."""
  objective, params, state = written(tmp_path / "run")
  settings = beit.config(
    tokenizer=str(tmp_path / "run"), model={"normalize": "imagenet"}
  )
  beit.check(settings)
  beit_kind.check_files(settings)
  found = tokenizers.read(settings)
  assert found.num_tokens == CODES
  # From the codes' use in a step of its own objective.
  _, (aux, _) = loss_of(objective, params, state)
  every = jnp.tile(jnp.arange(16), (BATCH, 1))
  tokens = found.tokens(found.constants.params, images(), every)
  np.testing.assert_allclose(
    np.bincount(np.asarray(tokens).flat, minlength=CODES),
    aux["counts"] * BATCH,
    atol=1e-4,
  )
  with pytest.raises(UserError, match=f"tokens = 7, but .* has {CODES}"):
    beit.objective_of(beit.config(tokenizer=str(tmp_path / "run"), tokens=7))


def test_its_cost_as_a_tokenizer_is_that_of_encoder_layers_and_distances(
  tmp_path,
):
  written(tmp_path / "run")
  found, plain = (
    build.forward_flops(beit.config(tokenizer=one), num_classes=None)
    for one in (str(tmp_path / "run"), "mean_colour")
  )
  layer = 4 * 17 * WIDTH**2 + 2 * 17**2 * WIDTH + 2 * 17 * WIDTH * 32
  macs = 16 * 48 * WIDTH + 2 * layer
  macs += 6 * (WIDTH**2 + WIDTH * CODE + CODE * CODES)
  head = 2 * 32 * 6 * (CODES - 512)
  assert found - plain == head + 2 * macs // 3


def test_a_run_gives_its_encoder(tmp_path):
  _, params, _ = written(tmp_path / "run")
  _, found = vit_jax.load(str(tmp_path / "run"))
  assert "quantizer" not in found and "decoder" not in found
  np.testing.assert_array_equal(found["cls"], params["cls"])
  _, found = vit_jax.load(str(tmp_path / "run"), pretraining=True)
  jax.tree.map(
    np.testing.assert_array_equal, found["decoder"], params["decoder"]
  )


def test_a_run_continues_with_the_codes_of_another(tmp_path):
  objective, params, state = written(tmp_path / "run")
  settings = config().model_copy(update={"init_from": str(tmp_path / "run")})
  shapes = jax.eval_shape(objective.init, jax.random.key(0))
  found = start.find(settings, *shapes)
  jax.tree.map(np.testing.assert_array_equal, found.exported.params, params)
  jax.tree.map(np.testing.assert_array_equal, found.state, state)


def test_another_number_of_codes_starts_from_the_first_batch(tmp_path):
  """Not from zeros, which are no centres of its patches."""
  written(tmp_path / "run")
  settings = config(tokens=7).model_copy(
    update={"init_from": str(tmp_path / "run")}
  )
  shapes = jax.eval_shape(objective_of(settings).init, jax.random.key(0))
  assert start.find(settings, *shapes).state == {}


@pytest.mark.parametrize("code_width", [CODE, 4])
def test_layers_that_a_file_lacks_are_initialised(tmp_path, code_width):
  """Of a network without them, and of a run with codes of another width."""
  _, params, _ = written(tmp_path / "run")
  path = tmp_path / "run"
  if code_width == CODE:
    path = tmp_path / "encoder.npz"
    network, encoder = vit_jax.load(str(tmp_path / "run"))
    vit_jax.save(str(path), network, encoder)
  settings = config(code_width=code_width).model_copy(
    update={"init_from": str(path)}
  )
  shapes = jax.eval_shape(objective_of(settings).init, jax.random.key(0))
  found = start.find(settings, *shapes)
  np.testing.assert_array_equal(found.exported.params["cls"], params["cls"])
  wanted = {f"quantizer/{n}/{x}" for n in ("hidden", "code") for x in _DENSE}
  assert wanted <= set(found.exported.fresh)
  assert found.state == {}


def test_few_used_codes_are_warned_of():
  settings = config(tokens=8192, batch_size=1024)
  assert kind.warning(settings, {"codes_used": 0.3}) is None
  assert "164 of the 8192 codes" in kind.warning(settings, {"codes_used": 0.02})
  # A batch of 96 patches cannot use more.
  small = config(tokens=8192)
  assert kind.warning(small, {"codes_used": 0.01}) is None


@pytest.mark.parametrize(
  ("model", "objective", "words"),
  [
    ({}, {"teacher": "nothing"}, ["nothing", "does not exist"]),
    ({"norm_after_pool": True}, {}, ["norm_after_pool", '"vqkd"']),
    ({"pool": "map"}, {}, ['pool = "map"', '"vqkd"']),
  ],
)
def test_what_cannot_be_trained_is_refused(model, objective, words):
  with pytest.raises(UserError) as error:
    check(config(model=model, **objective))
  for word in words:
    assert word in str(error.value)


def test_a_run_without_a_teacher_is_refused():
  check(config(None))
  with pytest.raises(UserError, match="teacher is not set"):
    objective_of(config(None))


def test_a_run_of_another_objective_is_no_tokenizer(tmp_path):
  path = tmp_path / "run"
  path.mkdir()
  settings = beit.config(tokenizer=str(path))
  with pytest.raises(UserError, match="tokenizer.*holds no checkpoint"):
    beit_kind.check_files(settings)
  path.rmdir()
  written(path)
  others = beit.config(tokenizer="mean_colour")
  (path / "config.json").write_text(resolve.dump(others))
  with pytest.raises(UserError, match="not trained by objective 'vqkd'"):
    beit_kind.check_files(settings)


def test_a_published_file_is_started_from_as_the_errors_say(tmp_path):
  path = torch_zip.save(tmp_path / "vqkd.pth", published_vqkd.published())
  model = {"width": 128, "num_heads": 2}
  with pytest.raises(UserError) as error:
    check(config(model={**model, "norm_after_pool": True}))
  advised = re.search(
    r'change=(\S+) --config.init_without="(.*)"\.$', str(error.value)
  )
  settings = config(model=model)
  settings = settings.model_copy(update={"init_from": path})
  params, _ = jax.eval_shape(objective_of(settings).init, jax.random.key(0))
  with pytest.raises(UserError, match="fc_norm.*name it in config.init_withou"):
    start.find(settings, params)
  settings = settings.model_copy(
    update={
      "allow_change": advised[1],
      "init_without": ast.literal_eval(advised[2]),
    }
  )
  found = start.find(settings, params).exported.params
  np.testing.assert_array_equal(
    found["cls"], published_vqkd.published()["encoder.cls_token"]
  )
