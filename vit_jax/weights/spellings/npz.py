"""google-research's .npz files, in all their naming schemes."""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
from etils import epath

from vit_jax.config import resolve, schema
from vit_jax.errors import UserError
from vit_jax.registry import FAMILIES
from vit_jax.weights import archive, flat, network, stacking
from vit_jax.weights.contract import Activation, Weights
from vit_jax.weights.spellings import npz_parameters
from vit_jax.weights.spellings.contract import Npz
from vit_jax.weights.spellings.registry import NPZ

_logger = logging.getLogger(__name__)

_SECTION = "vit_jax"
_LONGEST_COMMENT = 0xFFFF


def read(path: epath.Path) -> Weights:
  """Reads the parameters in a file and detects their network.

  Raises:
    UserError: The file cannot be read, or is not fully understood.
  """
  where = str(path)
  contents = archive.read(
    path, lambda names: npz_parameters.find(names, where)[0]
  )
  return interpret(contents, where)


def interpret(contents: archive.Contents, path: str) -> Weights:
  """Interprets the arrays of a file; raises as `read`."""
  found, left_out = npz_parameters.find(contents.names, path)
  params = {short: contents.arrays[name] for name, short in found.items()}
  said = _said(contents.comment, path)
  if said["model"].get("name", "vit") not in NPZ.names():
    model, assumed = network.section(said["model"], path), []
  else:
    said["model"].pop("name", None)
    families = [NPZ.get(name) for name in NPZ.names()]
    # If none matches, ViT's reader reports what is missing.
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


def write(path: epath.Path, weights: Weights) -> None:
  """Writes parameters by their published names, all or nothing.

  Facts that names and shapes do not determine, such as the form of the GELU, go
  into the archive's comment, which `read` uses and other readers ignore. So do
  all keys of a family without published names, which is written with ours.
  Class names are left out if they exceed the size of a comment, 64 KiB.

  Args:
    path: Path of an .npz file, replaced if it exists.
    weights: Network and parameters; stacked layers are written unstacked.

  Raises:
    UserError: The file cannot be written.
  """
  model = weights.model
  leaves = flat.flatten(stacking.unstack_layers(weights.params))
  arrays = {name: np.asarray(leaf) for name, leaf in leaves.items()}
  keys = model.model_dump(mode="json")
  if model.name in NPZ.names():
    family = NPZ.get(model.name)
    arrays = family.published(arrays)
    keys = _told(keys, family)
    if any("." in key for key in family.unseen):
      keys["name"] = model.name  # Tells which parts the keys are for.
  said: dict[str, Any] = {"model": keys}
  if model.name not in NPZ.names():
    said["module"] = type(model).__module__
  for key in ("preprocess", "activation", "class_names"):
    if (value := getattr(weights, key)) is not None:
      said[key] = value
  comment = json.dumps({_SECTION: said}).encode()
  if len(comment) > _LONGEST_COMMENT and weights.class_names is not None:
    _logger.warning(
      "%s has no room for its %d class names; they are left out.",
      path,
      len(said.pop("class_names")),
    )
    comment = json.dumps({_SECTION: said}).encode()
  archive.write(path, arrays, comment)


def _told(keys: Mapping[str, Any], family: Npz) -> dict[str, Any]:
  """Returns the keys of a section that go into the comment."""
  found = _picked(keys, family.unseen)
  for part in family.parts:
    if keys[part]["name"] != "vit":
      found["variant"] = keys["variant"]
      found[part] = {
        key: value
        for key, value in keys[part].items()
        if key == "name" or key not in schema.Model.model_fields
      }
  return found


def _tells(model: Mapping[str, Any], key: str, family: Npz) -> bool:
  """Tells whether `_told` includes a key, given all of `model`."""
  whole = [part for part in family.parts if "name" in model.get(part, {})]
  if key.partition(".")[0] in whole:
    return True
  return key in family.unseen or (bool(whole) and key == "variant")


def _picked(keys: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
  """Picks the values of keys; those of parts as {'text': {'pool': ...}}."""
  found: dict[str, Any] = {}
  for name in names:
    part, _, key = name.rpartition(".")
    values = keys[part] if part else keys
    if key in values:  # Parts may be of any family.
      into = found.setdefault(part, {}) if part else found
      into[key] = values[key]
  return found


def _said(comment: bytes, path: str) -> dict[str, Any]:
  """Reads the comment written by `write`; any other comment is ignored.

  Raises:
    UserError: The comment is damaged.
  """
  if not comment.startswith(json.dumps({_SECTION: 0})[:-2].encode()):
    return {"model": {}, "use": {}}
  try:
    said = json.loads(comment)[_SECTION]
    model, names = said["model"], said.get("class_names")
    if (name := model.get("name", "vit")) not in FAMILIES.names():
      # Not imported here: an untrusted file must not choose what code is run.
      module = said.get("module", "its module")
      raise UserError(
        f"{path} holds a network of model.name = {name!r}, a family from"
        f" outside the package; import {module} first, or name it in"
        " config.extensions."
      )
    use = {key: said.get(key) for key in ("preprocess", "activation")}
    if name in NPZ.names():
      kinds = [name] if "name" in model else NPZ.names()
      families = [NPZ.get(kind) for kind in kinds]
      for key in resolve.flatten(model).keys() - {"name"}:
        if not any(_tells(model, key, family) for family in families):
          raise KeyError
    network.section(model, path)
    if names is not None and not all(isinstance(name, str) for name in names):
      raise TypeError
    if not isinstance(use["preprocess"], str | None):
      raise TypeError
    if use["activation"] not in (None, *get_args(Activation)):
      raise ValueError
  except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
    raise UserError(
      f"{path} is damaged: the comment that describes the model cannot be read."
    ) from None
  return {"model": model, "use": {**use, "class_names": names}}
