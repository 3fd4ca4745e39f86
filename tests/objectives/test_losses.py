import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from vit_jax.objectives import losses

_LOGITS = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32) * 3
_LABELS = np.array([0, 5, 2, 2])
_SETS = np.array([[0, -1, -1], [5, 1, -1], [-1, -1, -1], [2, 3, 2]])


def _rows(labels):
  return np.asarray(losses.multi_hot(jnp.asarray(labels), 6))


def _softmax_loss(logits, targets):
  logits = logits.astype(np.float64)
  log_sum = np.log(np.exp(logits).sum(axis=1, keepdims=True))
  return -(targets * (logits - log_sum)).sum(axis=1)


def _sigmoid_loss(logits, targets):
  probability = 1 / (1 + np.exp(-logits.astype(np.float64)))
  terms = targets * np.log(probability) + (1 - targets) * np.log1p(-probability)
  return -terms.sum(axis=1)


def test_rows_have_ones_at_the_labels_and_padding_has_none():
  np.testing.assert_array_equal(_rows(_LABELS), np.eye(6)[_LABELS])
  np.testing.assert_array_equal(
    _rows(_SETS),
    [
      [1, 0, 0, 0, 0, 0],
      [0, 1, 0, 0, 0, 1],
      [0, 0, 0, 0, 0, 0],
      [0, 0, 1, 1, 0, 0],
    ],
  )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("labels", [_LABELS, _SETS])
def test_softmax_loss_is_numpys(labels, smoothing):
  rows = _rows(labels)
  targets = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1)
  labelled = rows.any(axis=1, keepdims=True)
  targets = (1 - smoothing) * targets + smoothing / 6 * labelled
  loss = losses.softmax_cross_entropy(
    jnp.asarray(_LOGITS), jnp.asarray(labels), label_smoothing=smoothing
  )
  np.testing.assert_allclose(loss, _softmax_loss(_LOGITS, targets), rtol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 1e-4, 0.1])
@pytest.mark.parametrize("labels", [_LABELS, _SETS])
def test_sigmoid_loss_is_numpys_sum_over_classes(labels, smoothing):
  targets = np.where(_rows(labels) == 1, 1 - smoothing, smoothing)
  loss = losses.sigmoid_cross_entropy(
    jnp.asarray(_LOGITS), jnp.asarray(labels), label_smoothing=smoothing
  )
  np.testing.assert_allclose(loss, _sigmoid_loss(_LOGITS, targets), rtol=1e-5)


def test_losses_are_optaxs_for_single_labels():
  logits, labels = jnp.asarray(_LOGITS), jnp.asarray(_LABELS)
  np.testing.assert_allclose(
    losses.softmax_cross_entropy(logits, labels),
    optax.softmax_cross_entropy_with_integer_labels(logits, labels),
    rtol=1e-5,
  )
  np.testing.assert_allclose(
    losses.sigmoid_cross_entropy(logits, labels),
    optax.sigmoid_binary_cross_entropy(logits, jnp.eye(6)[labels]).sum(axis=1),
    rtol=1e-5,
  )


@pytest.mark.parametrize("loss", losses.LOSSES.values())
def test_extreme_logits_have_finite_loss_and_gradient(loss):
  logits = jnp.asarray([[1e4, -1e4, 0.0]])
  value, gradient = jax.value_and_grad(lambda x: loss(x, jnp.array([1])).sum())(
    logits
  )
  mean = loss is losses.mean_sigmoid_cross_entropy
  np.testing.assert_allclose(value, 2e4 / 3 if mean else 2e4, rtol=1e-4)
  assert np.isfinite(gradient).all()


@pytest.mark.parametrize("loss", losses.LOSSES.values())
def test_bfloat16_logits_are_reduced_in_float32(loss):
  logits = jnp.asarray(_LOGITS, jnp.bfloat16)
  value = loss(logits, jnp.asarray(_LABELS))
  assert value.dtype == jnp.float32
  np.testing.assert_array_equal(
    value, loss(logits.astype(jnp.float32), jnp.asarray(_LABELS))
  )


def test_fresh_head_with_bias_minus_ten_has_the_known_loss():
  # 21,843 classes at probability sigmoid(-10), one of which is right.
  loss = losses.sigmoid_cross_entropy(
    jnp.full((1, 21_843), -10.0), jnp.array([7])
  )
  expected = 21_843 * np.log1p(np.exp(-10.0)) + 10
  np.testing.assert_allclose(loss, [expected], rtol=1e-5)


def test_top1_is_membership_of_the_highest_class():
  logits = jnp.eye(6)[jnp.asarray([0, 1, 2, 4])]
  np.testing.assert_array_equal(
    losses.is_top1(logits, jnp.asarray(_LABELS)), [True, False, True, False]
  )
  np.testing.assert_array_equal(
    losses.is_top1(logits, jnp.asarray(_SETS)), [True, True, False, False]
  )
