"""Prediction of a teacher's features of masked patches."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from tests.models import networks
from vit_jax import rngs
from vit_jax.config import named_sections, schema
from vit_jax.data import facts, features
from vit_jax.errors import UserError
from vit_jax.models import build as models_build
from vit_jax.models import features as model_features
from vit_jax.objectives import build, masked_tokens
from vit_jax.objectives.feature_prediction import kind
from vit_jax.paper import cost

SIDE = 16  # 4 x 4 patches of 4 pixels.
RNGS = functools.partial(rngs.stream, 0, step=0)


def config(teacher="random", *, model=None, **objective):
  keys = dict(variant="Ti/4", width=16, depth=2, num_heads=2, mlp_dim=24)
  keys |= dict(image_size=SIDE, normalize="clip") | (model or {})
  return schema.Config(
    total_steps=10,
    model=named_sections.section("model", **keys),
    train=schema.Train(batch_size=6, preprocess="decode|resize|keep('image')"),
    objective=named_sections.section(
      "objective",
      name="feature_prediction",
      teacher=teacher if teacher is None else str(teacher),
      **{"masked_patches": 7, "smallest_block": 2, **objective},
    ),
  )


def objective_of(config):
  found = facts.declare(config, num_classes=5, num_examples=None)
  return build.build(config, found, 10)


def check(config):
  build.check(config, features.check(config))


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
  """A wider teacher of the student's grid, and its features of some images."""
  path = tmp_path_factory.mktemp("teacher") / "t.npz"
  model = networks.tiny(image_size=SIDE, width=24, normalize="clip")
  params = networks.random_params(model)
  vit_jax.save(str(path), model, params)
  encoded = model_features.features(model, params, images(), ("encoded",))
  return str(path), np.asarray(encoded["encoded"][:, 1:], np.float64)


def images():
  rng = np.random.default_rng(0)
  return jnp.asarray(rng.integers(0, 256, (6, SIDE, SIDE, 3), np.uint8))


def loss_of(objective, params, batch):
  return jax.jit(
    lambda params, constants, batch: objective.loss(
      params, constants, {}, batch, RNGS, 0
    )
  )(params, objective.constants.params, batch)


def prepared(objective):
  return jax.jit(lambda batch: objective.prepare(batch, RNGS))(
    {"image": images()}
  )


def test_the_loss_is_minus_the_cosine_of_all_masked_patches(teacher):
  path, features_of = teacher
  objective = objective_of(config(path, masked_patches=14, smallest_block=7))
  params, _ = jax.jit(objective.init)(jax.random.key(0))
  batch = prepared(objective)
  found, (_, metrics) = loss_of(objective, params, batch)
  mask = np.asarray(batch["mask"])
  network = networks.tiny(
    None, image_size=SIDE, depth=2, num_heads=2, normalize="clip"
  )
  body = kind.exported(params, {})
  tokens = masked_tokens.encode(
    network, body, images(), params["mask_token"], batch["mask"]
  )
  head = params["patch_head"]
  predicted = np.float64(tokens[:, 1:]) @ np.float64(head["kernel"])
  predicted = (predicted + np.float64(head["bias"]))[mask]
  wanted = features_of[mask]
  norms = np.linalg.norm(predicted, axis=1) * np.linalg.norm(wanted, axis=1)
  cosines = (predicted * wanted).sum(axis=1) / norms
  assert len(set(mask.sum(axis=1))) > 1  # Some images have fewer.
  assert float(found) == pytest.approx(-cosines.mean(), rel=1e-4)
  assert float(metrics["cosine"]) == -float(found)
  assert float(metrics["masked_share"]) == pytest.approx(mask.mean())


def test_two_micro_batches_have_the_loss_of_the_whole_batch(teacher):
  objective = objective_of(
    config(teacher[0], masked_patches=14, smallest_block=7)
  )
  params, _ = jax.jit(objective.init)(jax.random.key(0))
  batch = prepared(objective)
  whole, _ = loss_of(objective, params, batch)
  halves = [
    loss_of(objective, params, {name: x[part] for name, x in batch.items()})[0]
    for part in (slice(0, 3), slice(3, 6))
  ]
  assert float(whole) == pytest.approx(np.mean(halves), rel=1e-5)


def test_hidden_pixels_reach_the_loss_by_the_teacher_alone():
  """The gradient of a prediction with respect to a masked patch is zero."""
  objective = objective_of(config())
  params, _ = jax.jit(objective.init)(jax.random.key(0))
  network = networks.tiny(None, image_size=SIDE, depth=2, normalize="clip")
  mask = np.zeros((1, 16), bool)
  mask[0, [0, 5, 6]] = True

  def total(pixels):
    tokens = masked_tokens.encode(
      network,
      kind.exported(params, {}),
      pixels,
      params["mask_token"],
      jnp.asarray(mask),
    )
    return jnp.abs(tokens).sum()

  pixels = jax.random.normal(jax.random.key(1), (1, SIDE, SIDE, 3))
  gradient = np.asarray(jax.jit(jax.grad(total))(pixels))[0]
  by_patch = np.abs(gradient).reshape(4, 4, 4, 4, 3).sum(axis=(1, 3, 4))
  np.testing.assert_array_equal(by_patch.ravel() == 0, mask[0])


def test_a_tenth_of_the_gradient_reaches_the_embedding_of_patches(teacher):
  path, _ = teacher
  gradients = []
  for share in (1.0, 0.1):
    objective = objective_of(config(path, embedding_gradient=share))
    params, _ = jax.jit(objective.init)(jax.random.key(0))
    batch = prepared(objective)
    gradients.append(
      jax.jit(
        jax.grad(
          lambda params, objective=objective, batch=batch: objective.loss(
            params, objective.constants.params, {}, batch, RNGS, 0
          )[0]
        )
      )(params)
    )
  whole, tenth = gradients
  assert np.abs(whole["embedding"]["kernel"]).max() > 0
  for layer, factor in (("embedding", 0.1), ("patch_head", 1), ("cls", 1)):
    jax.tree.map(
      lambda x, y, factor=factor: np.testing.assert_allclose(
        y, factor * x, rtol=1e-4, atol=1e-7
      ),
      whole[layer],
      tenth[layer],
    )


@pytest.mark.parametrize("is_large", [False, True])
def test_parameters_start_as_in_the_released_code(is_large):
  model = dict(width=64, mlp_dim=160, mlp="swiglu", mlp_norm=is_large)
  objective = objective_of(config(model=model))
  params, _ = jax.jit(objective.init)(jax.random.key(0))
  block = params["Transformer"]["encoderblock_1"]
  attention = block["MultiHeadDotProductAttention_0"]
  # w12 and qkv are one matrix each in the small networks. log(2 * 2 layers).
  fused, scale = (1, np.sqrt(np.log(4))) if is_large else (2, 1)
  qkv = 64 * (1 if is_large else 3)
  for kernel, wanted in (
    (attention["query"]["kernel"], np.sqrt(2 / (64 + qkv))),
    (attention["value"]["kernel"], scale * np.sqrt(2 / (64 + qkv))),
    (attention["out"]["kernel"], scale * np.sqrt(2 / 128)),
    (
      block["MlpBlock_0"]["gate"]["kernel"],
      scale * np.sqrt(2 / (64 + fused * 160)),
    ),
    (block["MlpBlock_0"]["Dense_1"]["kernel"], scale * np.sqrt(2 / 224)),
    (params["patch_head"]["kernel"], np.sqrt(2 / 128)),
  ):
    assert np.std(kernel) == pytest.approx(wanted, rel=0.05)
  bound = np.sqrt(6 / (48 + 64))
  assert 0.95 * bound < np.abs(params["embedding"]["kernel"]).max() <= bound
  positions = params["Transformer"]["posembed_input"]["pos_embedding"]
  for token in (params["cls"], params["mask_token"], positions):
    assert 0.015 < np.abs(token).max() <= 0.02


def test_the_network_alone_is_exported():
  params = {"mask_token": 0, "patch_head": {}, "Transformer": {}, "cls": 0}
  assert set(kind.exported(params, {})) == {"Transformer", "cls"}


def test_the_teacher_is_counted_once_and_the_head_on_masked_patches(teacher):
  path, _ = teacher
  of_head = 2 * 16 * 24 * 7
  alone = build.forward_flops(config(None), num_classes=None)
  both = build.forward_flops(config(path), num_classes=None)
  found = both - alone - of_head
  wider = config(None, model=dict(width=24, depth=3)).model
  assert found == cost.forward_flops(wider, num_classes=None) // 3


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
  """A CLIP whose image tower has a width of 24, and embeddings one of 10."""
  path = str(tmp_path_factory.mktemp("clip") / "c.npz")
  tower = dict(width=24, depth=3, num_heads=2, mlp_dim=24)
  keys = dict(variant="Ti/4", image_size=SIDE, normalize="clip", image=tower)
  model = models_build.create(
    named_sections.section(
      "model",
      name="two_towers",
      image_projection="linear",
      embedding_size=10,
      text=tower,
      **keys,
    ),
    num_classes=None,
  )
  params = jax.jit(model.init)(jax.random.key(0), images()[:1])["params"]
  vit_jax.save(path, model, params)
  return path


@pytest.mark.parametrize(
  ("keys", "width"),
  [({}, 10), ({"teacher_features": "encoded"}, 24)],
)
def test_features_of_a_clip_are_those_after_its_projection(clip, keys, width):
  of_clip = config(clip, **keys)
  objective = objective_of(of_clip)
  params, _ = jax.jit(objective.init)(jax.random.key(0))
  assert params["patch_head"]["kernel"].shape == (16, width)
  loss, _ = loss_of(objective, params, prepared(objective))
  assert abs(float(loss)) < 1
  # The teacher's forward pass counts as a third; its projection is of all
  # patches, the head's of the masked ones.
  of_tower = cost.forward_flops(
    config(None, model=dict(width=24, depth=3)).model, num_classes=None
  )
  of_projection = 2 * 16 * 24 * 10 if width == 10 else 0
  found = build.forward_flops(of_clip, num_classes=None)
  found -= build.forward_flops(config(None), num_classes=None)
  wanted = 2 * 16 * width * 7 + (of_tower + of_projection) // 3
  assert found == wanted


@pytest.mark.parametrize(
  ("model", "objective", "words"),
  [
    ({}, {"masked_patches": 16}, ["masked_patches = 16", "at most 15"]),
    ({}, {"masked_patches": 1}, ["smallest_block = 2", "1 are masked"]),
    (
      {},
      {"masked_patches": 12, "smallest_block": 9},
      ["smallest_block = 9", "4 x 4", "use at most 8"],
    ),
    ({"norm_after_pool": True}, {}, ["norm_after_pool", "fine-tuning"]),
    ({"pool": "map"}, {}, ['pool = "map"', '"feature_prediction"']),
    ({}, {"teacher": "nothing.npz"}, ["teacher = 'nothing.npz'", "not exist"]),
  ],
)
def test_what_cannot_be_trained_is_refused(model, objective, words):
  with pytest.raises(UserError) as error:
    check(config(model=model, **objective))
  for word in words:
    assert word in str(error.value)


def test_without_a_teacher_there_is_nothing_to_learn():
  check(config(None))
  with pytest.raises(UserError, match="teacher is not set.*'random'"):
    objective_of(config(None))


def test_a_teacher_without_patches_is_refused(tmp_path):
  path = str(tmp_path / "r.npz")
  model = networks.tiny_resnet(image_size=SIDE)
  vit_jax.save(path, model, networks.random_params(model))
  with pytest.raises(UserError, match="teacher.*ResNet.*no patches"):
    objective_of(config(path))
