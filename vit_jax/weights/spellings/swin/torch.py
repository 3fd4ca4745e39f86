"""PyTorch names of a Swin, and arrays that are not parameters of ours."""

import re
from typing import Any

import numpy as np

from vit_jax.errors import UserError
from vit_jax.weights.spellings import zero_biases
from vit_jax.weights.spellings.names import Names, Tensors

# Computed from the sizes; `relative_position_index` holds whole numbers.
_BUFFER = re.compile(
  r"(.*\.)?(relative_position_index|relative_coords_table|attn_mask|k_bias)"
)
_JOINED = re.compile(r"(layers\.\d+\.blocks\.\d+\.attn)\.qkv\.(weight|bias)")
_BIAS = re.compile(r"(layers\.\d+\.blocks\.\d+\.attn)\.([qv])_bias")
_SCALE = re.compile(r".*\.logit_scale")
_WINDOW = re.compile(r"_window(\d+)(?:to(\d+))?(?:_(\d+))?(?:to(\d+))?")
_STRIDE = 32  # Pixels between positions of the last of four maps.

# Our names in a block -> the authors' and timm's.
AUTHORS = {
  "attention_norm": "norm1",
  "attention/queries": "attn.q",
  "attention/keys": "attn.k",
  "attention/values": "attn.v",
  "attention/output": "attn.proj",
  "attention/positions": "attn.relative_position_bias_table",
  "attention/log_scale": "attn.logit_scale",
  "attention/position_hidden": "attn.cpb_mlp.0",
  "attention/position_bias": "attn.cpb_mlp.2",
  "mlp_norm": "norm2",
  "expand": "mlp.fc1",
  "project": "mlp.fc2",
}


def names(
  *,
  stem: tuple[str, str],
  block: str,
  parts: dict[str, str],
  merge: str,
  norm: str,
  head: str,
) -> Names:
  """Builds the names of a Swin of either version.

  Args:
    stem: Names of the first convolution and of the norm after it.
    block: Name of a block, with numbers as in `Names`.
    parts: Maps our name of a block's module or parameter to theirs.
    merge: Name of a merging, with the stage's number as in `Names`.
    norm: Name of the last norm.
    head: Name of the classifier.
  """
  ours = "stage{1}/block{01}"
  first = block.replace("{0}", "0")
  rows = [
    ("stem/conv", stem[0]),
    ("stem/norm", stem[1]),
    *((f"{ours}/{part}", f"{block}.{name}") for part, name in parts.items()),
    ("stage{1}/merge/norm", f"{merge}.norm"),
    ("stage{1}/merge/reduction", f"{merge}.reduction"),
    ("norm", norm),
    ("head", head),
  ]
  required = (f"{first}.{parts['attention_norm']}.weight", f"{stem[0]}.weight")
  return Names(tuple(rows), required=required)


def windows(name: str) -> dict[str, Any]:
  """Returns keys of `model` from a published version 2 network's name.

  A name such as 'swinv2_base_window12to16_192to256' has the window and image
  sizes of two trainings; position biases are relative to the first one's
  windows.
  """
  match = _WINDOW.search(name)
  if not match:
    return {}
  first, last, first_size, _ = (int(x) if x else None for x in match.groups())
  if last is None:
    return {"window_size": first}
  side = (first_size or first * _STRIDE) // _STRIDE
  pretrained = tuple(min(first, side * 2**stage) for stage in (3, 2, 1, 0))
  return {"window_size": last, "pretrained_window_sizes": pretrained}


def image_size(name: str) -> int | None:
  """Returns the image side, in pixels, given in a network's name."""
  match = _WINDOW.search(name)
  size = match and (match[4] or match[3])
  return int(size) if size else None


def parameters(tensors: Tensors) -> dict[str, np.ndarray]:
  """Returns tensors without buffers, with scales as vectors."""
  return {
    name: tensor.reshape(-1) if _SCALE.fullmatch(name) else tensor
    for name, tensor in tensors.items()
    if not _BUFFER.fullmatch(name)
  }


def apart(tensors: Tensors, path: str) -> Tensors:
  """Returns parameters with joined projections split.

  Args:
    tensors: Tensors by the authors' or timm's names.
    path: Path of the file, for messages.

  Raises:
    UserError: A joined projection does not have three parts.
  """
  found: dict[str, np.ndarray] = {}
  for name, tensor in parameters(tensors).items():
    if match := _BIAS.fullmatch(name):
      found[f"{match[1]}.{match[2]}.bias"] = tensor
    elif match := _JOINED.fullmatch(name):
      if tensor.ndim == 0 or len(tensor) % 3:
        raise UserError(
          f"{path}: '{name}' is of shape {tensor.shape}, which is not 3"
          " projections."
        )
      for part, array in zip("qkv", np.split(tensor, 3), strict=True):
        found[f"{match[1]}.{part}.{match[2]}"] = array
    else:
      found[name] = tensor
  return with_biases(found, AUTHORS)


def with_biases(tensors: Tensors, parts: dict[str, str]) -> Tensors:
  """Adds biases of zeros to a network that was made without `qkv_bias`.

  Args:
    tensors: Parameters with projections split.
    parts: As for `names`.
  """
  kinds = ["queries", "keys", "values"]
  if any(map(_SCALE.fullmatch, tensors)):
    kinds.remove("keys")  # Version 2 never has them.
  projections = [f".{parts[f'attention/{kind}']}" for kind in kinds]
  return zero_biases.completed(tensors, projections)
