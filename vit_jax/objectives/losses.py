"""Classification losses and accuracy from integer labels, in float32.

Labels are one class per row, `[b]`, or a set of classes per row, `[b, labels]`
padded with -1. Rows of classes are never stored: they are compared with the
class indices inside the reduction, which XLA fuses.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def multi_hot(
  labels: Int[Array, "b ..."], num_classes: int
) -> Float[Array, "b classes"]:
  """Returns 1 at the classes of each row's set, 0 elsewhere; -1 is ignored."""
  labels = labels.reshape(len(labels), -1, 1)
  classes = jnp.arange(num_classes).reshape(1, 1, -1)
  return (labels == classes).any(axis=1).astype(jnp.float32)


def softmax_cross_entropy(
  logits: Float[Array, "b classes"],
  labels: Int[Array, "b ..."],
  *,
  label_smoothing: float = 0.0,
) -> Float[Array, " b"]:
  """Cross-entropy between the labels and softmax(logits).

  Args:
    logits: Scores.
    labels: A set of labels is a uniform distribution over its members; a row
      without any has loss 0.
    label_smoothing: Probability mass moved from the labels and spread evenly
      over all classes.

  Returns:
    Loss of each row, nats.
  """
  logits = logits.astype(jnp.float32)
  num_classes = logits.shape[-1]
  target = multi_hot(labels, num_classes)
  num_labels = target.sum(axis=1, keepdims=True)
  target = target / jnp.maximum(num_labels, 1)
  labelled = (num_labels > 0).astype(jnp.float32)
  target = (
    1 - label_smoothing
  ) * target + labelled * label_smoothing / num_classes
  return -jnp.sum(target * jax.nn.log_softmax(logits), axis=1)


def sigmoid_cross_entropy(
  logits: Float[Array, "b classes"],
  labels: Int[Array, "b ..."],
  *,
  label_smoothing: float = 0.0,
) -> Float[Array, " b"]:
  """Binary cross-entropy of every class, summed over the classes.

  The sum, not the mean, is what big_vision and the ImageNet-21k runs of the
  paper's authors minimise.

  Args:
    logits: Scores.
    labels: Classes whose target is 1; that of all others is 0.
    label_smoothing: Targets become 1 - label_smoothing and label_smoothing,
      the form of the ImageNet runs from scratch (1e-4); below 0.5.

  Returns:
    Loss of each row, nats.
  """
  logits = logits.astype(jnp.float32)
  target = multi_hot(labels, logits.shape[-1])
  target = label_smoothing + (1 - 2 * label_smoothing) * target
  return jnp.sum(jax.nn.softplus(logits) - target * logits, axis=1)


def mean_sigmoid_cross_entropy(
  logits: Float[Array, "b classes"],
  labels: Int[Array, "b ..."],
  *,
  label_smoothing: float = 0.0,
) -> Float[Array, " b"]:
  """`sigmoid_cross_entropy` averaged over the classes, as in DeiT III."""
  total = sigmoid_cross_entropy(logits, labels, label_smoothing=label_smoothing)
  return total / logits.shape[-1]


LOSSES = {
  "softmax": softmax_cross_entropy,
  "sigmoid": sigmoid_cross_entropy,
  "sigmoid_mean": mean_sigmoid_cross_entropy,
}
# Activation -> function that converts logits to probabilities.
PROBABILITIES = {"softmax": jax.nn.softmax, "sigmoid": jax.nn.sigmoid}


def is_top1(
  logits: Float[Array, "b classes"], labels: Int[Array, "b ..."]
) -> Bool[Array, " b"]:
  """Returns True where the top-scoring class is among the row's labels."""
  labels = labels.reshape(len(labels), -1)
  return (labels == jnp.argmax(logits, axis=1)[:, None]).any(axis=1)
