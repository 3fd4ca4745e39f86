import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax import rngs
from vit_jax.config import named_sections, schema
from vit_jax.data import facts
from vit_jax.errors import UserError
from vit_jax.models.layers.normalize import normalize
from vit_jax.objectives import build

_RNGS = functools.partial(rngs.stream, 0, step=5)


def _config(preprocess="decode|resize", model=None, **objective):
  return schema.Config(
    total_steps=10,
    model=named_sections.section("model", 
      variant="Ti/16", width=16, depth=1, num_heads=2, mlp_dim=32,
      image_size=32, **(model or {}),
    ),
    train=schema.Train(batch_size=8, preprocess=preprocess),
    objective=named_sections.section("objective", **objective),
  )  # fmt: skip


def _objective(max_labels=1, **keys):
  return _built(_config(**keys), max_labels)[0]


def _built(config, max_labels=1):
  """The objective, and the spec of its batches."""
  found = facts.declare(
    config, num_classes=5, max_labels=max_labels, num_examples=None
  )
  return build.build(config, found, 10), found.features.batch_spec(8)


def _batch(max_labels=1):
  rng = np.random.default_rng(0)
  shape = (8,) if max_labels == 1 else (8, max_labels)
  return {
    "image": jnp.asarray(rng.integers(0, 256, (8, 32, 32, 3)), jnp.uint8),
    "label": jnp.asarray(rng.integers(-1 if max_labels > 1 else 0, 5, shape)),
  }


def _params(objective):
  """Parameters whose head is not zero, so that classes differ."""
  params, _ = jax.jit(objective.init)(jax.random.key(0))
  kernel = jax.random.normal(jax.random.key(1), params["head"]["kernel"].shape)
  return {**params, "head": {**params["head"], "kernel": kernel}}


def _loss(objective, params, batch, step=5):
  keys = functools.partial(rngs.stream, 0, step=step)
  loss = jax.jit(
    lambda params, batch: objective.loss(params, {}, {}, batch, keys, 0)
  )
  return loss(params, batch)


def _halves(objective, params, batch):
  """Losses of the even and of the odd examples."""
  parts = [{name: x[i::2] for name, x in batch.items()} for i in range(2)]
  return [_loss(objective, params, part)[0] for part in parts]


@pytest.mark.parametrize(("max_labels", "shape"), [(1, (8,)), (3, (8, 3))])
def test_batch_spec_is_uint8_images_and_int32_labels(max_labels, shape):
  _, spec = _built(_config(), max_labels)
  assert spec["image"].shape == (8, 32, 32, 3)
  assert spec["image"].dtype == jnp.uint8
  assert spec["label"].shape == shape
  assert spec["label"].dtype == jnp.int32


def test_loss_compiles_from_the_batch_spec_alone():
  objective, spec = _built(_config(loss="sigmoid", mixup_alpha=0.2), 3)

  def step(rng, batch):
    params, state = objective.init(rng)
    batch = objective.prepare(batch, _RNGS)
    loss, (aux, metrics) = objective.loss(params, {}, state, batch, _RNGS, 0)
    return loss, metrics, objective.after_update(state, params, aux, 0)

  loss, metrics, state = jax.eval_shape(
    step, jax.eval_shape(lambda: jax.random.key(0)), spec
  )
  assert loss.shape == () and loss.dtype == jnp.float32
  assert set(metrics) == {"loss", "top1"}
  assert state == {}


def test_fresh_model_has_the_loss_of_a_uniform_guess():
  objective = _objective()
  params, state = jax.jit(objective.init)(jax.random.key(0))
  assert state == {}
  loss, (_, metrics) = _loss(objective, params, _batch())
  np.testing.assert_allclose(loss, np.log(5), rtol=1e-5)
  assert metrics["loss"] == loss


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_loss_and_accuracy_are_means_over_the_batch(loss):
  objective = _objective(loss=loss)
  params, batch = _params(objective), _batch()
  value, (_, metrics) = _loss(objective, params, batch)
  np.testing.assert_allclose(
    value, np.mean(_halves(objective, params, batch)), rtol=1e-5
  )
  predicted = jax.jit(objective.outputs)(params, batch)["logits"].argmax(axis=1)
  np.testing.assert_allclose(
    metrics["top1"], np.mean(predicted == batch["label"]), rtol=1e-6
  )


def test_images_stay_bytes_without_mixing():
  batch = _batch()
  prepared = _objective().prepare(batch, _RNGS)
  assert prepared["image"].dtype == jnp.uint8
  np.testing.assert_array_equal(prepared["image"], batch["image"])


def test_device_ops_run_with_their_own_stream():
  objective = _objective(preprocess="decode|resize|flip_lr")
  batch = _batch()
  image = np.asarray(objective.prepare(batch, _RNGS)["image"])
  again = objective.prepare(batch, _RNGS)["image"]
  np.testing.assert_array_equal(image, again)
  original = np.asarray(batch["image"])
  same = (image == original).all(axis=(1, 2, 3))
  flipped = (image == original[:, :, ::-1]).all(axis=(1, 2, 3))
  np.testing.assert_array_equal(same, ~flipped)
  assert same.any() and flipped.any()


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_mixed_loss_is_that_of_mixed_targets(loss):
  config = {"loss": loss, "label_smoothing": 0.1}
  objective = _objective(mixup_alpha=0.4, **config)
  params, batch = _params(objective), _batch()
  mixed = objective.prepare(batch, _RNGS)
  np.testing.assert_array_equal(
    mixed["other_label"], np.roll(batch["label"], 1)
  )
  share = float(mixed["label_share"][0])
  pixels = normalize(batch["image"], "minus_one_to_one")
  np.testing.assert_allclose(
    mixed["image"],
    share * pixels + (1 - share) * jnp.roll(pixels, 1, axis=0),
    rtol=1e-4,
    atol=1e-5,
  )
  value, _ = _loss(objective, params, mixed)

  logits = np.asarray(objective.outputs(params, mixed)["logits"], "f8")
  own, other = np.eye(5)[batch["label"]], np.eye(5)[mixed["other_label"]]
  targets = share * own + (1 - share) * other
  if loss == "softmax":
    targets = 0.9 * targets + 0.1 / 5
    log_probability = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    expected = -(targets * log_probability).sum(axis=1)
  else:
    targets = 0.8 * targets + 0.1
    expected = (np.log1p(np.exp(logits)) - targets * logits).sum(axis=1)
  np.testing.assert_allclose(value, expected.mean(), rtol=1e-4)


def test_mixed_micro_batches_average_to_the_whole_batch():
  objective = _objective(cutmix_alpha=1.0, mixup_alpha=0.2)
  params = _params(objective)
  mixed = objective.prepare(_batch(), _RNGS)
  whole, _ = _loss(objective, params, mixed)
  np.testing.assert_allclose(
    whole, np.mean(_halves(objective, params, mixed)), rtol=1e-5
  )


def test_mixed_images_have_the_compute_dtype():
  config = _config(mixup_alpha=0.4, model={"dtype": "bfloat16"})
  objective, spec = _built(config)
  prepared = jax.eval_shape(lambda batch: objective.prepare(batch, _RNGS), spec)
  assert prepared["image"].dtype == jnp.bfloat16


def test_dropout_follows_its_stream_and_is_off_in_outputs():
  objective = _objective(model={"dropout_rate": 0.5})
  params, batch = _params(objective), _batch()

  def loss(step):
    return _loss(objective, params, batch, step)[0]

  assert loss(1) == loss(1) != loss(2)
  outputs = jax.jit(objective.outputs)(params, batch)
  again = jax.jit(objective.outputs)(params, batch)
  np.testing.assert_array_equal(outputs["logits"], again["logits"])


def test_outputs_are_logits_and_the_features_before_the_head():
  objective = _objective()
  params = _params(objective)
  outputs = jax.jit(objective.outputs)(params, _batch())
  assert set(outputs) == {"logits", "pre_logits"}
  np.testing.assert_allclose(
    outputs["logits"],
    outputs["pre_logits"] @ params["head"]["kernel"],
    rtol=1e-4,
    atol=1e-4,
  )


def test_binarised_targets_have_both_labels_of_a_mixed_image():
  """`targets.gt(0)` of DeiT III's engine.py, with torch's mean over classes."""
  objective = _objective(
    mixup_alpha=0.8, loss="sigmoid_mean", binarize_targets=True
  )
  batch, params = _batch(), _params(objective)
  mixed = objective.prepare(batch, _RNGS)
  value, _ = _loss(objective, params, mixed)
  logits = np.asarray(objective.outputs(params, mixed)["logits"], "f8")
  shares = np.asarray(mixed["label_share"])[:, None]
  own, other = np.eye(5)[batch["label"]], np.eye(5)[mixed["other_label"]]
  targets = (shares * own + (1 - shares) * other > 0).astype(float)
  wanted = np.logaddexp(0, logits) - targets * logits
  np.testing.assert_allclose(value, wanted.mean(), rtol=1e-5)


def test_images_that_are_not_mixed_keep_one_target():
  objective = _objective(
    mixup_alpha=0.8,
    loss="sigmoid_mean",
    binarize_targets=True,
    mix_probability=0.0,
  )
  batch, params = _batch(), _params(objective)
  mixed = objective.prepare(batch, _RNGS)
  plain = _objective(loss="sigmoid_mean")
  found, wanted = _loss(objective, params, mixed), _loss(plain, params, batch)
  np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_softmax_targets_of_mixed_images_are_those_of_timm(smoothing):
  """`mixup_target`: smoothed one-hot rows, off = s / K, mixed by the share."""
  objective = _objective(
    mixup_alpha=0.8, label_smoothing=smoothing, mix_mode="elem"
  )
  batch, params = _batch(), _params(objective)
  mixed = objective.prepare(batch, _RNGS)
  value, _ = _loss(objective, params, mixed)
  logits = np.asarray(objective.outputs(params, mixed)["logits"], "f8")
  off = smoothing / 5

  def one_hot(labels):
    return np.eye(5)[labels] * (1 - smoothing) + off

  shares = np.asarray(mixed["label_share"], "f8")[:, None]
  targets = shares * one_hot(batch["label"])
  targets += (1 - shares) * one_hot(mixed["other_label"])
  log_probabilities = logits - np.log(np.exp(logits).sum(1, keepdims=True))
  wanted = -(targets * log_probabilities).sum(1).mean()
  np.testing.assert_allclose(value, wanted, rtol=1e-5)


def test_erasing_comes_before_mixing_and_changes_no_label():
  keys = dict(mixup_alpha=0.4)
  erased = _objective(erase_probability=1.0, **keys).prepare(_batch(), _RNGS)
  plain = _objective(**keys).prepare(_batch(), _RNGS)
  for name in ("label", "other_label", "label_share"):
    np.testing.assert_array_equal(erased[name], plain[name])
  assert (erased["image"] != plain["image"]).any(axis=(1, 2, 3)).all()
  alone = _objective(erase_probability=1.0).prepare(_batch(), _RNGS)
  assert "label_share" not in alone
  assert alone["image"].dtype == jnp.float32


@pytest.mark.parametrize(
  ("train", "objective", "words"),
  [
    (
      {"batch_size": 7},
      {"mixup_alpha": 0.2, "mix_mode": "pair"},
      ["batch_size = 7 is odd", "use 8"],
    ),
    (
      {"batch_size": 3, "repeats": 3},
      {"cutmix_alpha": 1.0},
      ["repeated 3 times", "use 6 or more"],
    ),
    (
      {"batch_size": 1},
      {"mixup_alpha": 0.8},
      ["holds one example, so that there is none to mix", "use 2 or more"],
    ),
    ({}, {"binarize_targets": True}, ["binarize_targets", "'sigmoid_mean'"]),
    (
      {},
      {"loss": "sigmoid", "binarize_targets": True, "label_smoothing": 0.1},
      ["label_smoothing = 0.1", "without smoothing"],
    ),
  ],
)
def test_keys_that_do_not_go_together_are_named(train, objective, words):
  config = _config(**objective)
  config = config.model_copy(
    update={"train": config.train.model_copy(update=train)}
  )
  with pytest.raises(UserError) as caught:
    _built(config)
  assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("freeze", ["backbone", "(embedding|cls|Transf).*"])
def test_a_frozen_backbone_has_a_forward_pass_alone(freeze):
  """A third of the three passes of a step; the head has all of them."""
  config = _config(model=dict(pool="gap"))
  optimizer = config.optimizer.model_copy(update={"freeze": freeze})
  held = config.model_copy(update={"optimizer": optimizer})
  head = 2 * 16 * 5
  whole = build.forward_flops(config, num_classes=5)
  found = build.forward_flops(held, num_classes=5)
  assert found == (whole - head) // 3 + head
