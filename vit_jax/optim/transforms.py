"""Optimizers by name, which map gradients to updates to add.

All have the same signature, `f(optimizer, learning_rate, decay)`: the section
of the config, the schedule of the rate, and the weight decay. The latter is
decoupled and multiplied by the learning rate, as in optax.adamw and the paper's
numbers, except where the method itself applies it elsewhere. The first moment
is stored in `optimizer.mu_dtype`; all arithmetic is in float32.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from etils import epy

from vit_jax.config import schema
from vit_jax.optim.schedules import Schedule

with epy.lazy_imports():  # Checking a name must not load jax.
  import jax.numpy as jnp
  import optax

  from vit_jax import trees
  from vit_jax.optim import encoder_blocks, muon_matrices, trust_ratio

Transform = "optax.GradientTransformation"


@dataclasses.dataclass(frozen=True)
class Decay:
  """Weight decay.

  Attributes:
    rate: A number, or a function of the updates done.
    factors: Path of a parameter -> factor of the rate; 0 if it does not decay.
  """

  rate: float | Schedule
  factors: Mapping[str, float]

  def mask(self, tree: Any) -> Any:
    """Returns a tree of bools like `tree`, True for parameters that decay."""
    return trees.map_named(lambda path, _: self.factors[path] > 0, tree)


def adam(
  optimizer: schema.Optimizer, learning_rate: Schedule, decay: Decay
) -> Transform:
  """Adam without weight decay."""
  del decay
  return optax.adam(learning_rate, **_adam_options(optimizer))


def adamw(
  optimizer: schema.Optimizer, learning_rate: Schedule, decay: Decay
) -> Transform:
  """Adam with decoupled weight decay (arXiv 1711.05101)."""
  return optax.chain(
    optax.scale_by_adam(**_adam_options(optimizer)),
    _add(decay),
    optax.scale_by_learning_rate(learning_rate),
  )


def sgd(
  optimizer: schema.Optimizer, learning_rate: Schedule, decay: Decay
) -> Transform:
  """SGD with momentum, as for fine-tuning in the paper.

  Decay does not pass through the momentum: for the effect of a coupled decay of
  w (PyTorch, BiT), set w / (1 - momentum).
  """
  return optax.chain(
    _momentum(optimizer),
    _add(decay),
    optax.scale_by_learning_rate(learning_rate),
  )


def lars(
  optimizer: schema.Optimizer, learning_rate: Schedule, decay: Decay
) -> Transform:
  """LARS (arXiv 1708.03888): layer-wise rates under SGD with momentum.

  Decay is included in the trust ratio; arrays that do not decay (biases, norms)
  take plain SGD steps. The trust coefficient is optax's, 0.001.
  """
  return optax.chain(
    _add(decay),
    optax.masked(
      encoder_blocks.per_layer(
        optax.scale_by_trust_ratio(trust_coefficient=0.001)
      ),
      decay.mask,
    ),
    optax.scale_by_learning_rate(learning_rate),
    _momentum(optimizer),
  )


def lamb(
  optimizer: schema.Optimizer, learning_rate: Schedule, decay: Decay
) -> Transform:
  """LAMB (arXiv 1904.00962): layer-wise rates under Adam, decay included.

  Arrays that `decay_mask` leaves out (biases, norms, LayerScale) take plain
  Adam steps, as in NVIDIA's FusedLAMB (apex, `use_nvlamb=False`), which trained
  DeiT III. If the decay is 0, FusedLAMB does so for all arrays; here, as in the
  paper, arrays in the mask keep their layer-wise rates. In DeiT III, queries,
  keys and values of a layer are one matrix with one rate, and are treated as
  such here.
  """
  return optax.chain(
    optax.scale_by_adam(**_adam_options(optimizer)),
    _add(decay),
    optax.masked(
      encoder_blocks.per_layer(trust_ratio.scale_by_joint_trust_ratio()),
      decay.mask,
    ),
    optax.scale_by_learning_rate(learning_rate),
  )


def lion(
  optimizer: schema.Optimizer, learning_rate: Schedule, decay: Decay
) -> Transform:
  """Lion (arXiv 2302.06675); its authors use b2 0.99 and 1/10 of the rate."""
  return optax.chain(
    optax.scale_by_lion(
      b1=optimizer.b1, b2=optimizer.b2, mu_dtype=optimizer.mu_dtype
    ),
    _add(decay),
    optax.scale_by_learning_rate(learning_rate),
  )


def adafactor(
  optimizer: schema.Optimizer, learning_rate: Schedule, decay: Decay
) -> Transform:
  """Adafactor as in Scaling Vision Transformers (arXiv 2106.04560).

  The second moment is factored; its decay grows as 1 - t**-0.8 and is capped at
  b2. The first moment, with b1, may be bfloat16. The update of an array is
  clipped to an RMS of `clipping_threshold` and not scaled by the parameters, so
  that rates are comparable to Adam's.
  """

  def second_decay(step: Any, exponent: Any) -> Any:
    count = jnp.asarray(step, jnp.float32) + 1
    return jnp.minimum(optimizer.b2, 1 - count**-exponent)

  threshold = optimizer.clipping_threshold
  return optax.chain(
    encoder_blocks.per_layer(
      optax.scale_by_factored_rms(
        min_dim_size_to_factor=32, decay_rate_fn=second_decay
      )
    ),
    encoder_blocks.per_layer(
      optax.identity()
      if threshold is None
      else optax.clip_by_block_rms(threshold)
    ),
    optax.ema(optimizer.b1, debias=False, accumulator_dtype=optimizer.mu_dtype),
    _add(decay),
    optax.scale_by_learning_rate(learning_rate),
  )


def muon(
  optimizer: schema.Optimizer, learning_rate: Schedule, decay: Decay
) -> Transform:
  """Muon for the matrices of the encoder blocks, AdamW for everything else.

  Both have the same rate and weight decay; the momentum is Nesterov momentum,
  for which Muon's authors use 0.95.
  """
  matrices = optax.chain(
    muon_matrices.scale_by_muon(
      momentum=optimizer.momentum,
      eps=optimizer.eps,
      mu_dtype=optimizer.mu_dtype,
    ),
    _add(decay),
    optax.scale_by_learning_rate(learning_rate),
  )
  others = adamw(optimizer, learning_rate, decay)
  return optax.partition(
    {"matrices": matrices, "others": others}, muon_matrices.labels
  )


OPTIMIZERS = {
  "adam": adam,
  "adamw": adamw,
  "sgd": sgd,
  "lars": lars,
  "lamb": lamb,
  "lion": lion,
  "adafactor": adafactor,
  "muon": muon,
}


def _adam_options(optimizer: schema.Optimizer) -> dict[str, Any]:
  return {
    "b1": optimizer.b1,
    "b2": optimizer.b2,
    "eps": optimizer.eps,
    "mu_dtype": optimizer.mu_dtype,
  }


def _add(decay: Decay) -> Transform:
  decays_any = any(decay.factors.values())
  if not decays_any or not (callable(decay.rate) or decay.rate):
    return optax.identity()

  def with_factor(factor: float) -> Transform:
    def rate(step: Any) -> Any:
      return factor * decay.rate(step)

    def mask(tree: Any) -> Any:
      return trees.map_named(
        lambda path, _: decay.factors[path] == factor, tree
      )

    return optax.add_decayed_weights(
      rate if callable(decay.rate) else factor * decay.rate, mask
    )

  parts = [with_factor(x) for x in sorted(set(decay.factors.values())) if x]
  return parts[0] if len(parts) == 1 else optax.chain(*parts)


def _momentum(optimizer: schema.Optimizer) -> Transform:
  return optax.trace(
    decay=optimizer.momentum,
    nesterov=optimizer.nesterov,
    accumulator_dtype=optimizer.mu_dtype,
  )
