"""Muon's view of a Vision Transformer: its matrices and their axes.

The kernels of the encoder blocks are orthogonalised (arXiv 2502.16982); the
patch embedding, position embeddings, norms, biases and heads are not.
"""

import math
from typing import Any

import jax
import optax
from optax import contrib

from vit_jax import trees
from vit_jax.optim import encoder_blocks

# Typical update RMS of Adam, so that rates and decay can be shared with it.
_RMS = 0.2


def labels(params: Any) -> Any:
  """Labels each array 'matrices' or 'others'."""
  return trees.map_named(
    lambda path, _: (
      "matrices"
      if encoder_blocks.is_in_block(path) and path.endswith("/kernel")
      else "others"
    ),
    params,
  )


def dimensions(params: Any) -> Any:
  """Returns input and output axes of block kernels; heads are features.

  The first axis of layers stacked by scan_layers is excluded: each layer is a
  separate matrix.

  Args:
    params: Arrays that are all 'matrices'.
  """

  def axes(path: str, leaf: Any) -> contrib.MuonDimensionNumbers:
    first = 1 if encoder_blocks.is_stacked(path) else 0
    is_out = path.endswith("/out/kernel")  # [heads, head_dim, width]
    num_inputs = leaf.ndim - first - 1 if is_out else 1
    split = first + num_inputs
    return contrib.MuonDimensionNumbers(
      tuple(range(first, split)), tuple(range(split, leaf.ndim))
    )

  return trees.map_named(axes, params)


def scale_by_muon(
  *, momentum: float, eps: float, mu_dtype: str
) -> optax.GradientTransformation:
  """Orthogonalises momentum and scales it to an RMS of 0.2.

  Args:
    momentum: Decay of the Nesterov momentum.
    eps: Added to norms before dividing by them.
    mu_dtype: Dtype in which the momentum is stored.
  """

  def scale(updates: optax.Updates, params: Any = None) -> optax.Updates:
    del params

    def one(update: Any, axes: contrib.MuonDimensionNumbers) -> Any:
      sides = [
        math.prod(update.shape[axis] for axis in group) for group in axes
      ]
      return update * (_RMS * math.sqrt(max(sides)))

    return jax.tree.map(one, updates, dimensions(updates))

  return optax.chain(
    contrib.scale_by_muon(
      beta=momentum,
      eps=eps,
      mu_dtype=mu_dtype,
      weight_dimension_numbers=dimensions,
    ),
    optax.stateless(scale),
  )
