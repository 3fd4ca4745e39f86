"""BEiT, arXiv 2106.08254, beside NumPy."""

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
from vit_jax.models import build as models_build
from vit_jax.models import features as models_features
from vit_jax.objectives import build, contract, masked_places
from vit_jax.objectives.beit import centres, kind, tokenizers

RNGS = functools.partial(rngs.stream, 0, step=5)
SIDE = 16  # 4 x 4 patches of 4 pixels.


def config(model=None, batch_size=4, **objective):
  return schema.Config(
    total_steps=10,
    model=named_sections.section(
      "model",
      **{
        **dict(variant="Ti/4", width=32, depth=2, num_heads=4, mlp_dim=64),
        **{"image_size": SIDE, **(model or {})},
      },
    ),
    train=schema.Train(
      batch_size=batch_size, preprocess="decode|resize|keep('image')"
    ),
    objective=named_sections.section(
      "objective",
      **{
        **dict(name="beit", tokenizer="mean_colour"),
        **dict(masked_patches=6, smallest_block=2),
        **objective,
      },
    ),
  )


def objective_of(config):
  found = facts.declare(config, num_classes=None, num_examples=None)
  return build.build(config, found, 10)


def check(config):
  build.check(config, features.check(config))


def images_of(count=4):
  return np.random.default_rng(0).integers(
    0, 256, (count, SIDE, SIDE, 3), np.uint8
  )


def mean_colours(images):
  """Three bits of the mean red, green and blue of 4 x 4 pixels."""
  sums = images.reshape(-1, 4, 4, 4, 4, 3).sum(axis=(2, 4), dtype=int)
  levels = (8 * sums) // (256 * 16)
  return (levels @ [64, 8, 1]).reshape(len(images), 16)


def started(settings):
  """Objective, random parameters and a prepared batch."""
  objective = objective_of(settings)
  params, _ = jax.jit(objective.init)(jax.random.key(0))
  batch = {"image": jnp.asarray(images_of(settings.train.batch_size))}
  return objective, params, jax.jit(lambda b: objective.prepare(b, RNGS))(batch)


def loss_of(objective, params, batch):
  constants = objective.constants.params
  with_key = jax.jit(lambda p, c, b: objective.loss(p, c, {}, b, RNGS, 0)[1][1])
  return with_key(params, constants, batch)


@pytest.mark.parametrize("scan", [False, True])
def test_the_loss_is_the_cross_entropy_of_the_masked_patches(scan):
  settings = config(model={"scan_layers": scan})
  objective, params, batch = started(settings)
  found = loss_of(objective, params, batch)
  mask = np.asarray(batch["mask"])
  assert 0 < mask.sum() < mask.size
  # The network on embeddings of which the masked ones are the mask token.
  network = models_build.create(settings.model, num_classes=None)

  def encoded(model):
    patches = model.embed_patches(jnp.asarray(images_of()))
    patches = jnp.where(mask[:, :, None], params["mask_token"], patches)
    return model.encode(model.add_prefix(patches))[:, 1:]

  patches = np.asarray(networks.apply(network, params, method=encoded))
  head = params["patch_head"]
  logits = patches[mask].astype(np.float64) @ np.asarray(head["kernel"])
  tokens = mean_colours(images_of())[mask]
  chances = np.exp(logits - logits.max(axis=1, keepdims=True))
  chances /= chances.sum(axis=1, keepdims=True)
  wanted = -np.log(chances[np.arange(len(tokens)), tokens]).mean()
  np.testing.assert_allclose(found["loss"], wanted, rtol=1e-5)
  right = (logits.argmax(axis=1) == tokens).mean()
  np.testing.assert_allclose(found["accuracy"], right, atol=1e-6)
  np.testing.assert_allclose(found["masked_share"], mask.mean(), rtol=1e-6)


def test_micro_batches_of_unequal_masks_add_up_to_the_batch():
  objective, params, batch = started(config())
  mask = np.arange(16)[None] < np.array([[1], [6], [3], [0]])
  places, weights = masked_places.find(jnp.asarray(mask), 6)
  np.testing.assert_array_equal(weights > 0, mask[:, :6])
  np.testing.assert_allclose(weights[1], 4 / 10)
  batch = {**batch, "mask": mask, "places": places, "weights": weights}
  parts = [
    loss_of(objective, params, jax.tree.map(lambda x, r=rows: x[r], batch))
    for rows in (slice(0, 2), slice(2, 4))
  ]
  whole = loss_of(objective, params, batch)
  for name in ("loss", "accuracy"):
    mean = (parts[0][name] + parts[1][name]) / 2
    np.testing.assert_allclose(mean, whole[name], rtol=1e-5)


def test_masks_have_the_same_number_of_patches_if_they_are_filled():
  found = {}
  for fill in (False, True):
    settings = config(batch_size=64, smallest_block=5, fill_masks=fill)
    _, _, batch = started(settings)
    found[fill] = np.asarray(batch["mask"])
    counts = found[fill].sum(axis=1)
    np.testing.assert_array_equal((batch["weights"] > 0).sum(axis=1), counts)
    assert (counts == 6).all() == fill
    assert ("at most" in kind.describe(settings)["objective"]) != fill
  # The rectangles are the same.
  assert (found[True] | ~found[False]).all()


def test_masked_pixels_do_not_reach_the_predictions():
  objective, params, batch = started(config(tokenizer="random", tokens=8))
  mask = np.asarray(batch["mask"])[:, :, None, None, None]
  patches = images_of().reshape(4, 4, 4, 4, 4, 3).swapaxes(2, 3)
  changed = np.where(mask.reshape(4, 4, 4, 1, 1, 1), 0, patches)
  changed = changed.swapaxes(2, 3).reshape(4, SIDE, SIDE, 3).astype(np.uint8)
  assert (changed != images_of()).any()
  # With one token alone for all patches, the targets are the same.
  ones = jax.tree.map(jnp.zeros_like, objective.constants.params["centres"])
  constants = {**objective.constants.params, "centres": ones}
  losses = [
    objective.loss(params, constants, {}, {**batch, "image": i}, RNGS, 0)[0]
    for i in (jnp.asarray(images_of()), jnp.asarray(changed))
  ]
  np.testing.assert_allclose(*losses, rtol=1e-6)


@pytest.mark.parametrize("scan", [False, True])
def test_parameters_start_as_in_the_released_code(scan):
  settings = config(model={"scan_layers": scan, "depth": 3})
  params, _ = jax.jit(objective_of(settings).init)(jax.random.key(0))
  layers = params["Transformer"]

  def kernel(layer, *names):
    block = layers["encoderblock" if scan else f"encoderblock_{layer}"]
    for name in names:
      block = block[name]
    return block["kernel"][layer] if scan else block["kernel"]

  attention = "MultiHeadDotProductAttention_0"
  for layer in range(3):
    bound = 0.02 / np.sqrt(2 * (layer + 1))
    for names in ((attention, "out"), ("MlpBlock_0", "Dense_1")):
      largest = np.abs(kernel(layer, *names)).max()
      assert 0.95 * bound < largest <= bound * (1 + 1e-6)
    assert np.abs(kernel(layer, attention, "query")).max() > 0.019
  for leaf in (
    params["cls"],
    params["mask_token"],
    params["patch_head"]["kernel"],
    params["embedding"]["kernel"],
  ):
    # A normal that is cut off at one deviation has 0.54 of its deviation.
    assert 0.008 < np.std(leaf) < 0.013 and np.abs(leaf).max() <= 0.02
  for path, leaf in trees.named_leaves(params):
    assert not path.endswith("bias") or not np.any(leaf)


def test_the_network_alone_is_exported():
  params = {"mask_token": 0, "patch_head": {}, "Transformer": {}, "cls": 0}
  assert set(kind.exported(params, {})) == {"Transformer", "cls"}


def tokenizer(tmp_path, network=None, width=16, tokens=5, digest=None):
  """A file of random centres of a saved network's features."""
  model = network or networks.tiny(pool="gap", width=width)
  path = str(tmp_path / "network.npz")
  vit_jax.save(path, model, networks.random_params(model))
  rows = np.random.default_rng(1).standard_normal((tokens, width), np.float32)
  _, params = vit_jax.load(path)
  found = centres.Centres(
    rows, path, digest or contract.digest(jax.tree.map(np.asarray, params))
  )
  centres.write(str(tmp_path / "centres.npz"), found)
  return str(tmp_path / "centres.npz"), rows


def test_a_patchs_token_is_the_centre_its_feature_points_at(tmp_path):
  path, rows = tokenizer(tmp_path)
  settings = config(tokenizer=path, model={"normalize": "imagenet"})
  found = tokenizers.read(settings)
  places = jnp.asarray([[3, 0, 15], [1, 2, 9]])
  # Its own 2 x 2 patches become 4 x 4, as the student has them.
  model, params = vit_jax.load(str(tmp_path / "network.npz"), image_size=SIDE)
  encoded = models_features.features(model, params, images_of(2), ("encoded",))
  every = np.argmax(np.asarray(encoded["encoded"]) @ rows.T, axis=2)
  tokens = found.tokens(
    found.constants.params, jnp.asarray(images_of(2)), places
  )
  np.testing.assert_array_equal(
    tokens, np.take_along_axis(every, np.asarray(places), axis=1)
  )
  assert found.num_tokens == 5
  assert set(found.constants.digests) == {path, str(tmp_path / "network.npz")}


def test_its_cost_is_that_of_network_head_and_a_third_of_the_tokenizers(
  tmp_path,
):
  path, _ = tokenizer(tmp_path)
  plain = build.forward_flops(config(), num_classes=None)
  found = build.forward_flops(config(tokenizer=path), num_classes=None)
  head = 2 * 32 * 6
  # Of 16 patches: embedding, then three layers.
  macs = 16 * 48 * 16 + 3 * (16 * (4 * 16**2 + 2 * 16 * 24) + 2 * 16**2 * 16)
  teacher = 2 * macs + 2 * 5 * 16 * 6
  assert found - plain == head * (5 - 512) + teacher // 3


@pytest.mark.parametrize(
  ("model", "objective", "words"),
  [
    ({}, {"tokenizer": None}, ["tokenizer = None", "prepare tokenizer"]),
    ({}, {"tokenizer": "nothing.npz"}, ["nothing.npz", "does not exist"]),
    ({}, {"tokens": 8192}, ["tokens = 8192", "has 512"]),
    ({}, {"masked_patches": 16}, ["masked_patches = 16", "at most 15"]),
    ({}, {"smallest_block": 7}, ["smallest_block = 7", "at most 6"]),
    (
      {"image_size": 8},
      {"masked_patches": 3, "smallest_block": 2},
      ["smallest_block = 2", "2 x 2", "at most 1"],
    ),
    ({"image_size": 4}, {}, ["image_size = 4", "single patch", "use 8"]),
    ({"norm_after_pool": True}, {}, ["norm_after_pool", "fine-tuning"]),
    ({"pool": "map"}, {}, ['pool = "map"', '"beit"']),
  ],
)
def test_what_cannot_be_trained_is_refused(model, objective, words):
  with pytest.raises(UserError) as error:
    check(config(model, **objective))
  for word in words:
    assert word in str(error.value)


def test_a_tokenizer_of_another_vocabulary_is_refused(tmp_path):
  path, _ = tokenizer(tmp_path)
  with pytest.raises(UserError, match="tokens = 6, but .* has 5"):
    check(config(tokenizer=path, tokens=6))


def test_a_file_of_no_known_form_is_refused(tmp_path):
  (tmp_path / "tokens.txt").write_text("1")
  with pytest.raises(UserError, match="of no known form"):
    check(config(tokenizer=str(tmp_path / "tokens.txt")))


def test_weights_of_a_network_are_no_tokenizer(tmp_path):
  tokenizer(tmp_path)
  with pytest.raises(UserError, match="not a tokenizer of centres"):
    check(config(tokenizer=str(tmp_path / "network.npz")))


def test_a_tokenizer_whose_network_is_gone_is_refused(tmp_path):
  path, _ = tokenizer(tmp_path)
  (tmp_path / "network.npz").unlink()
  with pytest.raises(UserError, match=r"was made with .*network\.npz', which"):
    check(config(tokenizer=path))


def test_a_network_that_has_changed_is_refused(tmp_path):
  path, _ = tokenizer(tmp_path, digest="0" * 32)
  with pytest.raises(UserError, match="centres of another network"):
    tokenizers.read(config(tokenizer=path))


def test_a_network_without_the_students_grid_is_refused(tmp_path):
  path, _ = tokenizer(tmp_path, networks.tiny_resnet(), width=32)
  with pytest.raises(UserError, match="no patches"):
    tokenizers.read(config(tokenizer=path))
