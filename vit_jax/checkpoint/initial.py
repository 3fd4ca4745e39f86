"""Starting from the parameters of another run."""

import logging
from typing import Any

import jax
import numpy as np
from etils import epath
from jaxtyping import PyTree

from vit_jax import trees
from vit_jax.checkpoint import class_names
from vit_jax.checkpoint.store import DIRECTORY, read_params
from vit_jax.config import resolve, schema
from vit_jax.errors import UserError
from vit_jax.weights import files
from vit_jax.weights.contract import Weights

_logger = logging.getLogger(__name__)
_HEAD = "head/"


def locate(path: str) -> tuple[epath.Path, int]:
  """The workdir and step that a path to a workdir or a step means.

  Raises:
    UserError: if there is no checkpoint.
  """
  where = epath.Path(path)
  if not where.exists():
    raise UserError(
      f"The checkpoint {path} does not exist; give a workdir, or one of its"
      f" {DIRECTORY}/STEP."
    )
  if where.parent.name == DIRECTORY and where.name.isdigit():
    return where.parent.parent, int(where.name)
  workdir = where.parent if where.name == DIRECTORY else where
  directory = workdir / DIRECTORY
  entries = directory.iterdir() if directory.exists() else ()
  steps = [int(entry.name) for entry in entries if entry.name.isdigit()]
  if not steps:
    raise UserError(
      f"{path} holds no checkpoint: there is no complete step in {directory}."
    )
  return workdir, max(steps)


def read(path: str) -> Weights:
  """The parameters of any checkpoint, and the network that they are of.

  Args:
    path: a workdir, one of its checkpoint steps, or a published file or
      directory (`vit_jax.weights.files`).

  Raises:
    UserError: if there is none, or it is damaged or not understood.
  """
  if files.is_published(path):
    return files.read(path)
  workdir, step = locate(path)
  model = _model(workdir)
  params = read_params(workdir, step)
  head = params.get("head")
  num_classes = None if head is None else head["kernel"].shape[-1]
  return Weights(
    path=path,
    model=model.model_copy(update={"num_classes": num_classes}),
    params=params,
    class_names=class_names.read(workdir),
  )


def _model(workdir: epath.Path) -> schema.Model:
  """config.model of the run in a workdir."""
  path = workdir / "config.json"
  try:
    return resolve.load(path.read_text()).model
  except (OSError, UnicodeDecodeError) as error:
    reason = getattr(error, "strerror", None) or error
    raise UserError(
      f"{path}, which tells the architecture of the checkpoint, cannot be read"
      f" ({reason})."
    ) from None
  except UserError as error:
    raise UserError(f"{path} is not this version's: {error}") from None


def load_params(path: str) -> tuple[PyTree, int]:
  """The parameters that evaluators of a run would use, as NumPy arrays.

  Args:
    path: a workdir or one of its checkpoint steps.

  Returns:
    The parameters (the average where there is one) and the step.

  Raises:
    UserError: if there is no checkpoint.
  """
  workdir, step = locate(path)
  return read_params(workdir, step), step


def place(wanted: PyTree, loaded: PyTree, path: str) -> PyTree:
  """`loaded` on the devices, as `wanted` says.

  Args:
    wanted: ShapeDtypeStructs or arrays with shardings.
    loaded: parameters of the same names and shapes.
    path: where they are from, for messages.

  Raises:
    UserError: a table of the parameters that do not fit.
  """
  _check_fit(wanted, loaded, path, except_for=frozenset())
  return _put(wanted, dict(trees.named_leaves(loaded)))


def replace(fresh: PyTree, loaded: PyTree, path: str) -> PyTree:
  """`fresh` with all that `loaded` has; a head of another size stays fresh.

  Args:
    fresh: newly made parameters.
    loaded: parameters of another run.
    path: where they are from, for messages.

  Raises:
    UserError: a table of the parameters that do not fit.
  """
  found = dict(trees.named_leaves(loaded))
  heads = {
    name: leaf
    for name, leaf in trees.named_leaves(fresh)
    if name.startswith(_HEAD) and _shape(found.get(name)) != leaf.shape
  }
  _check_fit(fresh, loaded, path, except_for=frozenset(heads))
  for name in heads:
    _logger.warning("%s starts afresh: %s has none of its shape.", name, path)
  return _put(fresh, {**found, **heads})


def _put(wanted: PyTree, found: dict[str, Any]) -> PyTree:
  return trees.map_named(
    lambda name, leaf: jax.device_put(
      found[name].astype(leaf.dtype), leaf.sharding
    ),
    wanted,
  )


def _shape(leaf: Any) -> tuple[int, ...] | None:
  return None if leaf is None else tuple(np.shape(leaf))


def _check_fit(
  wanted: PyTree, loaded: PyTree, path: str, *, except_for: frozenset[str]
) -> None:
  shapes = {name: _shape(leaf) for name, leaf in trees.named_leaves(wanted)}
  found = {name: _shape(leaf) for name, leaf in trees.named_leaves(loaded)}
  rows = [
    (name, str(found.get(name, "missing")), str(shapes.get(name, "unknown")))
    for name in (shapes | found)
    if shapes.get(name) != found.get(name) and name not in except_for
  ]
  if not rows:
    return
  rows.insert(0, ("parameter", "in the checkpoint", "in this model"))
  widths = [max(len(row[i]) for row in rows) for i in range(3)]
  table = "\n".join(
    "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))
    for row in rows
  )
  raise UserError(f"The parameters of {path} do not fit config.model:\n{table}")
