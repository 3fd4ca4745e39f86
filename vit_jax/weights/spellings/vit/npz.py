"""google-research's spellings of a ViT's parameters, brought to one.

Ours are those of the published Linen files. Others in circulation: modules
counted together (`MlpBlock_3` for what Linen calls `MlpBlock_0`); prefixes of
the checkpoint that the parameters are part of; layers stacked along a first
axis; a position embedding without a row for the class token.
"""

import re
from collections.abc import Iterable, Mapping

import numpy as np

from vit_jax.errors import UserError
from vit_jax.weights import position_embeddings, vit_shapes

# Where a checkpoint keeps its parameters, the first that is there counts, and
# what else such a checkpoint holds. [VT] [BV]
_TRAINING = {
  "opt/": "the optimizer's state",
  "extra/": "the trainer's counters",
}
_ROOTS = (("opt/target/", _TRAINING), ("params/", _TRAINING), ("", {}))
# A model of images and texts keeps the parts beside each other.
_IMAGE_TOWER = "img/"
_TEXT_TOWER = re.compile(r"(txt/.+|t|b)")
_TEXT = "the text model"

_PRE_LINEN = {
  "LayerNorm_2": "LayerNorm_1",
  "MlpBlock_3": "MlpBlock_0",
  "MultiHeadDotProductAttention_1": "MultiHeadDotProductAttention_0",
}
_MODULE = re.compile(
  r"(?<=/)(LayerNorm_2|MlpBlock_3|MultiHeadDotProductAttention_1)(?=/)"
)
_STACKED = "Transformer/encoderblock/"
_GROUP_NORM = re.compile(r"(.*/)?gn(_root|_proj|\d)/(scale|bias)")
_TABLES = ("pos_embedding", "Transformer/pos_embedding")
# Attention pooling once stood at the top level.
_MAP_HEAD = re.compile(
  r"(probe|(MlpBlock|MultiHeadDotProductAttention|LayerNorm)_0/.+)"
)


def parameters(
  names: Iterable[str], path: str
) -> tuple[dict[str, str], list[str]]:
  """Which arrays of a file are the network's parameters.

  Args:
    names: of all arrays.
    path: of the file, for messages.

  Returns:
    {name in the file: name without its prefix}, and a sentence for each kind
    of array that is left out.

  Raises:
    UserError: if there are no parameters.
  """
  names = list(names)
  root, others = next(
    (root, others)
    for root, others in _ROOTS
    if any(name.startswith(root) for name in names) or not root
  )
  left_out: dict[str, int] = {}
  found: dict[str, str] = {}
  for name in names:
    kind = next(
      (k for start, k in others.items() if name.startswith(start)), ""
    )
    if root and name.startswith(root):
      found[name] = name.removeprefix(root)
    elif kind:
      left_out[kind] = left_out.get(kind, 0) + 1
    else:
      found[name] = name
  if any(short.startswith(_IMAGE_TOWER) for short in found.values()):
    texts = [n for n, short in found.items() if _TEXT_TOWER.fullmatch(short)]
    for name in texts:
      del found[name]
    found = {n: short.removeprefix(_IMAGE_TOWER) for n, short in found.items()}
    if texts:
      left_out[_TEXT] = len(texts)
  if not found:
    raise UserError(f"{path} holds no parameters: {_some(names)}.")
  sentences = [
    f"Left out: {kind} ({count} arrays)." for kind, count in left_out.items()
  ]
  return found, sentences


def canonical(
  params: Mapping[str, np.ndarray], path: str
) -> dict[str, np.ndarray]:
  """Parameters by our names and in our shapes, layers not stacked.

  Names that are not known stay as they are.

  Raises:
    UserError: two names mean the same, or stacked layers are not alike.
  """
  renamed: dict[str, np.ndarray] = {}

  def add(name: str, array: np.ndarray) -> None:
    if name in renamed:
      raise UserError(f"{path} holds {name} twice, in two spellings.")
    renamed[name] = array

  for name, array in params.items():
    name = _MODULE.sub(lambda match: _PRE_LINEN[match[0]], name)
    if name in _TABLES:
      name = vit_shapes.TABLE
    if _MAP_HEAD.fullmatch(name):
      name = f"MAPHead_0/{name}"
    if _GROUP_NORM.fullmatch(name) and array.shape[:-1] == (1, 1, 1):
      array = array.reshape(-1)
    if name.startswith(_STACKED):
      rest = name.removeprefix(_STACKED)
      for i in range(len(array) if array.ndim else 0):
        add(f"Transformer/encoderblock_{i}/{rest}", array[i, ...])
    else:
      add(name, array)
  table = renamed.get(vit_shapes.TABLE)
  if table is not None and "cls" in renamed:
    renamed[vit_shapes.TABLE] = position_embeddings.with_class_row(table)
  return renamed


def _some(names: list[str]) -> str:
  if not names:
    return "it is empty"
  more = ", ..." if len(names) > 5 else ""
  return f"its arrays are {', '.join(names[:5])}{more}"
