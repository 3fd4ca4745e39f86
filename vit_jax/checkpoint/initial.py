"""Starting a run from the parameters of another one."""

import logging
from typing import Any

import jax
import numpy as np
from etils import epath
from jaxtyping import PyTree

from vit_jax import trees
from vit_jax.checkpoint.store import DIRECTORY, CheckpointStore
from vit_jax.errors import UserError

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
  step = None
  if where.parent.name == DIRECTORY and where.name.isdigit():
    step, where = int(where.name), where.parent.parent
  elif where.name == DIRECTORY:
    where = where.parent
  steps = (
    [
      int(entry.name)
      for entry in (where / DIRECTORY).iterdir()
      if entry.name.isdigit()
    ]
    if (where / DIRECTORY).exists()
    else []
  )
  if not steps:
    raise UserError(
      f"{path} holds no checkpoint: {where / DIRECTORY} has no complete step."
    )
  return where, max(steps) if step is None else step


def load_params(path: str) -> tuple[PyTree, int]:
  """Parameters that a run's evaluators would use, as NumPy arrays.

  Args:
    path: a workdir or one of its checkpoint steps.

  Returns:
    The parameters (the average where there is one) and the step.
  """
  workdir, step = locate(path)
  store = CheckpointStore(workdir, read_only=True)
  params = store.restore_params(step)
  store.close()
  return params, step


def replace(fresh: PyTree, loaded: PyTree, path: str) -> PyTree:
  """`loaded` on the shardings of `fresh`; a head of another size stays fresh.

  Args:
    fresh: newly made parameters.
    loaded: parameters of another run.
    path: where they are from, for messages.

  Raises:
    UserError: a table of the parameters that do not fit.
  """
  found = dict(trees.named_leaves(loaded))
  wanted = dict(trees.named_leaves(fresh))
  kept, rows = [], []
  for name, leaf in wanted.items():
    has = found.get(name)
    if has is not None and has.shape == leaf.shape:
      continue
    if name.startswith(_HEAD):
      kept.append(name)
      continue
    shape = "missing" if has is None else str(tuple(has.shape))
    rows.append((name, shape, str(tuple(leaf.shape))))
  for name, leaf in found.items():
    if name not in wanted and not name.startswith(_HEAD):
      rows.append((name, str(tuple(leaf.shape)), "no such parameter"))
  if rows:
    rows.insert(0, ("parameter", "in the checkpoint", "in this model"))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    table = "\n".join(
      "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))
      for row in rows
    )
    raise UserError(
      f"config.init_from = {path} does not fit config.model:\n{table}"
    )
  for name in kept:
    _logger.warning("%s starts afresh: init_from has none of its size.", name)

  def pick(name: str, leaf: Any) -> Any:
    if name in kept:
      return leaf
    return jax.device_put(
      np.asarray(found[name]).astype(leaf.dtype), leaf.sharding
    )

  return trees.map_named(pick, fresh)
