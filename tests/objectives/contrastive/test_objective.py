"""Two towers that learn pairs: losses, micro-batches, bounds and messages."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType

from tests.objectives.contrastive.test_losses import (
  sigmoid_in_numpy,
  softmax_in_numpy,
)
from vit_jax import rngs
from vit_jax.config import named_sections, schema
from vit_jax.errors import UserError
from vit_jax.models.two_towers.shapes import image_tower
from vit_jax.objectives.contrastive import kind
from vit_jax.objectives.contrastive.objective import contrastive
from vit_jax.paper import cost
from vit_jax.sharding import activations
from vit_jax.sharding import mesh as mesh_lib

RNGS = functools.partial(rngs.stream, 0, step=5)
BATCH = 8


def config(accumulate_steps=1, evals=None, model=None, **objective):
  loss = objective.get("loss", "sigmoid")
  return schema.Config(
    total_steps=10,
    model=named_sections.section(
      "model",
      **{
        "name": "two_towers",
        "variant": "Ti/8",
        "image_size": 16,
        "bias_init": -10.0 if loss == "sigmoid" else None,
        "image": {"width": 16, "depth": 1, "num_heads": 2, "mlp_dim": 24},
        "text": {
          "width": 16,
          "depth": 1,
          "num_heads": 2,
          "mlp_dim": 20,
          "vocab_size": 30,
          "length": 6,
        },
        **(model or {}),
      },
    ),
    train=schema.Train(batch_size=BATCH, accumulate_steps=accumulate_steps),
    objective=named_sections.section(
      "objective", name="contrastive", **objective
    ),
    evals=evals or {},
  )


def batch(seed=0):
  rng = np.random.default_rng(seed)
  return {
    "image": jnp.uint8(rng.integers(0, 256, (BATCH, 16, 16, 3))),
    "text": jnp.int32(rng.integers(0, 30, (BATCH, 6))),
  }


@functools.cache
def started(loss):
  """Parameters whose towers differ for each input."""
  params, state = contrastive(config(loss=loss)).init(jax.random.key(0))
  assert state == {}
  return params


def value_and_grad(config, mesh=None):
  """((loss, metrics), gradients), with rows split over a mesh if there is."""
  loss, pairs = contrastive(config).loss, batch()
  if mesh is not None:
    loss = activations.on(mesh, loss)
    pairs = jax.device_put(pairs, mesh_lib.batch_sharding(mesh))

  def of_params(params, pairs):
    value, (_, metrics) = loss(params, {}, {}, pairs, RNGS, 5)
    return value, metrics

  params = started(config.objective.loss)
  return jax.jit(jax.value_and_grad(of_params, has_aux=True))(params, pairs)


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_the_loss_compares_all_images_with_all_texts(loss):
  objective = contrastive(config(loss=loss))
  params = started(loss)
  (value, metrics), _ = value_and_grad(config(loss=loss))
  found = objective.outputs(params, batch())
  pair = found["image_embedding"], found["text_embedding"]
  if loss == "softmax":
    wanted = softmax_in_numpy(*pair, 10.0)
  else:
    wanted = sigmoid_in_numpy(*pair, 10.0, -10.0)
    np.testing.assert_allclose(metrics["bias"], -10)
  np.testing.assert_allclose(value, wanted, rtol=1e-5)
  np.testing.assert_allclose(metrics["scale"], 10, rtol=1e-6)


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
@pytest.mark.parametrize("num_micro, num_devices", [(2, 1), (8, 1), (2, 4)])
def test_micro_batches_change_neither_loss_nor_gradients(
  loss, num_micro, num_devices
):
  wanted, gradients = value_and_grad(config(loss=loss))
  mesh = jax.make_mesh(
    (num_devices // 2 or 1, min(num_devices, 2)),
    ("data", "fsdp"),
    axis_types=(AxisType.Auto,) * 2,
    devices=jax.devices()[:num_devices],
  )
  found, ours = value_and_grad(config(num_micro, loss=loss), mesh)
  np.testing.assert_allclose(found[0], wanted[0], rtol=1e-6)
  largest = max(float(jnp.abs(x).max()) for x in jax.tree.leaves(gradients))
  for one, other in zip(
    jax.tree.leaves(ours), jax.tree.leaves(gradients), strict=True
  ):
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6 * largest)


def test_the_scale_stays_between_one_and_its_bound():
  constrain = contrastive(config(loss="softmax", max_scale=100.0)).constrain
  for log_scale, wanted in ((6.0, 100.0), (-1.0, 1.0), (2.0, np.exp(2.0))):
    params = {"logit_scale": jnp.float32(log_scale), "other": jnp.ones(3)}
    found = constrain(params)
    np.testing.assert_allclose(jnp.exp(found["logit_scale"]), wanted, rtol=1e-6)
    assert found["other"] is params["other"]
  free = contrastive(config()).constrain
  assert free({"logit_scale": 9.0}) == {"logit_scale": 9.0}


def test_outputs_are_of_the_features_that_a_batch_has():
  outputs = functools.partial(contrastive(config()).outputs, started("sigmoid"))
  whole = batch()
  image = {"scale", "image_embedding", "pre_logits"}
  text = {"scale", "text_embedding"}
  assert set(outputs(whole)) == image | text
  assert set(outputs({"image": whole["image"]})) == image
  assert set(outputs({"text": whole["text"]})) == text


def test_a_few_updates_tell_pairs_from_others():
  objective = contrastive(config())
  optimizer = optax.adam(1e-2)
  params = started("sigmoid")

  @jax.jit
  def update(params, state):
    def loss(params):
      return objective.loss(params, {}, {}, batch(), RNGS, 0)[0]

    value, gradients = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, value

  state = optimizer.init(params)
  losses = []
  for _ in range(60):
    params, state, value = update(params, state)
    losses.append(float(value))
  assert losses[-1] < losses[0] / 4
  found = objective.outputs(params, batch())
  similarities = found["image_embedding"] @ found["text_embedding"].T
  np.testing.assert_array_equal(similarities.argmax(1), np.arange(BATCH))


def test_flops_are_those_of_both_towers_and_of_their_pairs():
  one, other = (
    kind.forward_flops(
      config().model_copy(update={"train": schema.Train(batch_size=size)}), 0
    )
    for size in (8, 16)
  )
  assert other - one == 2 * 8 * 16


def test_a_frozen_image_tower_goes_forward_alone():
  """Of three passes it has one, and none where its outputs are kept."""

  def flops(freeze=None, rates=(), **objective):
    optimizer = schema.Optimizer(freeze=freeze, lr_multipliers=rates)
    keys = {"optimizer": optimizer}
    return kind.forward_flops(config(**objective).model_copy(update=keys), 0)

  tower = image_tower(config().model)
  image = cost.computed_flops(tower, num_classes=None)
  # A frozen tower computes its last layer for all tokens, read or not.
  whole = cost.forward_flops(tower, num_classes=None)
  assert flops() - flops("image/.*") == image - whole // 3
  assert flops(rates=(("image/.*", 0.0),)) == flops("image/.*")
  assert flops() - flops("image/.*", cache_frozen="kept") == image
  assert flops("image/embedding/.*") == flops("text/.*") == flops()


@pytest.mark.parametrize(
  ("keys", "words"),
  [
    ({"model": {"name": "vit"}}, ["'vit'", "two_towers"]),
    (
      {"loss": "sigmoid", "model": {"bias_init": None}},
      ["bias_init = None", "-10"],
    ),
    (
      {"loss": "softmax", "model": {"bias_init": -10.0}},
      ["bias_init = -10.0", "None"],
    ),
    (
      {"evals": {"test": {"type": "classification"}}},
      ["config.evals.test", "zeroshot"],
    ),
  ],
)
def test_what_cannot_be_trained_is_said(keys, words):
  keys = dict(keys)
  if keys.get("model", {}).get("name") == "vit":
    wrong = schema.Config(
      total_steps=1,
      objective=named_sections.section("objective", name="contrastive"),
    )
  else:
    evals = {
      name: named_sections.section("evals", **entry)
      for name, entry in keys.pop("evals", {}).items()
    }
    wrong = config(evals=evals, **keys)
  with pytest.raises(UserError) as caught:
    kind.check(wrong)
  for word in words:
    assert word in str(caught.value)


def test_the_report_names_loss_and_batch():
  (text,) = itertools.islice(kind.describe(config()).values(), 1)
  assert "sigmoid" in text and "8 images" in text
