"""The encoder of DALL-E's discrete VAE: openai/DALL-E, encoder.py.

Four groups of residual blocks, the first three followed by 2 x 2 max pooling;
the token of a position is the index of its largest output.
"""

import re
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from jaxtyping import Array, Float, Int

from vit_jax.errors import UserError
from vit_jax.weights import torch_file

# Pixels per token along a side.
STRIDE = 8
_GROUPS = 4
# Pixels x in [0, 1] are mapped to (1 - 2 * 0.1) x + 0.1.
_MARGIN = 0.1
_NAME = re.compile(r"(?:.*\.)?(blocks\..+)\.(w|b|weight|bias)", re.ASCII)


def read(path: str) -> dict[str, dict[str, np.ndarray]]:
  """Reads the encoder's convolutions by name: `w` [h, w, in, out] and `b`.

  Args:
    path: A state dict with the published names, those of `encoder.pkl`, or
      those of Hugging Face's FlavaImageCodebook.

  Raises:
    UserError: The file cannot be read as data, or contains something else.
  """
  entries = _flat(torch_file.read(epath.Path(path).expanduser()))
  found: dict[str, dict[str, np.ndarray]] = {}
  for name, array in entries.items():
    match = _NAME.fullmatch(name)
    if match:
      # FlavaImageCodebook nests the published modules in others.
      layer = match[1].replace(".group.", ".").replace(".path.", ".")
      layer = layer.removeprefix("blocks.")
      is_kernel = match[2] in ("w", "weight")
      if is_kernel and array.ndim == 4:
        array = array.transpose(2, 3, 1, 0)
      found.setdefault(layer, {})["w" if is_kernel else "b"] = array
  try:
    _check(found)
  except (KeyError, TypeError, ValueError):
    raise UserError(
      f"{path} does not hold the encoder of DALL-E's dVAE (blocks.input.w to"
      " blocks.output.conv.b); give the state dict of its encoder.pkl, or BEiT"
      " v2's VQ-KD (quantize.embedding.weight)."
    ) from None
  return found


def num_tokens(params: Mapping[str, Any]) -> int:
  """Returns the number of distinct tokens."""
  return params["output.conv"]["w"].shape[-1]


def flops(params: Mapping[str, Any], side: int) -> int:
  """Counts FLOPs to compute an image's tokens, two per multiply-add.

  Args:
    params: The encoder, or its shapes.
    side: Side of the image in pixels.
  """
  total = 0
  for name, layer in params.items():
    match = re.match(r"group_(\d)", name)
    halved = int(match[1]) - 1 if match else 3 if name == "output.conv" else 0
    total += 2 * (side >> halved) ** 2 * int(np.prod(layer["w"].shape))
  return total


def tokens(
  params: Mapping[str, Any], pixels: Float[Array, "b h w 3"]
) -> Int[Array, "b n"]:
  """Computes the tokens of images, row by row, in float32.

  Args:
    params: Parameters, as returned by `read`.
    pixels: Images in [0, 1], with sides divisible by `STRIDE`.
  """
  x = _convolved(params["input"], (1 - 2 * _MARGIN) * pixels + _MARGIN)
  gain = 1 / (_GROUPS * _num_blocks(params)) ** 2
  for group in range(1, _GROUPS + 1):
    for block in range(1, _num_blocks(params) + 1):
      prefix = f"group_{group}.block_{block}"
      added = x
      for layer in range(1, 5):
        convolution = params[f"{prefix}.res_path.conv_{layer}"]
        added = _convolved(convolution, jax.nn.relu(added))
      kept = params.get(f"{prefix}.id_path")
      x = (x if kept is None else _convolved(kept, x)) + gain * added
    if group < _GROUPS:
      x = jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
      )
  x = _convolved(params["output.conv"], jax.nn.relu(x))
  return jnp.argmax(x, axis=-1).reshape(len(x), -1).astype(jnp.int32)


def _num_blocks(params: Mapping[str, Any]) -> int:
  """Returns the number of blocks per group."""
  return sum(
    name.startswith("group_1.") and name.endswith("conv_1") for name in params
  )


def _convolved(
  layer: Mapping[str, Any], x: Float[Array, "b h w c"]
) -> Float[Array, "b h w d"]:
  x = jax.lax.conv_general_dilated(
    x,
    jnp.asarray(layer["w"]),
    (1, 1),
    "SAME",
    dimension_numbers=("NHWC", "HWIO", "NHWC"),
    # TPUs would round to bfloat16, and a token is an argmax.
    precision="highest",
  )
  return x + layer["b"].reshape(1, 1, 1, -1)


def _check(params: Mapping[str, Mapping[str, np.ndarray]]) -> None:
  """Raises KeyError, TypeError or ValueError if this is not an encoder."""
  blocks = _num_blocks(params)
  names = {"input", "output.conv"}
  if not blocks:
    raise ValueError
  for group in range(1, _GROUPS + 1):
    for block in range(1, blocks + 1):
      prefix = f"group_{group}.block_{block}"
      names |= {f"{prefix}.res_path.conv_{layer}" for layer in range(1, 5)}
      if group > 1 and block == 1:
        names.add(f"{prefix}.id_path")
  if names != set(params):
    raise ValueError
  if any(one["w"].ndim != 4 for one in params.values()):
    raise ValueError
  if any(one["b"].size != one["w"].shape[3] for one in params.values()):
    raise ValueError
  # A layer's inputs are the outputs of the previous one.
  pixels = jax.ShapeDtypeStruct((1, STRIDE, STRIDE, 3), jnp.float32)
  jax.eval_shape(tokens, params, pixels)


def _flat(entries: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
  """Returns the arrays in nested dictionaries by dotted name."""
  found: dict[str, Any] = {}
  for name, value in entries.items():
    if isinstance(value, Mapping):
      found |= _flat(value, f"{prefix}{name}.")
    else:
      found[f"{prefix}{name}"] = np.asarray(value)
  return found
