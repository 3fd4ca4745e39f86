"""PyTorch names of a PVT, and splitting of joined projections."""

import re

import numpy as np

from vit_jax.errors import UserError
from vit_jax.weights.spellings import zero_biases
from vit_jax.weights.spellings.names import Names, Tensors

_JOINED = re.compile(r"(.*\.attn)\.kv\.(weight|bias)")

# Our names in a block -> the authors' and timm's.
AUTHORS = {
  "attention_norm": "norm1",
  "reduced_attention/queries": "attn.q",
  "reduced_attention/keys": "attn.k",
  "reduced_attention/values": "attn.v",
  "reduced_attention/output": "attn.proj",
  "reduced_attention/reduce": "attn.sr",
  "reduced_attention/reduce_norm": "attn.norm",
  "mlp_norm": "norm2",
  "mlp/expand": "mlp.fc1",
  "mlp/project": "mlp.fc2",
}


def names(
  *,
  embed: tuple[tuple[str, str, str], ...],
  block: str,
  parts: dict[str, str],
  norm: str,
  head: str,
) -> Names:
  """Builds the names of a PVT.

  Args:
    embed: Our name of a stage's embedding, and their names of its convolution
      and of the norm after it, with numbers as in `Names`.
    block: Name of a block, with numbers as in `Names`.
    parts: Maps our name of a block's module to theirs.
    norm: Name of the norm at the end of a stage.
    head: Name of the classifier.
  """
  rows = []
  for ours, conv, its_norm in embed:
    rows += [(f"{ours}/conv", conv), (f"{ours}/norm", its_norm)]
  rows += [
    (f"stage{{1}}/block{{01}}/{part}", f"{block}.{name}")
    for part, name in parts.items()
  ]
  rows += [("stage{1}/norm", norm), ("head", head)]
  first = re.sub(r"\{(\d+)\}", lambda match: match[1], block)
  depthwise = parts["mlp/depthwise"]
  return Names(tuple(rows), required=(f"{first}.{depthwise}.weight",))


def apart(tensors: Tensors, path: str) -> Tensors:
  """Splits joined key and value projections.

  Raises:
    UserError: A joined projection does not have two parts.
  """
  found: dict[str, np.ndarray] = {}
  for name, tensor in tensors.items():
    match = _JOINED.fullmatch(name)
    if not match:
      found[name] = tensor
      continue
    if tensor.ndim == 0 or len(tensor) % 2:
      raise UserError(
        f"{path}: '{name}' is of shape {tensor.shape}, which is not 2"
        " projections."
      )
    for part, array in zip("kv", np.split(tensor, 2), strict=True):
      found[f"{match[1]}.{part}.{match[2]}"] = array
  return with_biases(found, AUTHORS)


def with_biases(tensors: Tensors, parts: dict[str, str]) -> Tensors:
  """Adds biases of zeros to a network that was made without `qkv_bias`.

  Args:
    tensors: Parameters with projections split.
    parts: As for `names`.
  """
  kinds = ("queries", "keys", "values")
  projections = [f".{parts[f'reduced_attention/{kind}']}" for kind in kinds]
  return zero_biases.completed(tensors, projections)
