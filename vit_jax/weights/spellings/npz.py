"""google-research's .npz files, in all the spellings they have had."""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.weights import architecture, archive, flat, network, stacking
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import npz_parameters
from vit_jax.weights.spellings.registry import NPZ

_logger = logging.getLogger(__name__)

_SECTION = "vit_jax"
_LONGEST_COMMENT = 0xFFFF


def read(path: epath.Path) -> Weights:
  """The parameters of a file, and the network that they are of.

  Raises:
    UserError: the file cannot be read, or is not all understood.
  """
  where = str(path)
  contents = archive.read(
    path, lambda names: npz_parameters.find(names, where)[0]
  )
  return interpret(contents, where)


def interpret(contents: archive.Contents, path: str) -> Weights:
  """What the arrays of a file mean; arguments and errors as of `read`."""
  found, left_out = npz_parameters.find(contents.names, path)
  params = {short: contents.arrays[name] for name, short in found.items()}
  said = _said(contents.comment, path)
  families = [NPZ.get(name) for name in NPZ.names()]
  # What matches none is told by ViT's reader what it lacks.
  family = next((f for f in families if f.matches(params)), families[0])
  params = family.canonical(params, path)
  model, assumed = network.detect(params, path, said["model"])
  return Weights(
    path=path,
    model=model,
    params=flat.unflatten(params),
    assumed=(*left_out, *assumed),
    **said["use"],
  )


def write(
  path: epath.Path,
  model: schema.Model,
  params: Mapping[str, Any],
  class_names: Sequence[str] | None = None,
  *,
  preprocess: str | None = None,
  activation: str | None = None,
) -> None:
  """Writes parameters by the published names, all of them or no file at all.

  What names and shapes do not tell, such as the form of the GELU, goes into
  the comment of the archive, where `read` finds it and others do not look.

  Args:
    path: replaced if it exists.
    model: what the parameters are of.
    params: nested dict of arrays; stacked layers are written one by one.
    class_names: of the head's outputs; left out if they are too many for an
      archive's comment, 64 KiB.
    preprocess: host ops that prepare images.
    activation: of the logits, 'softmax' or 'sigmoid'.

  Raises:
    UserError: the file cannot be written.
  """
  family = NPZ.get(model.name)
  leaves = flat.flatten(stacking.unstack_layers(params))
  arrays = family.published({name: np.asarray(x) for name, x in leaves.items()})
  said: dict[str, Any] = {
    "model": {key: getattr(model, key) for key in family.unseen}
  }
  use = {"preprocess": preprocess, "activation": activation}
  said |= {key: value for key, value in use.items() if value is not None}
  if class_names is not None:
    said["class_names"] = list(class_names)
  comment = json.dumps({_SECTION: said}).encode()
  if class_names is not None and len(comment) > _LONGEST_COMMENT:
    _logger.warning(
      "%s has no room for its %d class names; they are left out.",
      path,
      len(class_names),
    )
    del said["class_names"]
    comment = json.dumps({_SECTION: said}).encode()
  archive.write(path, arrays, comment)


def _said(comment: bytes, path: str) -> dict[str, Any]:
  """What `write` put into the comment; of other writers' nothing is taken.

  Raises:
    UserError: it is damaged.
  """
  if not comment.startswith(json.dumps({_SECTION: 0})[:-2].encode()):
    return {"model": {}, "use": {}}
  try:
    said = json.loads(comment)[_SECTION]
    model, names = said["model"], said.get("class_names")
    use = {key: said.get(key) for key in ("preprocess", "activation")}
    unseen = {key for name in NPZ.names() for key in NPZ.get(name).unseen}
    if not unseen.issuperset(model):
      raise KeyError
    architecture.section(model, path)
    if names is not None and not all(isinstance(name, str) for name in names):
      raise TypeError
    if not isinstance(use["preprocess"], str | None):
      raise TypeError
    if use["activation"] not in (None, "softmax", "sigmoid"):
      raise ValueError
  except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
    raise UserError(
      f"{path} is damaged: the comment that tells the model cannot be read."
    ) from None
  return {"model": model, "use": {**use, "class_names": names}}
