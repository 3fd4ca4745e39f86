"""VQ-KD, the tokenizer of BEiT v2: modeling_vqkd.py in microsoft/unilm, beit2.

The encoder is a Vision Transformer; what turns its patches into tokens is kept
with it. The decoder, which was needed to train it, and its teacher are not.
"""

from typing import Any

import numpy as np

from vit_jax.errors import UserError
from vit_jax.weights.fields import Fields
from vit_jax.weights.spellings.contract import Beside, Original
from vit_jax.weights.spellings.names import Names, Tensors
from vit_jax.weights.spellings.vit import timm

# Names of the layers that follow the encoder, and of the codes [n, d].
QUANTIZER, CODEBOOK = "quantizer", "codebook"
# Name of the codes in a file, by which it is recognised.
MARK = "quantize.embedding.weight"
_ENCODER = "encoder."
_ATTENTION = "Transformer/encoderblock_{0}/MultiHeadDotProductAttention_0"
_LAYERS = {
  "hidden": "encode_task_layer.0",
  "code": "encode_task_layer.2",
}
_NAMES = Names(
  rows=(
    (f"{_ATTENTION}/query/bias", "blocks.{0}.attn.q_bias"),
    (f"{_ATTENTION}/value/bias", "blocks.{0}.attn.v_bias"),
    *timm.TIMM.names.rows,
  ),
  required=timm.TIMM.names.required,
)


def _prepare(tensors: Tensors, path: str, notes: list[str]) -> Tensors:
  """Returns the encoder's tensors with joined projections split.

  Raises:
    UserError: What follows the encoder is incomplete or does not fit.
  """
  token = f"{_ENCODER}cls_token"
  ranks = {MARK: 2, token: 3, f"{_ENCODER}pos_embed": 3}
  for name in _LAYERS.values():
    ranks |= {f"{name}.weight": 2, f"{name}.bias": 1}
  for name, rank in ranks.items():
    if np.ndim(tensors.get(name)) != rank:
      raise UserError(
        f"{path} has the codebook of VQ-KD ('{MARK}'), but '{name}' is"
        " missing or damaged; give the published file."
      )
  codes, width = tensors[MARK].shape, tensors[token].shape[-1]
  for layer, outputs in (("hidden", width), ("code", codes[1])):
    shapes = {"weight": (outputs, width), "bias": (outputs,)}
    for part, wanted in shapes.items():
      name = f"{_LAYERS[layer]}.{part}"
      if tensors[name].shape != wanted:
        raise UserError(
          f"{path}: '{name}' is of shape {tensors[name].shape}, where the"
          f" codebook of shape {codes} needs {wanted}; give the published file."
        )
  found = {
    name.removeprefix(_ENCODER): tensor
    for name, tensor in tensors.items()
    if name.startswith(_ENCODER)
  }
  notes.append(
    f"Of VQ-KD's {len(tensors)} tensors, the encoder's {len(found)} are the"
    " network; the decoder is not part of it."
  )
  return timm.without_joined_projections(found, path)


def _said(tensors: Tensors, path: str, notes: list[str]) -> dict[str, Any]:
  return {
    **timm.said_of_encoder(Fields(path, {}), tensors, path, notes),
    "cls_token": True,
    "pos_embedding_resize": "bicubic_offset",
    "normalize": "minus_one_to_one",
  }


def _beside(tensors: Tensors) -> Beside:
  """Returns the layers that follow the encoder, and the codes."""
  layers: dict[str, Any] = {}
  for ours, theirs in _LAYERS.items():
    leaves = {"kernel": f"{theirs}.weight", "bias": f"{theirs}.bias"}
    layers[ours] = {
      leaf: tensors[name].T for leaf, name in leaves.items() if name in tensors
    }
  return {QUANTIZER: layers, CODEBOOK: tensors[MARK]}, None


ORIGINAL = Original(
  label="VQ-KD",
  names=_NAMES,
  said=_said,
  prepare=_prepare,
  marks=(MARK,),
  beside=lambda tensors, path: _beside(tensors),
)
