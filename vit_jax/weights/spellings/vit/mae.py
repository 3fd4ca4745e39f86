"""The decoder of masked autoencoders, stored alongside the network.

Hugging Face's `ViTMAEForPreTraining` directories and the `*_full.pth` files of
facebookresearch/mae have it. Its fixed positions are left out, as they follow
from its size.
"""

import re
from typing import Any

from vit_jax.config import schema
from vit_jax.weights import flat
from vit_jax.weights.fields import COUNT, FLAG, Fields
from vit_jax.weights.spellings import names
from vit_jax.weights.spellings.contract import Beside
from vit_jax.weights.spellings.names import Names, Tensors

_BLOCK = "decoder/Transformer/encoderblock_{0}"
_ATTENTION = f"{_BLOCK}/MultiHeadDotProductAttention_0"
_LAYER = "decoder.decoder_layers.{0}"
_HUGGINGFACE = Names(
  rows=(
    ("decoder/mask_token", "decoder.mask_token"),
    ("decoder/embedding", "decoder.decoder_embed"),
    (f"{_BLOCK}/LayerNorm_0", f"{_LAYER}.layernorm_before"),
    (f"{_ATTENTION}/query", f"{_LAYER}.attention.attention.query"),
    (f"{_ATTENTION}/key", f"{_LAYER}.attention.attention.key"),
    (f"{_ATTENTION}/value", f"{_LAYER}.attention.attention.value"),
    (f"{_ATTENTION}/out", f"{_LAYER}.attention.output.dense"),
    (f"{_BLOCK}/LayerNorm_1", f"{_LAYER}.layernorm_after"),
    (f"{_BLOCK}/MlpBlock_0/Dense_0", f"{_LAYER}.intermediate.dense"),
    (f"{_BLOCK}/MlpBlock_0/Dense_1", f"{_LAYER}.output.dense"),
    ("decoder/Transformer/encoder_norm", "decoder.decoder_norm"),
    ("decoder/prediction", "decoder.decoder_pred"),
  ),
)
# Layers named as in transformers 5 and as in earlier files.
_NEWER_LAYERS = re.compile(r"^decoder\.decoder_encoder\.layers?\.")
_ORIGINAL_LAYER = "decoder_blocks.{0}"
_ORIGINAL = Names(
  rows=(
    ("decoder/mask_token", "mask_token"),
    ("decoder/embedding", "decoder_embed"),
    (f"{_BLOCK}/LayerNorm_0", f"{_ORIGINAL_LAYER}.norm1"),
    (f"{_ATTENTION}/query", f"{_ORIGINAL_LAYER}.attn.q"),
    (f"{_ATTENTION}/key", f"{_ORIGINAL_LAYER}.attn.k"),
    (f"{_ATTENTION}/value", f"{_ORIGINAL_LAYER}.attn.v"),
    (f"{_ATTENTION}/out", f"{_ORIGINAL_LAYER}.attn.proj"),
    (f"{_BLOCK}/LayerNorm_1", f"{_ORIGINAL_LAYER}.norm2"),
    (f"{_BLOCK}/MlpBlock_0/Dense_0", f"{_ORIGINAL_LAYER}.mlp.fc1"),
    (f"{_BLOCK}/MlpBlock_0/Dense_1", f"{_ORIGINAL_LAYER}.mlp.fc2"),
    ("decoder/Transformer/encoder_norm", "decoder_norm"),
    ("decoder/prediction", "decoder_pred"),
  ),
)
_OF_DECODER = re.compile(r"decoder_(embed|pos_embed|blocks|norm|pred)\b.*")
_POSITIONS = ("decoder.decoder_pos_embed", "decoder_pos_embed")
# From models_mae.py: 512 units in 16 heads, for every encoder.
_HEAD_SIZE = 32


def of_huggingface(config: Fields, tensors: Tensors) -> Beside:
  """Returns the decoder in a Hugging Face directory, if any, and its task."""
  found = {
    _NEWER_LAYERS.sub("decoder.decoder_layers.", name): tensor
    for name, tensor in tensors.items()
    if name.startswith("decoder.") and name not in _POSITIONS
  }
  if "decoder.decoder_pred.weight" not in found:
    return {}, None
  num_heads = config.get("decoder_num_attention_heads", COUNT, 16)
  params = _params(found, _HUGGINGFACE, num_heads)
  normalize = config.get("norm_pix_loss", FLAG, False)
  return params, _objective(params, num_heads, normalize_pixels=normalize)


def of_original(tensors: Tensors) -> Beside:
  """Returns the decoder in an original file, if any.

  Targets are assumed to be normalised, as for `mae_pretrain_*_full.pth`.

  Args:
    tensors: Tensors by name, with joined projections split.
  """
  if "decoder_pred.weight" not in tensors:
    return {}, None
  found = {
    name: tensor
    for name, tensor in tensors.items()
    if is_of_decoder(name) and name not in _POSITIONS
  }
  num_heads = max(1, tensors["decoder_pred.weight"].shape[-1] // _HEAD_SIZE)
  params = _params(found, _ORIGINAL, num_heads)
  return params, _objective(params, num_heads, normalize_pixels=True)


def _objective(
  params: dict[str, Any], num_heads: int, *, normalize_pixels: bool
) -> schema.Objective:
  decoder = params["decoder"]
  layers = [n for n in decoder["Transformer"] if n.startswith("encoderblock_")]
  return schema.MAE(
    normalize_pixels=normalize_pixels,
    decoder_width=decoder["prediction"]["kernel"].shape[0],
    decoder_depth=len(layers),
    decoder_num_heads=num_heads,
  )


def has_decoder(tensors: Tensors) -> bool:
  """Tells whether an original file has parts of a decoder."""
  return any(_OF_DECODER.fullmatch(name) for name in tensors)


def is_of_decoder(name: str) -> bool:
  """Tells whether a tensor of an original file belongs to the decoder."""
  return name == "mask_token" or _OF_DECODER.fullmatch(name) is not None


def _params(
  tensors: Tensors, spelling: Names, num_heads: int
) -> dict[str, Any]:
  return flat.unflatten(
    {
      spelling.ours(name, tensor.ndim): names.to_ours(
        spelling.ours(name, tensor.ndim), tensor, num_heads
      )
      for name, tensor in tensors.items()
    }
  )
