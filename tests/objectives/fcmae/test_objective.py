"""Fully convolutional masked autoencoders, arXiv 2301.00808, beside NumPy.

The oracle computes whole maps, and masks them as TRAINING.md of
facebookresearch/ConvNeXt-V2 does: before and after each depthwise convolution,
and where global response normalisation measures maps.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models import oracle
from vit_jax import rngs, trees
from vit_jax.config import named_sections, schema
from vit_jax.data import facts, features
from vit_jax.errors import UserError
from vit_jax.objectives import build, masked_autoencoders
from vit_jax.objectives.fcmae import kind

RNGS = functools.partial(rngs.stream, 0, step=5)
GRID, SIDE = 4, 8
VISIBLE = np.array([[6, 1, 12, 11, 5, 0], [3, 15, 2, 8, 10, 9]])


def config(model=None, **objective):
  """A ConvNeXt V2 of 4 x 4 patches of 8 px, of which 6 are visible."""
  return schema.Config(
    total_steps=10,
    model=named_sections.section(
      "model",
      **{
        **dict(name="convnext", variant="T", version=2, image_size=32),
        **dict(depths=(1, 1, 2), widths=(4, 6, 8), stem_stride=2),
        **dict(normalize="imagenet"),
        **(model or {}),
      },
    ),
    train=schema.Train(batch_size=2, preprocess="decode|resize|keep('image')"),
    objective=named_sections.section(
      "objective", **{**dict(name="fcmae", decoder_width=5), **objective}
    ),
  )


def objective_of(config):
  found = facts.declare(config, num_classes=5, num_examples=None)
  return build.build(config, found, 10)


def params_of(config):
  """Parameters none of which is zero."""
  params, _ = jax.jit(objective_of(config).init)(jax.random.key(0))
  leaves, tree = jax.tree.flatten(params)
  rng = np.random.default_rng(0)
  return jax.tree.unflatten(
    tree,
    [jnp.asarray(leaf + rng.normal(0, 0.1, leaf.shape)) for leaf in leaves],
  )


def dense(x, params):
  return x @ params["kernel"] + params["bias"]


def patches(x, params, side):
  return oracle.convolution(x, params["kernel"], side, (0, 0)) + params["bias"]


def block(x, params, mask):
  """`mask` is 1 where a map is visible."""
  y = x * mask
  kernel = params["depthwise"]["kernel"]
  y = np.concatenate(
    [
      oracle.convolution(y[..., c : c + 1], kernel[..., c : c + 1], 1, (3, 3))
      for c in range(x.shape[-1])
    ],
    axis=-1,
  )
  y = (y + params["depthwise"]["bias"]) * mask
  y = oracle.gelu(
    dense(oracle.layer_norm(y, params["norm"]), params["expand"]), "exact"
  )
  if "grn" in params:
    norms = np.sqrt(np.square(y * mask).sum(axis=(1, 2), keepdims=True))
    strength = norms / (norms.mean(axis=3, keepdims=True) + 1e-6)
    y = params["grn"]["scale"] * y * strength + params["grn"]["bias"] + y
  return x + dense(y, params["project"]) * params.get("gamma", 1.0)


def predictions(images, params, visible):
  """Pixels of every patch, [b, n, pixels], in double precision."""
  params = oracle.float64(params)
  shown = np.zeros((len(images), GRID**2))
  np.put_along_axis(shown, visible, 1, axis=1)
  shown = shown.reshape(-1, GRID, GRID, 1)
  mean, deviation = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
  x = (images / 255 - mean) / deviation
  x = patches(x, params["stem"]["conv"], 2)
  x = oracle.layer_norm(x, params["stem"]["norm"])
  for stage in ("stage1", "stage2", "stage3"):
    down = params[stage].get("downsample")
    if down:
      x = patches(oracle.layer_norm(x, down["norm"]), down["conv"], 2)
    scale = x.shape[1] // GRID
    mask = shown.repeat(scale, axis=1).repeat(scale, axis=2)
    for name in sorted(set(params[stage]) - {"downsample"}):
      x = block(x, params[stage][name], mask)
  decoder = params["decoder"]
  x = dense(x, decoder["embedding"])
  x = x * shown + decoder["mask_token"] * (1 - shown)
  for name in sorted(name for name in decoder if name.startswith("block")):
    x = block(x, decoder[name], np.ones_like(shown))
  x = dense(x, decoder["prediction"])
  return x.reshape(len(images), GRID**2, -1)


def loss_of(images, predicted, visible):
  """The mean over hidden patches, one after the other."""
  mean, deviation = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
  pixels = (images / 255 - mean) / deviation
  errors = []
  for n, seen in enumerate(visible):
    for place in sorted(set(range(GRID**2)) - set(seen)):
      y, x = SIDE * (place // GRID), SIDE * (place % GRID)
      patch = pixels[n, y : y + SIDE, x : x + SIDE].reshape(-1)
      wanted = (patch - patch.mean()) / np.sqrt(patch.var(ddof=1) + 1e-6)
      errors.append(np.square(predicted[n, place] - wanted).mean())
  return np.mean(errors)


@pytest.fixture(scope="module")
def images():
  return np.random.default_rng(1).integers(0, 256, (2, 32, 32, 3), np.uint8)


@pytest.mark.parametrize(
  ("model", "decoder"),
  [
    ({}, {}),
    ({"version": 1}, {}),
    ({"remat": "dots"}, {"decoder_depth": 2}),
  ],
  ids=["V2", "V1", "remat"],
)
def test_the_loss_is_that_of_masked_maps(model, decoder, images):
  settings = config(model, **decoder)
  objective, params = objective_of(settings), params_of(settings)
  batch = {"image": jnp.asarray(images), "visible": jnp.asarray(VISIBLE)}
  loss = jax.jit(lambda p, b: objective.loss(p, {}, {}, b, RNGS, 0))
  found, (aux, metrics) = loss(params, batch)
  wanted = loss_of(images, predictions(images, params, VISIBLE), VISIBLE)
  np.testing.assert_allclose(found, wanted, rtol=1e-5)
  assert not aux and metrics["loss"] == found


def test_predictions_do_not_depend_on_hidden_patches(images):
  """A hidden pixel has the gradient of its own squared error, and no other."""
  settings = config(normalize_pixels=False)
  objective, params = objective_of(settings), params_of(settings)

  def loss(pixels):
    batch = {"image": pixels, "visible": jnp.asarray(VISIBLE)}
    return objective.loss(params, {}, {}, batch, RNGS, 0)[0]

  pixels = jnp.asarray(images / 255, jnp.float32)
  gradient = by_patch(np.asarray(jax.jit(jax.grad(loss))(pixels)))
  mean, deviation = np.array([0.485, 0.456, 0.406]), [0.229, 0.224, 0.225]
  shown = np.asarray(pixels) * deviation + mean  # Floats are normalised.
  predicted = predictions(shown * 255, params, VISIBLE)
  errors = by_patch(np.asarray(pixels)) - predicted
  hidden = np.ones((2, GRID**2), bool)
  np.put_along_axis(hidden, VISIBLE, False, axis=1)
  wanted = 2 * errors[hidden] / errors[hidden].size
  scale = np.abs(wanted).max()
  np.testing.assert_allclose(gradient[hidden], wanted, atol=1e-5 * scale)
  assert np.abs(gradient[~hidden]).max() > 0


def by_patch(images):
  """Pixels of every patch, row by row."""
  shape = (len(images), GRID, SIDE, GRID, SIDE, 3)
  cut = images.reshape(shape).transpose(0, 1, 3, 2, 4, 5)
  return cut.reshape(len(images), GRID**2, -1)


def test_blocks_are_skipped_in_training_alone(images):
  settings = config({"stochastic_depth_rate": 0.9})
  objective, params = objective_of(settings), params_of(settings)
  always = objective_of(config())
  batch = {"image": jnp.asarray(images), "visible": jnp.asarray(VISIBLE)}

  def loss(objective, step):
    keys = functools.partial(rngs.stream, 0, step=step)
    return float(objective.loss(params, {}, {}, batch, keys, 0)[0])

  losses = {loss(objective, step) for step in range(8)}
  assert len(losses - {loss(always, 0)}) > 1
  assert len({loss(always, step) for step in range(2)}) == 1
  batch["id"] = jnp.arange(2)
  found, wanted = (
    jax.jit(o.outputs)(params, batch)["reconstruction_loss"]
    for o in (objective, always)
  )
  np.testing.assert_array_equal(found, wanted)


def test_as_many_patches_are_visible_as_in_the_released_code():
  """models/fcmae.py: int(49 * 0.4)."""
  published = config(
    dict(variant="T", image_size=224, stem_stride=4, depths=None, widths=None)
  )
  assert masked_autoencoders.num_visible(published) == 19


def test_all_but_the_last_norm_is_trained(images):
  settings = config()
  objective, params = objective_of(settings), params_of(settings)
  batch = {"image": jnp.asarray(images), "visible": jnp.asarray(VISIBLE)}
  gradient = jax.jit(
    jax.grad(lambda p: objective.loss(p, {}, {}, batch, RNGS, 0)[0])
  )(params)
  still = {
    path
    for path, leaf in trees.named_leaves(gradient)
    if not np.abs(leaf).max()
  }
  assert still == {"norm/scale", "norm/bias"}


def test_the_decoder_starts_small():
  """Matrices and the token have a deviation of 0.02, as docs/mae.md says."""
  settings = config(decoder_width=256)
  params, _ = jax.jit(objective_of(settings).init)(jax.random.key(0))
  leaves = dict(trees.named_leaves(params["decoder"]))
  for path, leaf in leaves.items():
    name = path.rpartition("/")[2]
    if name in ("kernel", "mask_token"):
      # Six deviations of the estimate.
      error = 6 * 0.02 / np.sqrt(2 * leaf.size)
      assert abs(np.std(leaf) - 0.02) < error, path
      assert abs(np.mean(leaf)) < 6 * 0.02 / np.sqrt(leaf.size), path
    else:
      is_norm = path.endswith("norm/scale")
      np.testing.assert_array_equal(leaf, np.full(leaf.shape, float(is_norm)))
  assert {"mask_token", "prediction/kernel"} <= leaves.keys()


# models/fcmae.py, convnextv2_tiny: an encoder that timm has as a classifier,
# whose last norm ours has too.
def test_the_published_size_has_the_published_number_of_parameters():
  settings = schema.Config(
    total_steps=10,
    model=named_sections.section(
      "model", name="convnext", version=2, variant="T"
    ),
    objective=named_sections.section("objective", name="fcmae"),
  )
  params, _ = jax.eval_shape(objective_of(settings).init, jax.random.key(0))
  encoder = 28_635_496 - 1000 * 769
  width = 512
  block = 50 * width + 2 * width + 8 * width**2 + 5 * width + 8 * width
  decoder = 769 * width + width + block + (width + 1) * 3 * 32**2
  assert trees.num_elements(params) == encoder + decoder


def test_the_cost_is_that_of_visible_patches():
  settings = config()
  # Places of a patch at each stage, blocks, channels.
  stages = [(16, 1, 4), (4, 1, 6), (1, 2, 8)]
  patch = 16 * 2**2 * 3 * 4 + 4 * 4 * 4 * 6 + 4 * 6 * 8
  patch += sum(n * depth * (49 * c + 8 * c**2) for n, depth, c in stages)
  decoder = 6 * 8 * 5 + 16 * (49 * 5 + 8 * 5**2) + 16 * 5 * 3 * 8**2
  wanted = 2 * (6 * patch + decoder)
  assert build.forward_flops(settings, num_classes=None) == wanted


@pytest.mark.parametrize(
  ("depth", "words"), [(1, "1 block of width 5"), (2, "2 blocks of width 5")]
)
def test_the_task_is_described(depth, words):
  described = kind.KIND.describe(config(decoder_depth=depth))
  assert described["decoder"] == words
  assert described["objective"] == (
    "fully convolutional masked autoencoder, normalised pixels of 0.6 of the"
    " patches"
  )


def test_the_network_alone_is_exported():
  params = {"decoder": {}, "stage1": {}, "norm": 0}
  assert set(kind.KIND.exported(params, {})) == {"stage1", "norm"}


@pytest.mark.parametrize(
  ("model", "objective", "words"),
  [
    ({}, {"mask_ratio": 0.99}, ["mask_ratio = 0.99", "16 patches", "0.9375"]),
    ({}, {"mask_ratio": 0.0}, ["mask_ratio = 0", "16 patches", "0.0625"]),
    ({"image_size": 8}, {}, ["image_size = 8", "single patch", "use 16"]),
    (None, {}, ["model.name = 'vit'", '"fcmae"', '"mae"']),
  ],
)
def test_what_cannot_be_trained_is_refused(model, objective, words):
  settings = config(model, **objective)
  if model is None:
    vit = named_sections.section("model", variant="Ti/16")
    settings = settings.model_copy(update={"model": vit})
  with pytest.raises(UserError) as error:
    build.check(settings, features.check(settings))
  for word in words:
    assert word in str(error.value)
