"""Writing parameters in a published format."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import flax.linen as nn
import numpy as np
from etils import epath

from vit_jax import registry, truncate
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.weights import flat, shape_mismatches, stacking
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import huggingface, npz, timm_write
from vit_jax.weights.spellings.two_towers import open_clip_write
from vit_jax.weights.spellings.unwritable import Unwritable

_logger = logging.getLogger(__name__)


def save(
  path: str,
  model: nn.Module,
  params: Mapping[str, Any],
  *,
  form: str | None = None,
  class_names: Sequence[str] | None = None,
  numbers: Sequence[str] | None = None,
) -> None:
  """Saves a model and its parameters, for use with `vit_jax.load`.

  The path determines the format: NAME.npz is a file with google-research's
  names, NAME.safetensors a file with timm's names, and a path without a suffix
  a directory in Hugging Face's format if it has such a network, else in timm's.
  (Workdirs are written by training.) Nothing is left partially written.

  Args:
    path: Path to save to. An existing file is replaced; an existing directory
      is an error.
    model: Flax module from `load` or `create_model`.
    params: All parameters of `model` and no others, as a nested dict.
    form: 'huggingface', 'timm' or 'open_clip' to require a directory in that
      format; None for the choice above.
    class_names: Names of the head's outputs, in order.
    numbers: Names of the numbers that the head predicts, if it predicts numbers
      instead of classes.

  Raises:
    UserError: The parameters are not the model's, the format cannot hold the
      model, there is not one name per output, or the path cannot be written.

  Example:
    model, params = vit_jax.load("B_16.npz", num_classes=10)
    vit_jax.save("b16_ten_classes", model, params)
    vit_jax.save("b16_for_timm", model, params, form="timm")
  """
  form = _form(path, form)
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
  _check_params(weights)
  if form is None:
    form, reason = directory_form(config)
    if reason is not None:
      _logger.warning("%s is written in timm's form: %s.", path, reason)
  for note in write(path, weights, form):
    _logger.warning("%s: %s.", path, note)


def _check_params(weights: Weights) -> None:
  """Raises UserError unless these are exactly the network's parameters."""
  model = weights.model
  layers = flat.flatten(stacking.unstack_layers(weights.params))
  misfits = shape_mismatches.find(
    {name: np.shape(layer) for name, layer in layers.items()},
    registry.FAMILIES.get(model.name).shapes(model, model.num_classes),
  )
  if not misfits:
    return
  start = f"{weights.path} is not written:"
  if set(weights.params) == {"params"}:
    raise UserError(
      f"{start} params are Flax's variables, which hold the parameters as"
      " 'params'; give variables['params']."
    )
  said = [
    f"'{misfit.parameter}' "
    + (
      "is not there"
      if misfit.in_file is None
      else "is none of the model's"
      if misfit.wanted is None
      else f"is {misfit.in_file} instead of {misfit.wanted}"
    )
    for misfit in misfits
  ]
  raise UserError(
    f"{start} params are not those of the model."
    f" {truncate.first(said, 5, separator='; ')}. Give the model's own"
    " parameters, all of them and no others."
  )


def directory_form(model: schema.Model) -> tuple[str, str | None]:
  """Chooses the format in which a directory can hold a network.

  Returns:
    'huggingface', or 'timm' and the reason.

  Raises:
    UserError: Neither can hold it; the message names the keys.
  """
  try:
    huggingface.check(model)
  except Unwritable as refusal:
    try:
      timm_write.check(model)
    except Unwritable as other:
      raise Unwritable(f"{refusal.reason}, and {other.reason}") from None
    return "timm", refusal.reason
  return "huggingface", None


def write(
  path: str, weights: Weights, form: str, card: str | None = None
) -> Sequence[str]:
  """Writes weights in a published format.

  Args:
    path: Path to write to, as for `save`.
    weights: Network and parameters; stacked layers are written unstacked.
    form: 'npz', 'safetensors' or a directory format.
    card: Text of a directory's README.md.

  Returns:
    A sentence about each thing that the format expresses only approximately.

  Raises:
    UserError: The format cannot hold the model, or the path cannot be written.
  """
  try:
    if form == "timm":
      return timm_write.write(path, weights, card)
    if form == "safetensors":
      return timm_write.write_file(path, weights)
    if form == "huggingface":
      return huggingface.write(path, weights, card)
  except Unwritable as error:
    raise _advised(error, weights.model, form) from None
  if form == "open_clip":
    return open_clip_write.write(path, weights)
  npz.write(epath.Path(path), weights)
  return ()


def _advised(error: Unwritable, model: schema.Model, form: str) -> Unwritable:
  """Returns a refusal with the directory that can hold the network, if any."""
  other, library, check = ("huggingface", "Hugging Face", huggingface.check)
  if form == "huggingface":
    other, library, check = ("timm", "timm", timm_write.check)
  try:
    check(model)
  except UserError:
    return error
  return Unwritable(
    error.reason,
    f"A name without a suffix, in the form '{other}', is a directory of"
    f" {library}, which can hold this network; so can a NAME.npz or a workdir.",
  )


def _form(path: str, form: str | None) -> str | None:
  """Returns the requested format; None for any directory format.

  Raises:
    UserError: There is no such format, or the path has another format's suffix.
  """
  suffix = epath.Path(path).suffix
  if form is not None and form not in _DIRECTORIES:
    raise UserError(
      f"form = {form!r} is not known; directories are written as"
      f" {', '.join(map(repr, _DIRECTORIES))}, files by the suffix of the path."
    )
  if form is not None and suffix in _BY_SUFFIX:
    raise UserError(
      f"{path} ends in '{suffix}', but form = {form!r} is a directory; give a"
      " name without a suffix."
    )
  if form is None and suffix and suffix not in _BY_SUFFIX:
    raise UserError(
      f"{path} ends in '{suffix}', a form that cannot be written; give a"
      " NAME.npz, a NAME.safetensors, or a name without a suffix for a"
      " directory."
    )
  return _BY_SUFFIX.get(suffix, form)


_DIRECTORIES = ("huggingface", "timm", "open_clip")
_BY_SUFFIX = {".npz": "npz", ".safetensors": "safetensors"}
