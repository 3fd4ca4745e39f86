"""SwiGLU's first two layers, which most files store as one.

The first half of the outputs goes through the SiLU in DINOv2's `w12`, Hugging
Face's `weights_in` and timm's `SwiGLUPacked` alike.
"""

import numpy as np

from vit_jax.errors import UserError
from vit_jax.weights.spellings.names import Tensors


def taken_apart(
  tensors: Tensors, joined: str, gate: str, hidden: str, path: str
) -> Tensors:
  """Splits joined layers into two.

  Args:
    tensors: Tensors by name.
    joined: End of the module's name, such as '.mlp.w12'.
    gate: End of the name of the layer before the SiLU.
    hidden: End of the name of the layer that the SiLU's outputs are multiplied
      by.
    path: Path of the file, for messages.

  Raises:
    UserError: A joined layer has an odd number of outputs.
  """
  found: dict[str, np.ndarray] = {}
  for name, tensor in tensors.items():
    module, _, leaf = name.rpartition(".")
    if not module.endswith(joined):
      found[name] = tensor
      continue
    if tensor.ndim == 0 or len(tensor) % 2:
      raise UserError(
        f"{path}: '{name}' is of shape {tensor.shape}, which is not the two"
        " layers of a SwiGLU."
      )
    start = module.removesuffix(joined)
    halves = np.split(tensor, 2)
    for end, half in zip((gate, hidden), halves, strict=True):
      found[f"{start}{end}.{leaf}"] = half
  return found


def put_together(
  tensors: Tensors, joined: str, gate: str, hidden: str
) -> Tensors:
  """Reverses `taken_apart`; layers without a gate are unchanged."""
  found = dict(tensors)
  for name, tensor in tensors.items():
    module, _, leaf = name.rpartition(".")
    if module.endswith(gate):
      start = module.removesuffix(gate)
      other = found.pop(f"{start}{hidden}.{leaf}")
      found[f"{start}{joined}.{leaf}"] = np.concatenate([tensor, other])
      del found[name]
  return found
