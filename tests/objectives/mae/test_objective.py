"""Masked autoencoders, arXiv 2111.06377, beside Hugging Face's."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from tests.models import networks
from vit_jax import rngs, trees
from vit_jax.config import named_sections, schema
from vit_jax.data import facts, features
from vit_jax.errors import UserError
from vit_jax.objectives import build, mae
from vit_jax.objectives.mae import kind, prediction
from vit_jax.pretrained import reading
from vit_jax.weights import stacking, surgery

RNGS = functools.partial(rngs.stream, 0, step=5)


def config(model=None, **objective):
  """A ViT of 4 x 4 patches of 4 px, as that of Hugging Face's file."""
  return schema.Config(
    total_steps=10,
    model=named_sections.section(
      "model",
      **{
        **dict(variant="Ti/4", width=16, depth=2, num_heads=4, mlp_dim=32),
        **dict(image_size=16, gelu="exact", normalize="imagenet"),
        **(model or {}),
      },
    ),
    train=schema.Train(batch_size=3, preprocess="decode|resize|keep('image')"),
    objective=named_sections.section(
      "objective",
      **{
        **dict(name="mae", decoder_width=8, decoder_depth=2),
        **dict(decoder_num_heads=2),
        **objective,
      },
    ),
  )


def objective_of(config):
  found = facts.declare(config, num_classes=5, num_examples=None)
  return build.build(config, found, 10)


def check(config):
  build.check(config, features.check(config))


@pytest.mark.parametrize(
  ("depth", "words"), [(1, "1 layer of width 8"), (2, "2 layers of width 8")]
)
def test_the_decoder_is_described(depth, words):
  described = kind.describe(config(decoder_depth=depth))
  assert described["decoder"] == words


@pytest.fixture(scope="module")
def published(repo):
  """Hugging Face's masked autoencoder and what it makes of some images."""
  directory = repo / "tests" / "golden" / "mae_pretraining"
  weights = reading.read(str(directory))
  with np.load(directory / "expected.npz") as file:
    return weights, dict(file)


@pytest.fixture(scope="module", params=[False, True], ids=["loop", "scan"])
def fitted(request, published):
  """The file's parameters in our objective, by its own rule for init_from."""
  weights, _ = published
  settings = config(model={"scan_layers": request.param})
  objective = objective_of(settings)
  params, _ = jax.eval_shape(objective.init, jax.random.key(0))
  shapes = {path: leaf.shape for path, leaf in trees.named_leaves(params)}
  found = surgery.fit(weights, settings.model, shapes)
  assert not found.fresh and not found.dropped
  return settings, objective, found.params


def visible_by(noise):
  return jnp.asarray(np.argsort(noise, axis=1)[:, :4])


def test_the_loss_is_that_of_hugging_face(fitted, published):
  _, objective, params = fitted
  expected = published[1]
  batch = {
    "image": jnp.asarray(expected["images"]),
    "visible": visible_by(expected["noise"]),
  }
  loss = jax.jit(lambda p, b: objective.loss(p, {}, {}, b, RNGS, 0))
  found, (aux, metrics) = loss(params, batch)
  np.testing.assert_allclose(found, expected["loss"], rtol=1e-5)
  assert not aux and metrics["loss"] == found


def test_all_patches_are_predicted_as_by_hugging_face(fitted, published):
  settings, _, params = fitted
  expected = published[1]
  found = prediction.predict(
    prediction.encoder_of(settings),
    prediction.decoder_of(settings),
    params,
    jnp.asarray(expected["images"]),
    visible_by(expected["noise"]),
  )
  wanted = expected["predictions"]
  assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize(
  "model",
  [
    {},
    {"pos_embedding": "learned_2d", "pool": "gap"},
    {"stem_blocks": (1,), "variant": "Ti/16", "image_size": 64},
    {"dtype": "bfloat16", "registers": 2},
  ],
  ids=["plain", "without a class token", "stem", "bfloat16"],
)
@pytest.mark.parametrize("dtype", [jnp.uint8, jnp.float32])
def test_visible_patches_are_those_of_the_whole_image(model, dtype):
  encoder = prediction.encoder_of(config(model=model))
  side = encoder.image_size
  images = np.random.default_rng(0).integers(0, 256, (2, side, side, 3))
  images = jnp.asarray(images, dtype)
  params = jax.jit(encoder.init)(jax.random.key(0), images)["params"]
  # Biases start at zeros.
  params = jax.tree.map(lambda x: x + 0.1, params)
  visible = jnp.asarray([[3, 0, 9, 5], [15, 2, 7, 8]])

  def whole(module, images, visible):
    tokens = module.embed(images)
    count = module.num_prefix
    rows = jnp.take_along_axis(tokens[:, count:], visible[:, :, None], axis=1)
    return module.encode(jnp.concatenate([tokens[:, :count], rows], axis=1))

  def alone(module, images, visible):
    return prediction.visible_features(module, images, visible, False)

  found, wanted = (
    networks.apply(encoder, params, images, visible, method=method)
    for method in (alone, whole)
  )
  np.testing.assert_allclose(
    found.astype(jnp.float32), wanted.astype(jnp.float32), rtol=1e-5, atol=1e-5
  )


def test_hidden_patches_reach_the_loss_as_targets_alone():
  """The gradient of a prediction with respect to a hidden patch is zero."""
  settings = config()
  objective = objective_of(settings)
  params, _ = jax.jit(objective.init)(jax.random.key(0))
  visible = jnp.asarray([[0, 3, 5, 9]])

  def total(images):
    predicted = prediction.predict(
      prediction.encoder_of(settings),
      prediction.decoder_of(settings),
      params,
      images,
      visible,
    )
    return jnp.abs(predicted).sum()

  images = jax.random.normal(jax.random.key(1), (1, 16, 16, 3))
  gradient = np.asarray(jax.jit(jax.grad(total))(images))[0]
  by_patch = np.abs(gradient).reshape(4, 4, 4, 4, 3).sum(axis=(1, 3, 4))
  assert set(np.flatnonzero(by_patch.ravel())) == {0, 3, 5, 9}


def test_parameters_start_as_in_the_released_code():
  settings = config(model={"pos_embedding_init": "sincos2d"})
  params, _ = jax.jit(objective_of(settings).init)(jax.random.key(0))
  block = params["Transformer"]["encoderblock_0"]
  attention = block["MultiHeadDotProductAttention_0"]
  decoder = params["decoder"]["Transformer"]["encoderblock_1"]
  for kernel, bound in (
    # Linear(d, 3 d), by heads; Conv2d as Linear(p * p * 3, d).
    (attention["query"]["kernel"], np.sqrt(6 / (16 + 48))),
    (params["embedding"]["kernel"], np.sqrt(6 / (48 + 16))),
    (
      decoder["MultiHeadDotProductAttention_0"]["value"]["kernel"],
      np.sqrt(6 / (8 + 24)),
    ),
    (params["decoder"]["prediction"]["kernel"], np.sqrt(6 / (8 + 48))),
  ):
    assert 0.95 * bound < np.abs(kernel).max() <= bound
  assert 0 < np.std(params["cls"]) < 0.04
  assert 0 < np.std(params["decoder"]["mask_token"]) < 0.04


# models_mae.py's mae_vit_base_patch16_dec512d8b, without its fixed positions.
def test_the_published_size_has_the_published_number_of_parameters():
  settings = schema.Config(
    total_steps=10,
    model=named_sections.section("model", variant="B/16", pos_embedding="none"),
    objective=named_sections.section("objective", name="mae"),
  )
  objective = objective_of(settings)
  params, _ = jax.eval_shape(objective.init, jax.random.key(0))
  positions = 197 * 768 + 197 * 512
  assert trees.num_elements(params) + positions == 111_907_840


def test_the_encoders_cost_is_that_of_what_it_sees():
  settings = config()

  def blocks(tokens, width, mlp):
    macs = 4 * tokens * width**2 + 2 * tokens**2 * width
    return 2 * (macs + 2 * tokens * width * mlp)

  wanted = 2 * (
    4 * 48 * 16
    + blocks(5, 16, 32)
    + 5 * 16 * 8
    + blocks(17, 8, 32)
    + 16 * 8 * 48
  )
  assert build.forward_flops(settings, num_classes=None) == wanted


def test_the_network_alone_is_exported():
  params = {"decoder": {}, "Transformer": {}, "cls": 0}
  assert set(kind.KIND.exported(params, {})) == {"Transformer", "cls"}


@pytest.mark.parametrize(
  ("model", "objective", "words"),
  [
    ({}, {"mask_ratio": 0.99}, ["mask_ratio = 0.99", "16 patches", "0.9375"]),
    ({}, {"mask_ratio": 0.0}, ["mask_ratio = 0", "16 patches", "0.0625"]),
    ({"image_size": 4}, {}, ["image_size = 4", "single patch", "use 8"]),
    ({}, {"decoder_width": 18}, ["decoder_width = 18", "multiple of 4"]),
    ({"norm_after_pool": True}, {}, ["norm_after_pool", "fine-tuning"]),
    ({"pool": "map"}, {}, ['pool = "map"', '"mae"']),
    ({"pos_embedding": "relative"}, {}, ["'relative'", "'learned_1d'"]),
    ({"rope": True}, {}, ["model.rope = True", '"mae"']),
    ({"weight_init": "deit"}, {}, ["weight_init = 'deit'", '"mae"']),
    (
      {"name": "resnet", "variant": "R50x1"},
      {},
      ["model.name = 'resnet'", '"mae"'],
    ),
    (
      {"name": "convnext", "variant": "T"},
      {},
      ['model.name = "convnext"', '"mae"', '"fcmae"'],
    ),
  ],
)
def test_what_cannot_be_trained_is_refused(model, objective, words):
  if "name" in model:
    settings = config(**objective).model_copy(
      update={"model": named_sections.section("model", **model)}
    )
  else:
    settings = config(model, **objective)
  with pytest.raises(UserError) as error:
    check(settings)
  for word in words:
    assert word in str(error.value)


@pytest.mark.parametrize("stacked", [False, True])
def test_published_files_reconstruct_images(repo, published, stacked):
  expected = published[1]
  path = str(repo / "tests" / "golden" / "mae_pretraining")
  model, params = vit_jax.load(path, pretraining=True)
  if stacked:
    params = {**params, "decoder": stacking.stack_layers(params["decoder"])}
  images = (expected["images"] / 255 - pixels("mean")) / pixels("std")
  loss, predicted, mask = mae.reconstruct(
    model, params, images.astype(np.float32), expected["noise"]
  )
  np.testing.assert_allclose(loss, expected["loss"], rtol=1e-5)
  wanted = expected["predictions"]
  assert np.abs(predicted - wanted).max() <= 1e-5 * np.abs(wanted).max()
  hidden = np.argsort(np.argsort(expected["noise"], axis=1), axis=1) >= 4
  np.testing.assert_array_equal(mask, hidden)


def pixels(which):
  """ImageNet's statistics."""
  values = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
  return np.array(values[which])


def test_an_encoder_alone_reconstructs_nothing(repo):
  path = str(repo / "tests" / "golden" / "mae_pretraining")
  model, params = vit_jax.load(path)
  images, noise = np.zeros((1, 16, 16, 3), np.float32), np.zeros((1, 16))
  with pytest.raises(UserError, match="pretraining=True"):
    mae.reconstruct(model, params, images, noise)


@pytest.mark.parametrize(
  ("images", "noise", "words"),
  [
    ((2, 8, 16, 3), (2, 16), r"images .*\(2, 8, 16, 3\).*image_size=SIDE"),
    ((2, 16, 16, 3), (2, 9), r"4 x 4 patches; .*\(2, 16\)"),
  ],
)
def test_shapes_that_do_not_fit_are_refused(repo, images, noise, words):
  path = str(repo / "tests" / "golden" / "mae_pretraining")
  model, params = vit_jax.load(path, pretraining=True)
  images, noise = np.zeros(images, np.float32), np.zeros(noise)
  with pytest.raises(UserError, match=words):
    mae.reconstruct(model, params, images, noise)
