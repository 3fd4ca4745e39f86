"""Parameters written in a published form."""

from collections.abc import Mapping, Sequence
from typing import Any

import flax.linen as nn
import numpy as np
from etils import epath

from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.weights import flat
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import huggingface, npz


def save(
  path: str,
  model: nn.Module,
  params: Mapping[str, Any],
  *,
  class_names: Sequence[str] | None = None,
) -> None:
  """Writes a model, so that `load` gives it back.

  The form goes by the path: NAME.npz is a file with google-research's names,
  any other path without a suffix is a Hugging Face directory. (Our own
  workdirs are written by training.) Nothing is left half written.

  Args:
    path: an .npz is replaced if it exists; a directory must not exist yet.
    model: of `load` or `create_model`.
    params: its parameters.
    class_names: of the head's outputs.

  Raises:
    UserError: the model cannot be told in that form, or the path cannot be
      written to.
  """
  weights = Weights(
    path=path,
    model=build.config_of(model),
    params=_as_numpy(params),
    class_names=class_names,
  )
  write(path, weights)


def write(path: str, weights: Weights, card: str | None = None) -> None:
  """Writes weights in the form that the path asks for, as `save` says.

  Args:
    path: an .npz is replaced if it exists; a directory must not exist yet.
    weights: layers stacked or not; they are written one by one.
    card: README.md of a directory.

  Raises:
    UserError: as `save`.
  """
  where = epath.Path(path)
  if where.suffix == ".npz":
    npz.write(
      where,
      weights.model,
      weights.params,
      weights.class_names,
      preprocess=weights.preprocess,
      activation=weights.activation,
    )
  elif where.suffix:
    raise UserError(
      f"{path} ends in '{where.suffix}', which is no form that is written; give"
      " a NAME.npz, or a name without a suffix for a Hugging Face directory."
    )
  else:
    huggingface.write(path, weights, card)


def _as_numpy(params: Mapping[str, Any]) -> dict[str, Any]:
  leaves = flat.flatten(params)
  return flat.unflatten({name: np.asarray(x) for name, x in leaves.items()})
