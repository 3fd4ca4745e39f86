"""VQ-KD's tokens, beside the released code."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from tests.objectives.beit import released
from tests.objectives.beit import test_objective as objectives
from tests.weights import torch_zip
from vit_jax.errors import UserError
from vit_jax.objectives import build
from vit_jax.objectives.beit import kind, tokenizers
from vit_jax.weights import files

# Two heads of 64, as no tensor tells their number.
WIDTH, DEPTH, HEADS, CODES, SIZE = 128, 2, 2, 24, 8
SIDE = objectives.SIDE


@functools.cache
def published():
  """State dict as in vqkd_encoder_base_decoder_1x768x12_clip.pth."""
  rng = np.random.default_rng(3)
  draw = functools.partial(released.random_state, WIDTH, side=4)
  state = {f"encoder.{n}": x for n, x in draw(DEPTH).items()}
  state |= {f"decoder.{n}": x for n, x in draw(1, patch=1).items()}
  for part, outputs in (("encode", SIZE), ("decode", 16)):
    for layer, size in ((0, WIDTH), (2, outputs)):
      name = f"{part}_task_layer.{layer}"
      kernel = rng.standard_normal((size, WIDTH)) * 2 * WIDTH**-0.5
      state[f"{name}.weight"] = np.float32(kernel)
      state[f"{name}.bias"] = np.float32(0.1 * rng.standard_normal(size))
  # The released codes have length 1; with others, distances decide as well.
  codes = np.float32(0.4 * rng.standard_normal((CODES, SIZE)))
  return state | {
    "quantize.embedding.weight": codes,
    "quantize.embedding.embed_avg": codes,
    "quantize.embedding.cluster_size": np.zeros(CODES),
    "quantize.embedding.initted": np.ones(1),
    "quantize.cluster_size": np.zeros(CODES),
  }


def released_tokens(images):
  """`get_codebook_indices` of modeling_vqkd.py."""
  state = published()
  encoder = {
    name.removeprefix("encoder."): x
    for name, x in state.items()
    if name.startswith("encoder.")
  }
  x = released.patches(encoder, images / 127.5 - 1)
  x = released.with_class_token(encoder, x)
  for layer in range(DEPTH):
    x = released.block(encoder, f"blocks.{layer}", x, HEADS)
  x = released.layer_norm(encoder, "fc_norm", x[:, 1:])
  x = np.tanh(released.linear(state, "encode_task_layer.0", x))
  x = released.linear(state, "encode_task_layer.2", x)
  x = x / np.linalg.norm(x, axis=-1, keepdims=True)
  codes = state["quantize.embedding.weight"]
  distances = np.square(x[:, :, None] - codes).sum(axis=-1)
  return distances.argmin(axis=-1)


@pytest.fixture
def path(tmp_path):
  return torch_zip.save(tmp_path / "vqkd.pth", published(), epoch=99)


@pytest.mark.parametrize("normalize", ["imagenet", "minus_one_to_one"])
def test_tokens_are_those_of_the_released_code(path, normalize):
  settings = objectives.config(tokenizer=path, model={"normalize": normalize})
  objectives.check(settings)
  found = tokenizers.read(settings)
  images = objectives.images_of()
  wanted = released_tokens(images)
  assert found.num_tokens == CODES and len(np.unique(wanted)) > CODES / 2
  places = np.random.default_rng(0).permuted(
    np.tile(np.arange(16), (4, 1)), axis=1
  )[:, :7]
  tokens = found.tokens(
    found.constants.params, jnp.asarray(images), jnp.asarray(places)
  )
  np.testing.assert_array_equal(
    tokens, np.take_along_axis(wanted, places, axis=1)
  )


def test_a_run_learns_from_them(path):
  settings = objectives.config(tokenizer=path, tokens=CODES)
  objective, params, batch = objectives.started(settings)
  metrics = objectives.loss_of(objective, params, batch)
  np.testing.assert_allclose(metrics["loss"], np.log(CODES), rtol=0.02)
  with pytest.raises(UserError, match=f"tokens = 8192, but .* has {CODES}"):
    objectives.objective_of(objectives.config(tokenizer=path, tokens=8192))


def test_another_codebook_is_another_tokenizer(path, tmp_path):
  changed = dict(published())
  changed["quantize.embedding.weight"] = -changed["quantize.embedding.weight"]
  (tmp_path / "other").mkdir()
  other = torch_zip.save(tmp_path / "other" / "vqkd.pth", changed)
  first, second = (
    set(
      tokenizers.read(objectives.config(tokenizer=p)).constants.digests.items()
    )
    for p in (path, other)
  )
  digests = [{digest for _, digest in one} for one in (first, second)]
  # The encoders are equal, the codes are not.
  assert len(digests[0] & digests[1]) == 1 and len(digests[0] | digests[1]) == 3


def test_the_cost_is_that_of_encoder_layers_and_distances(path):
  found, plain = (
    build.forward_flops(objectives.config(tokenizer=one), num_classes=None)
    for one in (path, "mean_colour")
  )
  head = 2 * 32 * 6 * (CODES - 512)
  layer = 4 * 17 * WIDTH**2 + 2 * 17**2 * WIDTH + 2 * 17 * WIDTH * 32
  macs = 16 * 48 * WIDTH + DEPTH * layer
  macs += 6 * (WIDTH**2 + WIDTH * SIZE + SIZE * CODES)
  assert found - plain == head + 2 * macs // 3


def test_the_encoder_is_a_network_of_its_own(path):
  weights = files.read(path)
  assert weights.model.norm_after_pool and weights.model.pool == "gap"
  assert any("decoder" in note for note in weights.assumed)
  network, params = vit_jax.load(path)
  assert not network.key_bias and "quantizer" not in params
  _, params = vit_jax.load(path, pretraining=True)
  np.testing.assert_array_equal(
    params["codebook"], published()["quantize.embedding.weight"]
  )
  assert set(params["quantizer"]) == {"hidden", "code"}


@pytest.mark.parametrize("number", [0, np.nan, np.inf])
def test_a_codebook_without_codes_is_refused(tmp_path, number):
  codes = published()["quantize.embedding.weight"].copy()
  codes[slice(None) if number == 0 else 0] = number
  path = torch_zip.save(
    tmp_path / "vqkd.pth", {**published(), "quantize.embedding.weight": codes}
  )
  with pytest.raises(UserError, match="vqkd.pth.*codebook.*give a trained"):
    tokenizers.read(objectives.config(tokenizer=path))


@pytest.mark.parametrize(
  ("changes", "words"),
  [
    ({"encode_task_layer.2.weight": None}, ["encode_task_layer.2"]),
    (
      {"quantize.embedding.weight": np.zeros((CODES, 5))},
      ["(24, 5)", "'encode_task_layer.2.weight'", "(8, 128)", "(5, 128)"],
    ),
    (
      {"encode_task_layer.0.weight": np.zeros((WIDTH, 64))},
      ["'encode_task_layer.0.weight'", "(128, 64)", "(128, 128)"],
    ),
    (
      {"encode_task_layer.0.bias": np.zeros(64)},
      ["'encode_task_layer.0.bias'", "(64,)", "(128,)"],
    ),
    (
      {"encode_task_layer.2.bias": np.zeros(5)},
      ["'encode_task_layer.2.bias'", "(5,)", "(8,)"],
    ),
    ({"encoder.pos_embed": None}, ["'encoder.pos_embed'"]),
    ({"encoder.cls_token": None}, ["cls"]),
  ],
)
def test_an_incomplete_file_is_refused(tmp_path, changes, words):
  state = {**published(), **changes}
  state = {name: x for name, x in state.items() if x is not None}
  path = torch_zip.save(tmp_path / "vqkd.pth", state)
  with pytest.raises(UserError) as error:
    kind.check_files(objectives.config(tokenizer=path))
  for word in words:
    assert word in str(error.value)
