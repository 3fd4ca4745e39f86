"""Regression: its loss, its scale and what it refuses."""

import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from tests import experiments
from tests.models import networks
from vit_jax import checks, rngs
from vit_jax.data import facts as facts_lib
from vit_jax.data.targets import Targets
from vit_jax.errors import UserError
from vit_jax.objectives import build
from vit_jax.objectives.supervised import number_scale, regression
from vit_jax.objectives.supervised.kind import KIND

TARGETS = Targets(("x", "y"), np.array([1000.0, -2.0]), np.array([50.0, 0.1]))


def config_of(**changes):
  changes = {"train__preprocess": "decode|resize"} | changes  # No flips.
  return experiments.config(**(experiments.REGRESSION | changes))


def facts_of(config):
  return dataclasses.replace(experiments.facts(config), targets=TARGETS)


def computed(loss="mse", **changes):
  """Loss of a batch, the network's outputs, the batch and its mixing."""
  config = config_of(objective__loss=loss, **changes)
  objective = build.build(config, facts_of(config), 6)
  params, state = jax.jit(objective.init)(jax.random.key(0))
  kernel = jax.random.normal(jax.random.key(1), params["head"]["kernel"].shape)
  params = {**params, "head": {**params["head"], "kernel": kernel}}
  rng = np.random.default_rng(0)
  labels = TARGETS.mean + TARGETS.std * rng.normal(size=(16, 2))
  batch = {
    "image": jnp.asarray(rng.integers(0, 256, (16, 8, 8, 3)), jnp.uint8),
    "label": jnp.asarray(labels, jnp.float32),
  }
  keys = functools.partial(rngs.stream, 0, step=0)
  prepared = objective.prepare(batch, keys)
  value, (_, metrics) = objective.loss(params, {}, state, prepared, keys, 0)
  assert metrics == {"loss": value}
  outputs = objective.outputs(params, prepared)["logits"]
  return float(value), np.asarray(outputs, float), labels, prepared


@pytest.mark.parametrize("loss", ["mse", "mae"])
def test_the_loss_is_the_mean_error_in_units_of_the_deviations(loss):
  value, outputs, labels, _ = computed(loss)
  error = outputs - (labels - TARGETS.mean) / TARGETS.std
  each = error**2 if loss == "mse" else np.abs(error)
  # Float32 holds a label of 1000 to 6e-5.
  assert value == pytest.approx(each.mean(), rel=1e-5)


@pytest.mark.parametrize(
  "mixing", [{"objective__mixup_alpha": 0.5}, {"objective__cutmix_alpha": 1.0}]
)
@pytest.mark.parametrize("mode", ["batch", "pair", "elem"])
def test_numbers_of_mixed_images_are_mixed_by_their_shares(mixing, mode):
  value, outputs, labels, batch = computed(objective__mix_mode=mode, **mixing)
  share = np.asarray(batch["label_share"], float)[:, None]
  assert (share < 1).any()
  other = labels[::-1] if mode == "pair" else np.roll(labels, 1, axis=0)
  wanted = share * labels + (1 - share) * other
  error = outputs - (wanted - TARGETS.mean) / TARGETS.std
  assert value == pytest.approx((error**2).mean(), rel=1e-4)


def test_a_new_network_predicts_the_mean():
  config = config_of()
  objective = build.build(config, facts_of(config), 6)
  params, state = jax.jit(objective.init)(jax.random.key(0))
  batch = {"image": jnp.zeros((3, 8, 8, 3), jnp.uint8)}
  outputs = objective.outputs(KIND.exported(params, state), batch)["logits"]
  np.testing.assert_allclose(outputs, [TARGETS.mean] * 3, rtol=1e-6)


NETWORKS = {
  "vit": networks.tiny,
  "vit with pre_logits": functools.partial(
    networks.tiny, representation_size=12
  ),
  "deit": functools.partial(networks.tiny, distillation="average"),
  "hybrid": networks.tiny_hybrid,
  "resnet": networks.tiny_resnet,
  "swin": networks.tiny_swin,
  "convnext": networks.tiny_convnext,
  "pvt": networks.tiny_pvt,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_exported_heads_of_every_family_predict_the_numbers(name):
  model = NETWORKS[name](num_classes=3)
  params = networks.random_params(model)
  rng = np.random.default_rng(0)
  mean, std = np.array([100.0, -3.0, 0.5]), np.array([9.0, 2.0, 0.25])
  state = number_scale.state(mean, std)
  size = model.image_size
  images = rng.integers(0, 256, (2, size, size, 3), np.uint8)
  plain, scaled = (
    np.asarray(networks.apply(model, tree, images), float)
    for tree in (params, number_scale.exported(params, state))
  )
  np.testing.assert_allclose(scaled, plain * std + mean, rtol=2e-5, atol=2e-5)


def test_what_is_exported_can_be_trained_on():
  config = config_of()
  objective = build.build(config, facts_of(config), 6)
  params, state = jax.jit(objective.init)(jax.random.key(0))
  rng = np.random.default_rng(0)
  params = jax.tree.map(lambda x: rng.normal(size=x.shape), params)
  exported = KIND.exported(params, state)
  back = objective.from_exported(exported, state)
  assert not np.allclose(exported["head"]["kernel"], params["head"]["kernel"])
  for one, other in zip(
    jax.tree.leaves(back), jax.tree.leaves(params), strict=True
  ):
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_shapes_are_exported_as_they_are():
  config = config_of()
  objective = build.build(config, facts_of(config), 6)
  params, state = jax.eval_shape(objective.init, jax.random.key(0))
  assert KIND.exported(params, state) == params


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    (
      {"objective__label_smoothing": 0.1},
      "config.objective.label_smoothing = 0.1 is for classes",
    ),
    (
      {"objective__class_weights": "balanced"},
      "config.objective.class_weights = 'balanced' is for classes",
    ),
    (
      {"objective__binarize_targets": True},
      "config.objective.binarize_targets = True is for classes",
    ),
    (
      {"objective__teacher": "B_16.npz"},
      "config.objective.teacher = 'B_16.npz' is for classes",
    ),
    (
      {"train__sampling": "balanced"},
      "config.train.sampling = 'balanced' draws from every class in turn, and",
    ),
    (
      {"train__dataset": "folder"},
      "predicts numbers, which config.train.dataset = 'folder' lacks",
    ),
    (
      {"train__dataset": "cifar10"},
      "predicts numbers, which config.train.dataset = 'cifar10' lacks",
    ),
    (
      {"evals__test__type": "classification"},
      'config.evals.test is of type "classification", but config.objective.loss'
      " = 'mse' predicts numbers",
    ),
    (
      {"objective__loss": "softmax"},
      'config.evals.test is of type "regression", but config.objective.loss ='
      " 'softmax' predicts no numbers",
    ),
  ],
)
def test_what_belongs_to_classes_is_refused_without_data(changes, message):
  with pytest.raises(UserError) as error:
    checks.check(config_of(**changes))
  assert message in str(error.value)


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    (
      {"train__dataset": "generated:classes=3,size=8"},
      "predicts numbers, which config.train.dataset = 'generated:classes=3",
    ),
    (
      {"objective__loss": "softmax", "evals": {}},
      "has numbers instead of classes; to predict them, set"
      " config.objective.loss = 'mse'",
    ),
    (
      {"model__num_classes": 3},
      "config.model.num_classes = 3, and generated:targets=2,size=8,examples=64"
      " has 2 numbers to predict, red, green",
    ),
  ],
)
def test_data_and_loss_have_to_agree(changes, message):
  config = config_of(**changes)
  with pytest.raises(UserError) as error:
    facts_lib.of_source(config, facts_lib.open_data(config))
  assert message in str(error.value)


def test_an_objective_without_labels_may_see_images_with_numbers():
  config = config_of(
    objective__name="mae",
    objective__loss=None,
    objective__decoder_num_heads=4,
    evals={},
  )
  found = facts_lib.of_source(config, facts_lib.open_data(config))
  assert found.features.num_numbers == 2


def test_a_teacher_of_numbers_teaches_no_classes(tmp_path):
  model = networks.tiny(num_classes=4)
  path = str(tmp_path / "teacher.npz")
  vit_jax.save(
    path, model, networks.random_params(model), numbers=["a", "b", "c", "d"]
  )
  config = experiments.config(objective__teacher=path)
  with pytest.raises(UserError, match="predicts numbers; take a teacher"):
    build.build(config, experiments.facts(config), 6)


def test_a_network_without_a_linear_head_is_refused():
  class Headless(nn.Module):
    @nn.compact
    def __call__(self, images, train=False):
      return nn.Dense(2, name="top")(images.reshape(len(images), -1) / 255.0)

  config = config_of()
  objective = regression.regression(Headless(), config, TARGETS, 2)
  with pytest.raises(UserError, match="has no linear head, which"):
    jax.eval_shape(objective.init, jax.random.key(0))
