"""A linear layer on feature maps, trained to classify each pixel.

Features are normalised to mean 0 and variance 1 over a batch, scaled and
shifted; the layer's logits at each position of the map are interpolated to the
pixels of the mask. The schedule and the optimizer are those of DINOv2's
released configurations for ADE20K, dinov2_*_ade20k_linear_config.py.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, UInt8

from vit_jax.data.segmentation.mask_files import IGNORED

_KERNEL_STDDEV = 0.01
_BATCH_NORM_EPSILON = 1e-5
_BATCH_NORM_MOMENTUM = 0.1  # Weight of a batch in the running statistics.
_FIRST_SHARE = 1e-6  # Fraction of the learning rate at the first step.

Maps = Float[Array, "b rows columns d"]
State = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Head:
  """The layer and its training; fields named like keys hold their values.

  Attributes:
    width: Length of a feature vector.
    num_classes: Columns of the kernel.
  """

  width: int
  num_classes: int
  steps: int
  warmup_steps: int
  learning_rate: float
  weight_decay: float

  def init(self) -> State:
    """Returns initial parameters, optimizer state and running statistics."""
    row = (1, self.width)
    shape = (self.width, self.num_classes)
    params = {
      "scale": jnp.ones(row),
      "shift": jnp.zeros(row),
      "kernel": _KERNEL_STDDEV * jax.random.normal(jax.random.key(0), shape),
      "bias": jnp.zeros((1, self.num_classes)),
    }
    return {
      "params": params,
      "opt": self._tx.init(params),
      "running": {"mean": jnp.zeros(row), "var": jnp.ones(row)},
      "step": jnp.int32(0),
    }

  def update(
    self,
    state: State,
    maps: Maps,
    label: UInt8[Array, "b side side"],
    is_example: Bool[Array, " b"],
  ) -> tuple[State, Float[Array, ""]]:
    """Performs one step; also returns the loss before it.

    Args:
      state: As returned by `init`.
      maps: Feature maps of all rows of the batch.
      label: Labels of all rows; padding rows have none.
      is_example: False for those rows, which no statistic includes.
    """
    counts = jnp.repeat(is_example, maps.shape[1] * maps.shape[2])[:, None]
    size = counts.sum()
    features = jnp.where(counts, self._rows(maps), 0)
    mean = features.sum(axis=0, keepdims=True) / size
    squares = jnp.where(counts, jnp.square(features - mean), 0)
    var = squares.sum(axis=0, keepdims=True) / size
    features = _normalized(features, mean, var)

    def loss_of(params: Mapping[str, Array]) -> Float[Array, ""]:
      scores = _scores(params, features).reshape(*maps.shape[:3], -1)
      return loss(_upsampled(scores, label.shape[-1]), label)

    value, grads = jax.value_and_grad(loss_of)(state["params"])
    updates, opt = self._tx.update(grads, state["opt"], state["params"])
    # PyTorch stores the unbiased variance.
    found = {"mean": mean, "var": var * (size / jnp.maximum(size - 1, 1))}
    state = {
      "params": optax.apply_updates(state["params"], updates),
      "opt": opt,
      "running": {
        name: (1 - _BATCH_NORM_MOMENTUM) * state["running"][name]
        + _BATCH_NORM_MOMENTUM * found[name]
        for name in found
      },
      "step": state["step"] + 1,
    }
    return state, value

  def logits(
    self, state: State, maps: Maps, side: int
  ) -> Float[Array, "b {side} {side} classes"]:
    """Computes each pixel's logits with the running statistics."""
    running = state["running"]
    features = _normalized(self._rows(maps), running["mean"], running["var"])
    scores = _scores(state["params"], features)
    return _upsampled(scores.reshape(*maps.shape[:3], -1), side)

  def rate(self, step: int | Int[Array, ""]) -> Float[Array, ""]:
    """Returns the learning rate of a step, counted from 0.

    It falls linearly to 0 after the last step, multiplied by a factor that
    rises linearly from nearly 0 to 1 during warm-up.
    """
    rate = self.learning_rate * (1 - step / jnp.float32(self.steps))
    if not self.warmup_steps:
      return rate
    risen = step / self.warmup_steps
    return rate * jnp.minimum(_FIRST_SHARE + (1 - _FIRST_SHARE) * risen, 1.0)

  def _rows(self, maps: Maps) -> Float[Array, "n d"]:
    """Stacks the features of all positions as rows."""
    return maps.astype(jnp.float32).reshape(-1, self.width)

  @property
  def _tx(self) -> optax.GradientTransformation:
    return optax.adamw(self.rate, weight_decay=self.weight_decay)


def loss(
  logits: Float[Array, "b h w classes"], label: UInt8[Array, "b h w"]
) -> Float[Array, ""]:
  """Returns the mean cross-entropy of labelled pixels; 0 if there are none."""
  is_labelled = label != IGNORED
  classes = jnp.where(is_labelled, label, 0).astype(jnp.int32)
  losses = optax.softmax_cross_entropy_with_integer_labels(logits, classes)
  total = jnp.where(is_labelled, losses, 0).sum()
  return total / jnp.maximum(is_labelled.sum(), 1)


def _normalized(
  features: Float[Array, "n d"],
  mean: Float[Array, "1 d"],
  var: Float[Array, "1 d"],
) -> Float[Array, "n d"]:
  return (features - mean) * jax.lax.rsqrt(var + _BATCH_NORM_EPSILON)


def _scores(
  params: Mapping[str, Array], features: Float[Array, "n d"]
) -> Float[Array, "n classes"]:
  features = features * params["scale"] + params["shift"]
  scores = jnp.matmul(features, params["kernel"], precision="highest")
  return scores + params["bias"]


def _upsampled(
  scores: Float[Array, "b rows columns classes"], side: int
) -> Float[Array, "b {side} {side} classes"]:
  """Interpolates between the centres of the positions."""
  batch, _, _, classes = scores.shape
  shape = (batch, side, side, classes)
  return jax.image.resize(scores, shape, "linear", antialias=False)
