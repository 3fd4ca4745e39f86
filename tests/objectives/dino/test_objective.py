"""DINO, arXiv 2104.14294, beside its loss in NumPy."""

import functools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest
from scipy import special

from tests import experiments
from tests.models import networks
from tests.objectives.dino import oracle
from vit_jax import rngs
from vit_jax.data import facts, features
from vit_jax.errors import UserError
from vit_jax.models import build as models_build
from vit_jax.models.vit.network import ViT
from vit_jax.objectives import build
from vit_jax.objectives.dino import head, kind
from vit_jax.train import train

RNGS = functools.partial(rngs.stream, 0, step=5)
CROP = "decode|random_resized_crop"
VIEWS = {
  "global": {"count": 2, "preprocess": CROP},
  "local": {"count": 3, "preprocess": CROP, "size": 4},
}
SIZES = {"prototypes": 24, "hidden_width": 16, "bottleneck": 8}


def config(**changes):
  settings = {
    "objective__name": "dino",
    "train__views": VIEWS,
    "train__preprocess": "decode|keep('image')",
    "evals": {},
    **{f"objective__{name}": value for name, value in SIZES.items()},
  }
  return experiments.config(**(settings | changes))


def objective_of(settings, total_steps=6):
  found = facts.declare(settings, num_classes=4, num_examples=64)
  return build.build(settings, found, total_steps)


def check(settings):
  build.check(settings, features.check(settings))


def batch():
  rng = np.random.default_rng(1)
  return {
    "global": rng.integers(0, 256, (4, 2, 8, 8, 3), np.uint8),
    "local": rng.integers(0, 256, (4, 3, 4, 4, 3), np.uint8),
  }


def started(objective):
  """Parameters, and a state whose teacher differs from them."""
  params, state = jax.jit(objective.init)(jax.random.key(0))
  rng = np.random.default_rng(2)
  teacher = jax.tree.map(
    lambda x: x + 0.1 * rng.normal(size=x.shape).astype(np.float32),
    state["teacher"],
  )
  center = 0.1 * rng.normal(size=24).astype(np.float32)
  return params, {"teacher": teacher, "center": center}


def similarities(settings, params, crops):
  """Of each crop with each prototype, by another path through the layers."""
  network = models_build.create(settings.model, num_classes=None)
  flat = crops.reshape(-1, *crops.shape[2:])
  found = networks.apply(network, params, flat)
  found = oracle.similarities(params["dino_head"], found)
  return found.reshape(*crops.shape[:2], -1)


@pytest.mark.parametrize("unit_prototypes", [True, False])
def test_the_loss_is_the_papers(unit_prototypes):
  settings = config(
    objective__unit_prototypes=unit_prototypes,
    objective__teacher_temperature=0.06,
  )
  objective = objective_of(settings)
  params, state = started(objective)
  found, (aux, metrics) = jax.jit(lambda *args: objective.loss(*args, RNGS, 0))(
    params, {}, state, batch()
  )

  crops = batch()
  taught = similarities(settings, state["teacher"], crops["global"])
  wanted = special.softmax((taught - state["center"]) / 0.06, axis=-1)
  seen = np.concatenate(
    [similarities(settings, params, crops[name]) for name in crops], axis=1
  )
  logs = special.log_softmax(seen / 0.1, axis=-1)
  terms = [
    -(wanted[:, g] * logs[:, v]).sum(axis=-1).mean()
    for g in range(2)
    for v in range(5)
    if g != v
  ]
  np.testing.assert_allclose(found, np.mean(terms), rtol=2e-5)
  np.testing.assert_allclose(
    aux["center"], taught.mean(axis=(0, 1)), rtol=1e-4, atol=1e-6
  )
  entropy = special.entr(wanted).sum(axis=-1).mean()
  np.testing.assert_allclose(metrics["teacher_entropy"], entropy, rtol=1e-4)
  np.testing.assert_allclose(
    metrics["kl_to_student"], np.mean(terms) - entropy, rtol=1e-3
  )
  used = wanted.mean(axis=(0, 1))
  np.testing.assert_allclose(
    metrics["prototypes_used"],
    np.exp(special.entr(used).sum()) / 24,
    rtol=1e-4,
  )


def test_the_teacher_and_the_centre_follow():
  objective = objective_of(
    config(objective__teacher_momentum="linear(0.9, 1.0)")
  )
  params, state = started(objective)
  center = np.ones(24, np.float32)
  found = objective.after_update(state, params, {"center": center}, 3)
  # Half way from 0.9 to 1.
  for new, old, student in zip(
    *map(jax.tree.leaves, (found["teacher"], state["teacher"], params)),
    strict=True,
  ):
    np.testing.assert_allclose(
      new, 0.95 * old + 0.05 * student, rtol=1e-4, atol=1e-6
    )
  np.testing.assert_allclose(
    found["center"], 0.9 * state["center"] + 0.1, rtol=1e-5
  )


def test_the_teacher_starts_as_the_student():
  objective = objective_of(config())
  params, state = jax.jit(objective.init)(jax.random.key(0))
  jax.tree.map(np.testing.assert_array_equal, params, state["teacher"])
  loaded = jax.tree.map(lambda x: x + 1, params)
  state = objective.after_load(state, loaded)
  jax.tree.map(np.testing.assert_array_equal, loaded, state["teacher"])
  assert not np.any(state["center"])


def test_an_average_of_the_student_is_warned_of(caplog):
  objective_of(config())
  assert not caplog.messages
  objective_of(config(ema_decay=0.99))
  (line,) = caplog.messages
  assert "config.ema_decay = 0.99 costs memory without effect" in line


def test_the_teachers_network_is_exported():
  state = {"teacher": {"cls": 1, "dino_head": {}}, "center": 0}
  assert kind.exported({"cls": 2, "dino_head": {}}, state) == {"cls": 1}


def test_prototypes_start_as_torchs_linear_layers():
  found = head.Head(512, 16, 64).init(jax.random.key(0), jnp.zeros((1, 32)))
  kernel = found["params"]["prototypes"]["kernel"]
  assert 0.99 / math.sqrt(64) < np.abs(kernel).max() <= 1 / math.sqrt(64)
  assert abs(np.std(found["params"]["Dense_0"]["kernel"]) - 0.02) < 2e-3


def test_each_resolution_is_one_forward_pass():
  objective = objective_of(config())
  params, state = started(objective)
  seen = []

  def record(call, args, kwargs, context):
    if isinstance(context.module, ViT) and context.method_name == "__call__":
      seen.append((args[0].shape, kwargs["train"]))
    return call(*args, **kwargs)

  with nn.intercept_methods(record):
    objective.loss(params, {}, state, batch(), RNGS, 0)
  assert sorted(seen) == [
    ((8, 8, 8, 3), False),
    ((8, 8, 8, 3), True),
    ((12, 4, 4, 3), True),
  ]


def test_the_cost_counts_all_crops_and_a_third_of_the_teacher():
  settings = config()

  def network(tokens):
    layer = 4 * tokens * 32**2 + 2 * tokens**2 * 32 + 2 * tokens * 32 * 64
    # The last layer makes keys and values of all tokens, else the class token.
    last = (2 * tokens + 2) * 32**2 + 2 * tokens * 32 + 2 * 32 * 64
    return 2 * (tokens - 1) * 48 * 32 + 2 * (layer + last)

  of_head = 2 * (32 * 16 + 16 * 16 + 16 * 8 + 8 * 24)
  large, small = network(5) + of_head, network(2) + of_head
  wanted = 2 * large + 3 * small + 2 * large // 3
  assert build.forward_flops(settings, num_classes=None) == wanted
  skipping = config(
    model__stochastic_depth_group=8,
    model__stochastic_depth="constant",
    model__stochastic_depth_rate=0.5,
  )
  # Half of the student's layers; patches and heads are computed for all.
  saved = 2 * (network(5) - 2 * 4 * 48 * 32) + 3 * (network(2) - 2 * 48 * 32)
  found = build.forward_flops(skipping, num_classes=None)
  assert found == wanted - saved // 2


HEALTHY = {
  "teacher_entropy": 2.0,
  "prototypes_used": 0.5,
  "feature_rank": 9.0,
}


@pytest.mark.parametrize(
  ("values", "words"),
  [
    ({}, None),
    ({"prototypes_used": 1.01 / 24}, "same prototype"),
    (
      {"patch_prototypes_used": 1.01 / 24, "patch_teacher_entropy": 2.0},
      "all patches to the same prototype",
    ),
    (
      {"patch_prototypes_used": 0.9, "patch_teacher_entropy": math.log(24)},
      "every patch to all prototypes alike",
    ),
    ({"teacher_entropy": math.log(24)}, "all prototypes alike"),
    ({"feature_rank": 1.2}, "lie on a line"),
  ],
)
def test_a_collapse_is_told_with_its_remedies(values, words):
  found = kind.warning(config(), HEALTHY | values)
  if words is None:
    assert found is None
  else:
    assert words in found and "teacher_temperature" in found


def test_features_of_few_images_are_no_collapse():
  """A micro-batch of one: the two crops of an image lie on a line."""
  line = HEALTHY | {"feature_rank": 1.0}
  few = config(train__batch_size=8, train__accumulate_steps=8)
  assert kind.warning(few, line) is None
  assert kind.warning(config(train__batch_size=8), line) is not None


@pytest.mark.slow
def test_a_run_warns_of_a_collapse_once(tmp_path, caplog):
  """At so high a temperature a teacher gives all prototypes the same."""
  settings = config(
    objective__teacher_temperature=1e4, evals=ml_collections.ConfigDict()
  )
  assert train(settings, str(tmp_path)) == 0
  said = [x for x in caplog.messages if "This is a collapse" in x]
  # The rate of step 1 is 0, so the first update is that of step 2.
  assert len(said) == 1 and said[0].startswith("Step 3: ")


@pytest.mark.parametrize(
  ("changes", "words"),
  [
    ({"train__views": {}}, ["empty", "0 global crops", "count of 2"]),
    (
      {"train__views": {"global": {"count": 1, "preprocess": CROP}}},
      ["1 global crops"],
    ),
    (
      {"train__views": {**VIEWS, "other": {"preprocess": CROP}}},
      ["config.train.views.other", "neither global nor local"],
    ),
    (
      {"train__views": {**VIEWS, "local_2": {"preprocess": CROP}}},
      ["local makes 4 pixels", "local_2 makes 8 pixels"],
    ),
    (
      {
        "train__views": {
          **VIEWS,
          "local": {"count": 3, "preprocess": CROP, "size": 6},
        }
      },
      ["config.train.views.local", "6 pixels", "patches of 4", "4 or 8"],
    ),
    (
      {"objective__teacher_momentum": "linear(0.9, 1.1)"},
      ["teacher_momentum", "above 1"],
    ),
    ({"objective__teacher_temperature": 0.0}, ["teacher_temperature", "0.01"]),
    (
      {"objective__teacher_temperature": "linear(0.04, 0.005)"},
      ["teacher_temperature", "0.01"],
    ),
    ({"objective__prototypes": 65_537}, ["65537", "1024", "65536"]),
    (
      {"objective__prototypes": 65_536, "mesh__fsdp": 6},
      ["prototypes = 65536", "mesh.fsdp = 6 devices", "64512"],
    ),
    (
      {"objective__prototypes": 66, "mesh__fsdp": 4},
      ["prototypes = 66", "mesh.fsdp = 4 devices", "use 64"],
    ),
    (
      {
        "train__views": {
          **VIEWS,
          "local": {
            "count": 3,
            "preprocess": "decode|random_crop(99)|resize",
            "size": 4,
          },
        }
      },
      ["config.train.views.local.preprocess", "random_crop(99)", "a side has"],
    ),
    (
      {"objective__centering": "sinkhorn", "train__accumulate_steps": 2},
      ["accumulate_steps = 2", '"dino"'],
    ),
  ],
)
def test_what_cannot_be_trained_is_refused(changes, words):
  with pytest.raises(UserError) as error:
    check(config(**changes))
  for word in words:
    assert word in str(error.value)


def test_evaluators_of_classes_are_refused():
  from vit_jax.config.defaults import default_eval

  entry = default_eval(type="classification", every_steps=2)
  with pytest.raises(UserError, match='"dino" trains no classifier'):
    check(config(evals={"test": entry}))
