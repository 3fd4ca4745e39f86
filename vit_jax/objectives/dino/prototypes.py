"""Softmaxes over many prototypes, with only a few in memory at a time.

Features of unit length are compared with K prototypes; their similarities,
divided by a temperature, are logits. K is 65,536 or more, so an array of
[tokens, K] is never materialised: prototypes are processed in chunks, of which
only sums over prototypes are kept, and logits are recomputed in the backward
pass.

A teacher's probabilities are

  p[i, k] = exp(logit[i, k] + offset[k] - norm[i])

with an offset for each prototype, which prevents any of them from dominating:
the negative centre of DINO, or the result of Sinkhorn-Knopp iterations.

The most frequent passes, those of the student and of Sinkhorn iterations, sum
exponentials without first finding the maximum: the lengths of features and
prototypes bound the logits. float32 can represent the terms of logits up to 157
below the bound, which is all of them if prototypes have unit length and the
temperature is above 0.013. Sinkhorn starts with a bound for each prototype, and
afterwards has probabilities. A student whose logits are all further below gives
NaN, which ends a run with an error message.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Real

from vit_jax.models.layers import placement
from vit_jax.objectives.dino.kind import CHUNK

Numbers = Array | np.ndarray
Temperature = Float[Numbers, ""] | float
# A million exponentials of this or less can be summed without overflow; those
# of minus this or more do not vanish.
_HIGHEST = 70.0
_LEAST = float(np.finfo(np.float32).tiny)
_SURE = 1e-28
# Blocks of rows in a chunk; as many devices can share the prototypes.
_BLOCKS = 256
Tokens = Float[Numbers, "*tokens d"]


class Teacher(NamedTuple):
  """Tokens and prototypes, with the values that define probabilities.

  Attributes:
    features: Tokens, with unit length.
    prototypes: Prototypes, with unit length.
    temperature: Temperature that divides the similarities.
    offset: Added to the logits of each prototype, float32.
    norm: Logarithm of the sum of each token's probabilities before they are
      normalised, float32.
  """

  features: Float[Numbers, "b g d"]
  prototypes: Float[Numbers, "k d"]
  temperature: Temperature
  offset: Float[Numbers, " k"]
  norm: Float[Numbers, "b g"]


class Comparison(NamedTuple):
  """A comparison of a student with its teacher, in float32.

  Attributes:
    cross_entropy: Cross-entropy of each view of the student with each of the
      teacher.
    entropy: Entropy of the teacher's probabilities for each of its views.
    used: The teacher's mean probability of each prototype.
  """

  cross_entropy: Float[Numbers, "b g v"]
  entropy: Float[Numbers, "b g"]
  used: Float[Numbers, " k"]


def chunk_size(num_prototypes: int) -> int:
  """Returns the number of prototypes that are compared at a time."""
  if num_prototypes <= CHUNK:
    return num_prototypes
  return math.gcd(num_prototypes, CHUNK)


def centred(
  features: Tokens,
  prototypes: Float[Numbers, "k d"],
  temperature: Temperature,
  center: Float[Numbers, " k"],
) -> Teacher:
  """Builds a teacher with similarities minus a centre. [DINO] equation 4."""
  offset = -center / temperature

  def of_chunk(rows, offset):
    logits = _similarities(features, rows) / temperature
    return jax.nn.logsumexp(logits + _beside(offset, logits), axis=-1)

  norms = _over_chunks(of_chunk, prototypes, offset)
  norm = jax.nn.logsumexp(norms, axis=0)
  return Teacher(features, prototypes, temperature, offset, norm)


def balanced(
  features: Tokens,
  prototypes: Float[Numbers, "k d"],
  temperature: Temperature,
  iterations: int = 3,
  weights: Float[Numbers, "*tokens"] | None = None,
) -> Teacher:
  """Builds a teacher that uses all prototypes equally, by Sinkhorn-Knopp.

  Each iteration scales the probabilities of every prototype to the same sum
  over all tokens of the global batch, then those of every token to a sum of
  one. [SwAV] appendix A, dinov2's dino_clstoken_loss.py, in logarithms.

  Args:
    features: Tokens, with unit length.
    prototypes: Prototypes, with unit length.
    temperature: Temperature that divides the similarities.
    iterations: Number of times that both are scaled.
    weights: Weight of each token, 0 for padding; None if all have weight 1.
  """
  if weights is None:
    weights = jnp.ones(features.shape[:-1], jnp.float32)
  # If everything is padding the result is unused, but it has to be finite.
  weights = jnp.where(jnp.any(weights > 0), weights, 1.0)
  tokens = tuple(range(weights.ndim))
  norm = jnp.zeros(weights.shape, jnp.float32)
  # Any initial offset will do, as prototypes are scaled first.
  offset = -_shift(_bounds(features, prototypes, temperature))
  for _ in range(iterations):

    def of_chunk(rows, offset, norm=norm):
      logits = _similarities(features, rows) / temperature
      # After the first iteration these are probabilities.
      scaled = jnp.exp(logits + _beside(offset, logits) - norm[..., None])
      sums = jnp.maximum((scaled * weights[..., None]).sum(axis=tokens), _LEAST)
      of_tokens = _weighted(scaled, 1 / sums)
      return offset - jnp.log(sums), of_tokens

    offsets, sums = _over_chunks(of_chunk, prototypes, offset)
    offset = _joined(offsets)
    norm = norm + _log(sums.sum(axis=0))
  return Teacher(features, prototypes, temperature, offset, norm)


def sinkhorn(
  logits: Float[Numbers, "n k"],
  temperature: float,
  iterations: int = 3,
  weights: Real[Numbers, " n"] | None = None,
) -> Float[Numbers, "n k"]:
  """Computes probabilities that use all prototypes equally.

  Runs Sinkhorn-Knopp like `balanced`, on logits that are in memory.

  Args:
    logits: Similarities of rows and prototypes, before the temperature.
    temperature: Temperature that divides them; results are finite for any above
      0.
    iterations: Number of times that prototypes, then rows, are scaled.
    weights: Weight of each row; a row of weight 0 does not count, and its
      result is zero. None if all have weight 1.

  Returns:
    Probabilities in float32; rows sum to 1.
  """
  logits = jnp.asarray(logits, jnp.float32)
  counted, log_weights = jnp.ones(len(logits), bool), None
  if weights is not None:
    weights = jnp.asarray(weights, jnp.float32)
    counted, log_weights = weights > 0, jnp.log(weights)
    # Padding may hold any values, which -inf would not hide.
    logits = jnp.where(counted[:, None], logits, 0.0)
  # Prototypes come first, so that adding a number to all logits of one changes
  # nothing; differences keep their precision when divided.
  most = jnp.max(logits, axis=0, keepdims=True)
  logits = (logits - most) / temperature
  norm = jnp.zeros(len(logits), jnp.float32)
  offset = jnp.zeros(logits.shape[1], jnp.float32)
  for _ in range(iterations):
    scaled = logits - norm[:, None]
    if log_weights is not None:
      scaled = scaled + log_weights[:, None]
    offset = -jax.nn.logsumexp(scaled, axis=0)
    norm = jax.nn.logsumexp(logits + offset[None], axis=1)
  found = jax.nn.softmax(logits + offset[None], axis=1)
  return jnp.where(counted[:, None], found, 0.0)


def _bounds(
  features: Tokens, prototypes: Float[Numbers, "k d"], temperature: Temperature
) -> Float[Array, " k"]:
  """Returns the largest logit that each prototype can have."""

  def lengths(x):
    return jnp.linalg.norm(x.astype(jnp.float32), axis=-1)

  return jnp.max(lengths(features)) * lengths(prototypes) / temperature


def _shift(bound: Array) -> Array:
  """Returns the shift to subtract from logits up to `bound` before exp."""
  return jax.lax.stop_gradient(jnp.maximum(bound - _HIGHEST, 0.0))


def _log(sums: Array) -> Array:
  return jnp.log(jnp.maximum(sums, _LEAST))


def _beside(offset: Float[Numbers, " k"], logits: Array) -> Array:
  """Broadcasts per-prototype numbers to the rank of the tokens' logits."""
  return offset.reshape((1,) * (logits.ndim - 1) + offset.shape)


def compare(
  features: Float[Numbers, "b v d"],
  prototypes: Float[Numbers, "k d"],
  temperature: Temperature,
  teacher: Teacher,
  weights: Float[Numbers, "b g"] | None = None,
) -> Comparison:
  """Compares a student's probabilities with a teacher's.

  Gradients reach only the student's features and prototypes.

  Args:
    features: Features of the student's views, with unit length.
    prototypes: Prototypes of the student.
    temperature: Temperature of the student.
    teacher: The teacher's probabilities of its views.
    weights: Weight of each of these in `Comparison.used`; None for 1.
  """
  if weights is None:
    weights = jnp.ones(teacher.norm.shape, jnp.float32)
  shares = weights / jnp.maximum(weights.sum(), _LEAST)
  teacher = jax.lax.stop_gradient(teacher)
  shift = _shift(jnp.max(_bounds(features, prototypes, temperature)))

  def of_chunk(rows, teachers, offset):
    logits = _similarities(features, rows) / temperature
    wanted = _similarities(teacher.features, teachers) / teacher.temperature
    wanted = wanted + _beside(offset, wanted) - teacher.norm[..., None]
    probabilities = jnp.exp(wanted)
    return (
      jnp.exp(logits - shift).sum(axis=-1),
      jnp.einsum("bgk,bvk->bgv", probabilities, logits),
      -(probabilities * wanted).sum(axis=-1),
      _weighted(probabilities.reshape(-1, len(rows)).T, shares.reshape(-1)),
    )

  sums, products, entropies, used = _over_chunks(
    of_chunk, prototypes, teacher.prototypes, teacher.offset
  )
  sums = sums.sum(axis=0)
  # Smaller sums have lost some of their terms to underflow.
  norm = shift + jnp.log(jnp.where(sums > _SURE, sums, jnp.nan))
  return Comparison(
    norm[:, None] - products.sum(axis=0),
    entropies.sum(axis=0),
    _joined(used),
  )


def _over_chunks(function: Callable[..., Any], *arrays: Numbers) -> Any:
  """Stacks the results of `function` on chunks of the rows.

  A chunk consists of blocks of rows from all over the arrays, so every device
  that holds part of the prototypes holds part of each chunk.
  """
  size = chunk_size(len(arrays[0]))
  blocks = _num_blocks(size)

  def cut(array):
    rest = array.shape[1:]
    parts = array.reshape(blocks, -1, size // blocks, *rest)
    return jnp.swapaxes(parts, 0, 1).reshape(-1, size, *rest)

  return jax.lax.map(
    jax.checkpoint(lambda chunks: function(*chunks)), tuple(map(cut, arrays))
  )


def _joined(chunks: Float[Numbers, "n c"]) -> Float[Numbers, " k"]:
  """Puts per-prototype numbers from chunks back in order."""
  num_chunks, size = chunks.shape
  blocks = _num_blocks(size)
  return jnp.swapaxes(chunks.reshape(num_chunks, blocks, -1), 0, 1).reshape(-1)


def _num_blocks(size: int) -> int:
  """Returns the number of blocks of rows in a chunk.

  The 16 rows of a block are a tile of a TPU's memory, so a chunk is copied tile
  by tile. Single rows would take four times as long.
  """
  return math.gcd(size, _BLOCKS)


def _weighted(
  terms: Float[Array, "*b n"], weights: Float[Array, " n"]
) -> Float[Array, "*b"]:
  """Sums the terms of each row, multiplied by their weights, in float32.

  For TPUs, a column of zeros makes the sums a matrix product; the compiler
  would add the terms within each vector, which takes nine times as long.
  """
  if placement.platform() != "tpu":
    return jnp.matmul(terms, weights, precision="highest")
  columns = jnp.stack([weights, jnp.zeros_like(weights)], axis=1)
  return jnp.matmul(terms, columns, precision="high")[..., 0]


def _similarities(features: Tokens, rows: Float[Numbers, "c d"]) -> Array:
  """Multiplies tokens and prototypes, in float32 with uncast factors."""
  return jnp.einsum(
    "...d,kd->...k",
    features,
    rows.astype(features.dtype),
    preferred_element_type=jnp.float32,
  )
