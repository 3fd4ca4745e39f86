"""google-research's .npz files, in all the spellings they have had."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.weights import (
  architecture,
  archive,
  bit,
  flat,
  published_names,
  stacking,
)
from vit_jax.weights.contract import Weights

# Keys of the model that neither names nor shapes tell.
_UNSEEN_OF_RESNETS = ("image_size", "normalize", "standardization")
_UNSEEN = (
  *_UNSEEN_OF_RESNETS,
  "drop_remainder",
  "pool",
  "pos_embedding",
  "pos_embedding_at",
  "pos_embedding_resize",
  "gelu",
  "layer_norm_eps",
)
_SECTION = "vit_jax"
_LONGEST_COMMENT = 0xFFFF


def read(path: epath.Path) -> Weights:
  """The parameters of a file, and the network that they are of.

  Raises:
    UserError: the file cannot be read, or is not all understood.
  """
  where = str(path)
  left_out: list[str] = []
  short_names: dict[str, str] = {}

  def select(names: list[str]) -> list[str]:
    found, sentences = published_names.parameters(names, where)
    left_out.extend(sentences)
    short_names.update(found)
    return list(found)

  arrays, comment = archive.read(path, select)
  said = _said(comment, where)
  params = {short_names[name]: array for name, array in arrays.items()}
  if bit.is_resnet(params):
    params = bit.canonical(params, where)
    model, assumed = bit.infer(params, where, said["model"])
  else:
    params = published_names.canonical(params, where)
    model, assumed = architecture.infer(params, where, said["model"])
  return Weights(
    path=where,
    model=model,
    params=flat.unflatten(params),
    class_names=said["class_names"],
    assumed=(*left_out, *assumed),
  )


def write(
  path: epath.Path,
  model: schema.Model,
  params: Mapping[str, Any],
  class_names: Sequence[str] | None = None,
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

  Raises:
    UserError: the file cannot be written.
  """
  leaves = flat.flatten(stacking.unstack_layers(params))
  arrays = {name: np.asarray(leaf) for name, leaf in leaves.items()}
  unseen = {
    key: value for key, value in model.model_dump().items() if key in _UNSEEN
  }
  said: dict[str, Any] = {"model": unseen}
  if class_names is not None:
    said["class_names"] = list(class_names)
  comment = json.dumps({_SECTION: said}).encode()
  if len(comment) > _LONGEST_COMMENT:
    del said["class_names"]
    comment = json.dumps({_SECTION: said}).encode()
  archive.write(path, arrays, comment)


def _said(comment: bytes, path: str) -> dict[str, Any]:
  """What `write` put into the comment; of other writers' nothing is taken.

  Raises:
    UserError: it is damaged.
  """
  if not comment.startswith(json.dumps({_SECTION: 0})[:-2].encode()):
    return {"model": {}, "class_names": None}
  try:
    said = json.loads(comment)[_SECTION]
    model, names = said["model"], said.get("class_names")
    if not all(key in _UNSEEN for key in model):
      raise KeyError
    if names is not None and not all(isinstance(name, str) for name in names):
      raise TypeError
  except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
    raise UserError(
      f"{path} is damaged: the comment that tells the model cannot be read."
    ) from None
  return {"model": model, "class_names": names}
