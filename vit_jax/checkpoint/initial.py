"""Starting from the parameters of another run."""

import logging
from collections.abc import Sequence

import jax
from etils import epath
from jaxtyping import PyTree

from vit_jax import trees
from vit_jax.checkpoint import class_names, run_config
from vit_jax.checkpoint.store import DIRECTORY, read_params
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.weights import files, flat, opening, surgery
from vit_jax.weights.contract import Weights

_logger = logging.getLogger(__name__)


def locate(path: str) -> tuple[epath.Path, int]:
  """The workdir and step that a path to a workdir or a step means.

  Raises:
    UserError: if there is no checkpoint.
  """
  where = epath.Path(path)
  with opening.explained(path):
    exists = where.exists()
  if not exists:
    raise UserError(
      f"The checkpoint {path} does not exist; give a workdir, one of its"
      f" {DIRECTORY}/STEP, an .npz or .safetensors file, or a Hugging Face"
      " directory."
    )
  if where.parent.name == DIRECTORY and where.name.isdigit():
    return where.parent.parent, int(where.name)
  if where.is_file():
    raise UserError(
      f"{path} is a file, but its name does not tell of what form: files of"
      " weights end in .npz or .safetensors."
    )
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
  model = run_config.read(workdir).model
  params = read_params(workdir, step)
  head = params.get("head")
  num_classes = None if head is None else head["kernel"].shape[-1]
  return Weights(
    path=path,
    model=model.model_copy(update={"num_classes": num_classes}),
    params=params,
    class_names=class_names.read(workdir),
  )


def place(wanted: PyTree, weights: Weights, model: schema.Model) -> PyTree:
  """All parameters of a network from a checkpoint, on the devices.

  Args:
    wanted: ShapeDtypeStructs or arrays with shardings.
    weights: of the same network; another size of images is allowed for.
    model: the section of the network.

  Raises:
    UserError: something does not fit, or is missing or left over.
  """
  fitted = fit(wanted, weights, model)
  if fitted.fresh or fitted.dropped:
    raise UserError(
      f"{weights.path} is not of this model: {' '.join(fitted.notes)}"
    )
  return put(wanted, fitted)


def fit(
  wanted: PyTree,
  weights: Weights,
  model: schema.Model,
  without: Sequence[str] = (),
) -> surgery.Fitted:
  """What a network takes over from a checkpoint.

  What starts afresh, is dropped, resized or assumed is logged.

  Args:
    wanted: arrays or ShapeDtypeStructs of all its parameters.
    weights: what to start from.
    model: the section of the network.
    without: regexes of parameters that the checkpoint shall not give.

  Raises:
    UserError: a table of the parameters that do not fit.
  """
  shapes = {name: leaf.shape for name, leaf in trees.named_leaves(wanted)}
  fitted = surgery.fit(weights, model, shapes, without)
  for note in (*weights.assumed, *fitted.notes):
    _logger.warning("%s: %s", weights.path, note)
  return fitted


def put(wanted: PyTree, fitted: surgery.Fitted) -> PyTree:
  """What was fitted, on the devices; the rest is as in `wanted`.

  Args:
    wanted: newly made parameters; ShapeDtypeStructs with shardings will do
      where nothing is fresh.
    fitted: of `fit`.
  """
  found = flat.flatten(fitted.params)
  return trees.map_named(
    lambda name, leaf: (
      leaf
      if name in fitted.fresh
      else jax.device_put(found[name].astype(leaf.dtype), leaf.sharding)
    ),
    wanted,
  )
