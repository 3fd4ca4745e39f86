"""Writing parameters in a published form."""

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
from vit_jax.weights.spellings.two_towers import open_clip_write


def save(
  path: str,
  model: nn.Module,
  params: Mapping[str, Any],
  *,
  class_names: Sequence[str] | None = None,
  numbers: Sequence[str] | None = None,
) -> None:
  """Saves a model and its parameters, to be loaded with `vit_jax.load`.

  The path decides the form: NAME.npz is a file with google-research's names,
  a path without a suffix is a Hugging Face directory. (Workdirs are written by
  training.) Nothing is left half written.

  Args:
    path: Where to save. An existing .npz is replaced; an existing directory is
      an error.
    model: Flax module made by `load` or `create_model`.
    params: Parameters of `model`, a nested dict.
    class_names: Names of the head's outputs, in order.
    numbers: Names of the numbers that the head predicts, if it has these in
      place of classes.

  Raises:
    UserError: The form cannot hold the model, there is not one name for each
      output, or the path cannot be written.

  Example:
    model, params = vit_jax.load("B_16.npz", num_classes=10)
    vit_jax.save("b16_ten_classes", model, params)
  """
  leaves = flat.flatten(params)
  config = build.config_of(model)
  if class_names is not None and numbers is not None:
    raise UserError(
      "The head has either classes or numbers to predict; give class_names or"
      " numbers."
    )
  names = class_names if numbers is None else numbers
  if names is not None and len(names) != config.num_classes:
    key = "class_names" if numbers is None else "numbers"
    raise UserError(
      f"{key} has {len(names)} names and the head {config.num_classes or 0}"
      " outputs; give one name for each output."
    )
  weights = Weights(
    path=path,
    model=config,
    params=flat.unflatten({name: np.asarray(x) for name, x in leaves.items()}),
    class_names=names,
    activation=None if numbers is None else "none",
  )
  suffix = epath.Path(path).suffix
  if suffix not in ("", ".npz"):
    raise UserError(
      f"{path} ends in '{suffix}', which is no form that is written; give"
      " a NAME.npz, or a name without a suffix for a Hugging Face directory."
    )
  write(path, weights, "npz" if suffix else "huggingface")


def write(
  path: str, weights: Weights, form: str, card: str | None = None
) -> None:
  """Writes weights in a published form.

  Args:
    path: Where to write, as for `save`.
    weights: Network and parameters; stacked layers are written one by one.
    form: 'npz', 'huggingface' or 'open_clip'.
    card: Text of a directory's README.md.

  Raises:
    UserError: The form cannot hold the model, or the path cannot be written.
  """
  if form == "npz":
    npz.write(epath.Path(path), weights)
  elif form == "open_clip":
    open_clip_write.write(path, weights)
  else:
    huggingface.write(path, weights, card)
