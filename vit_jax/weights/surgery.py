"""Fitting the parameters of one network to another with the same body.

The head, the stacking of layers and anything the family's own `fit` handles,
such as the grid of patches, may differ; anything else is a misfit. Plain NumPy.
"""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vit_jax import registry, truncate
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.fitting import Fitting
from vit_jax.weights import (
  flat,
  position_embeddings,
  shape_mismatches,
  stacking,
)
from vit_jax.weights.contract import Weights
from vit_jax.weights.shape_mismatches import Shape

_SHOWN = 3
_HEAD = ("head/kernel", "head/bias")
_PROJECTION = re.compile(r"/(query|key|value|out)/(kernel|bias)$")
_PRE_LOGITS = ("pre_logits/kernel", "pre_logits/bias")
# Additional parameters while a network is trained without labels.
_BESIDE = (
  "mask_token",
  "patch_head/",
  "aggregation/",
  "decoder/",
  "quantizer/",
  "dino_head/",
  "ibot_head/",
)


@dataclasses.dataclass(frozen=True)
class Fitted:
  """Parameters that a network takes from a file.

  Attributes:
    params: Nested dict of the file's parameters, in the network's shapes.
    fresh: Paths of the remaining parameters, which must be initialised.
    dropped: Paths in the file that the network does not use.
    notes: A sentence about everything fresh, dropped or resized.
  """

  params: dict[str, Any]
  fresh: tuple[str, ...] = ()
  dropped: tuple[str, ...] = ()
  notes: tuple[str, ...] = ()


def fit(
  weights: Weights,
  wanted: schema.Model,
  shapes: Mapping[str, Shape],
  without: Sequence[str] = (),
  part: str | None = None,
) -> Fitted:
  """Fits the parameters of a file to the shapes of a network.

  Position embeddings are resized according to `wanted.pos_embedding_resize`. A
  head with a different number of classes is not used; a pre-training head
  (`pre_logits`) that the network does not have is dropped together with the
  head on top of it, as in section 3.2 of the paper.

  Args:
    weights: Parameters of the file.
    wanted: Section `model` of the network.
    shapes: {path: shape} of all parameters of the network.
    without: Regexes matching whole paths that are not taken from the file.
    part: Part of the network that the file provides; None for all of it.

  Raises:
    UserError: Some parameters do not fit (the message has a table), or a regex
      matches no parameter.
  """
  beside, misfits = _beside(weights, shapes)
  leaves = _layout(weights.params, shapes)
  notes = misfits
  if weights.heads_assumed:
    notes = [*_split_heads(leaves, shapes), *misfits]
  leaves |= beside
  fitting = Fitting(
    leaves,
    dict(shapes),
    wanted,
    resize=position_embeddings.resize,
    in_file=frozenset(leaves),
    notes=notes,
  )
  _leave_out(fitting, without, weights.path)
  registry.FAMILIES.get(wanted.name).fit(fitting)
  _start_beside(fitting)
  _fit_head(fitting)
  if part is not None:
    fitting.start([name for name in shapes if not name.startswith(f"{part}/")])
    fitting.notes.append(f"All but {part} is initialised.")
  _check(fitting, weights, wanted)
  return Fitted(
    params=flat.unflatten(fitting.leaves),
    fresh=tuple(fitting.fresh),
    dropped=tuple(fitting.dropped),
    notes=tuple(fitting.notes),
  )


def _leave_out(fitting: Fitting, patterns: Sequence[str], path: str) -> None:
  """Drops the parameters that regexes match and marks them as fresh."""
  for pattern in patterns:
    try:
      matches = re.compile(pattern).fullmatch
    except re.error as error:
      raise UserError(
        f"config.init_without = {pattern!r} is not a regular expression"
        f" ({error})."
      ) from None
    names = [name for name in fitting.leaves | fitting.shapes if matches(name)]
    if not names:
      raise UserError(
        f"config.init_without = {pattern!r} matches no parameter, neither"
        f" of {path} nor of the model; `--dry_run` lists the model's."
      )
    fitting.drop(names)
    fitting.start(names)
    fitting.notes.append(f"{pattern} is not taken over, as asked.")


def _start_beside(fitting: Fitting) -> None:
  """Initialises additional trained parameters, which network files lack."""
  new = [
    name
    for name in fitting.shapes
    if name.startswith(_BESIDE) and name not in fitting.leaves
  ]
  if new:
    fitting.start(new)
    trees = dict.fromkeys(name.partition("/")[0] for name in new)
    fitting.notes.append(
      "The parameters that are trained with the network are initialised:"
      f" {', '.join(trees)}."
    )


def _fit_head(fitting: Fitting) -> None:
  """Keeps the whole head, or drops it and marks it as fresh."""
  leaves, shapes = fitting.leaves, fitting.shapes
  hidden = np.shape(leaves.get("pre_logits/kernel"))[1:]
  has_hidden = "pre_logits/kernel" in shapes
  has_head = "head/kernel" in shapes
  old = np.shape(leaves.get("head/kernel"))[1:]
  new = tuple(shapes.get("head/kernel", ()))[1:]
  if hidden and not has_hidden:
    fitting.drop([*_PRE_LOGITS, *_HEAD])
    fitting.notes.append(
      "The pre-training head is dropped, with its pre_logits layer; to keep"
      f" that, set config.model.representation_size={hidden[0]}."
    )
  elif old and old != new:
    fitting.drop(_HEAD)
    fitting.notes.append(f"The head of {old[0]} classes is dropped.")
  if has_hidden and not hidden and not old:
    fitting.start(_PRE_LOGITS)
    fitting.notes.append("A new pre_logits layer is initialised.")
  if has_head and "head/kernel" not in leaves:
    fitting.start(_HEAD)
    fitting.notes.append(f"A new head of {new[0]} classes is initialised.")


def _layout(
  params: Mapping[str, Any], shapes: Mapping[str, Shape]
) -> dict[str, Any]:
  """Returns flat parameters with layers stacked as in `shapes`."""
  return flat.flatten(stacking.arranged(params, shapes))


def _split_heads(
  leaves: dict[str, Any], shapes: Mapping[str, Shape]
) -> list[str]:
  """Splits projections into the network's heads; returns a note if it does."""
  split = False
  for name, leaf in leaves.items():
    shape = tuple(shapes.get(name, ()))
    if _PROJECTION.search(name) and shape != np.shape(leaf):
      if np.size(leaf) == math.prod(shape) and np.ndim(leaf) == len(shape):
        leaves[name] = np.reshape(leaf, shape)
        split = True
  if not split:
    return []
  return ["The projections are split into the heads of config.model.num_heads."]


def _beside(
  weights: Weights, shapes: Mapping[str, Shape]
) -> tuple[dict[str, Any], list[str]]:
  """Returns the objective's parameters in the file, all or none of each.

  Also returns a sentence for each of those that the network has but that do not
  fit.
  """
  found: dict[str, Any] = {}
  misfits: list[str] = []
  for name, tree in weights.beside.items():
    wanted = {
      path.removeprefix(name).removeprefix("/"): tuple(shape)
      for path, shape in shapes.items()
      if path.partition("/")[0] == name
    }
    leaves = _layout(tree, wanted) if isinstance(tree, Mapping) else {"": tree}
    there = {path: np.shape(leaf) for path, leaf in leaves.items()}
    if there == wanted:
      found |= {f"{name}/{p}".rstrip("/"): leaf for p, leaf in leaves.items()}
    elif wanted:
      rows = shape_mismatches.find(there, wanted)
      misfits.append(f"{name} of the file is not used: {_told(name, rows)}.")
  return found, misfits


def _told(name: str, rows: Sequence[shape_mismatches.Misfit]) -> str:
  """Describes misfits of the parameters below a name."""
  told = []
  for row in rows:
    path = f"{name}/{row.parameter}".rstrip("/")
    if row.wanted is None:
      told.append(f"this network has no {path}")
    elif row.in_file is None:
      told.append(f"the file has no {path}")
    else:
      told.append(f"{path} is {row.in_file} there and {row.wanted} here")
  return truncate.first(told, _SHOWN, "; ")


def _check(fitting: Fitting, weights: Weights, wanted: schema.Model) -> None:
  rows = shape_mismatches.find(
    {name: np.shape(leaf) for name, leaf in fitting.leaves.items()},
    {name: tuple(shape) for name, shape in fitting.shapes.items()},
  )
  rows = [row for row in rows if row.parameter not in fitting.fresh]
  if rows:
    raise shape_mismatches.ShapeMismatchError(
      f"The parameters of {weights.path} do not fit config.model:",
      shape_mismatches.explain(rows, weights.model, wanted),
    )
