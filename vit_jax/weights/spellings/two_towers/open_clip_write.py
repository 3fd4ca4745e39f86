"""Writes CLIPs and SigLIPs as open_clip directories."""

import logging
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from vit_jax import records
from vit_jax.config import pixels, schema
from vit_jax.errors import UserError
from vit_jax.models.text import sizes as text_sizes
from vit_jax.models.two_towers.shapes import embedding_size, image_tower
from vit_jax.models.vit import sizes as vit_sizes
from vit_jax.weights import stacking, tensors, timm_transform
from vit_jax.weights.contract import Weights
from vit_jax.weights.image_processor import OURS
from vit_jax.weights.spellings import names
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.registry import HUGGINGFACE
from vit_jax.weights.spellings.two_towers import open_clip_trunks
from vit_jax.weights.spellings.two_towers.open_clip import CONFIG
from vit_jax.weights.spellings.unwritable import check_names

_logger = logging.getLogger(__name__)

_MODEL = "open_clip_model.safetensors"
_EPSILON = 1e-5  # Unless norm_kwargs say otherwise.
# Hugging Face's names -> open_clip's; rows are applied in order.
_VISION = (
  (r"^vision_model\.embeddings\.class_embedding$", "visual.class_embedding"),
  (
    r"^vision_model\.embeddings\.position_embedding\.weight$",
    "visual.positional_embedding",
  ),
  (r"^vision_model\.embeddings\.patch_embedding\.", "visual.conv1."),
  (r"^vision_model\.pre_layrnorm\.", "visual.ln_pre."),
  (r"^vision_model\.post_layernorm\.", "visual.ln_post."),
  (r"^vision_model\.encoder\.layers\.", "visual.transformer.resblocks."),
)
_TEXT = (
  (
    r"^text_model\.embeddings\.position_embedding\.weight$",
    "positional_embedding",
  ),
  (r"^text_model\.embeddings\.token_embedding\.", "token_embedding."),
  (r"^text_model\.final_layer_norm\.", "ln_final."),
  (r"^text_model\.encoder\.layers\.", "transformer.resblocks."),
)
_LAYER = (
  (r"\.layer_norm([12])\.", r".ln_\1."),
  (r"\.self_attn\.out_proj\.", ".attn.out_proj."),
  (r"\.self_attn\.qkv\.(weight|bias)$", r".attn.in_proj_\1"),
  (r"\.mlp\.fc1\.", ".mlp.c_fc."),
  (r"\.mlp\.fc2\.", ".mlp.c_proj."),
)
_TRUNK = (
  (r"^vision_model\.embeddings\.patch_embedding\.", "patch_embed.proj."),
  (
    r"^vision_model\.embeddings\.position_embedding\.weight$",
    "pos_embed",
  ),
  (r"^vision_model\.post_layernorm\.", "norm."),
  (r"^vision_model\.encoder\.layers\.", "blocks."),
  (r"\.layer_norm([12])\.", r".norm\1."),
  (r"\.self_attn\.qkv\.", ".attn.qkv."),
  (r"\.self_attn\.out_proj\.", ".attn.proj."),
  (r"^vision_model\.head\.probe$", "attn_pool.latent"),
  (r"^vision_model\.head\.q_proj\.", "attn_pool.q."),
  (r"^vision_model\.head\.kv\.", "attn_pool.kv."),
  (r"^vision_model\.head\.attention\.out_proj\.", "attn_pool.proj."),
  (r"^vision_model\.head\.layernorm\.", "attn_pool.norm."),
  (r"^vision_model\.head\.mlp\.", "attn_pool.mlp."),
)
# Projections that are joined there.
_QUERY = re.compile(r"(.*\.self_attn)\.q_proj\.(weight|bias)")
_KEY = re.compile(r"(vision_model\.head)\.k_proj\.(weight|bias)")
_JOINED = re.compile(r".*\.(self_attn\.[kv]|head\.v)_proj\.(weight|bias)")


def write(directory: epath.PathLike, weights: Weights) -> Sequence[str]:
  """Writes a directory that open_clip opens as 'local-dir:DIR'.

  Args:
    directory: A path that does not exist yet; it appears once it is complete.
    weights: A CLIP or a SigLIP and its parameters.

  Returns:
    A sentence about each difference in image preprocessing there.

  Raises:
    UserError: There is no such network in open_clip, or the directory cannot be
      written.
  """
  directory = epath.Path(directory)
  model = weights.model
  kind = _kind(model)
  family = HUGGINGFACE.get(kind)
  family.config(model)  # Raises UserError if neither supports it.
  found = names.write(stacking.unstack_layers(weights.params), family.names)
  if kind == "clip":
    config, found = (
      _clip_config(model),
      _clip_tensors(family.scale(model, found)),
    )
  else:
    config, found = _siglip_config(model), _siglip_tensors(found)
  check_names(found, "open_clip's form")
  resizing, notes = _resizing(weights, kind)
  written: dict[str, Any] = {
    "model_cfg": config,
    "preprocess_cfg": {**_pixels(model), **resizing},
  }
  if weights.preprocess is not None:
    written[OURS] = weights.preprocess
  with records.new_directory(directory) as partial:
    tensors.write(partial / _MODEL, found)
    records.write_json(partial / CONFIG, written)
  return notes


def _kind(model: schema.Model) -> str:
  for kind in ("clip", "siglip"):
    if HUGGINGFACE.get(kind).writes(model):
      return kind
  raise UserError(
    "open_clip's form is written of CLIPs and SigLIPs alone; a Hugging Face"
    " directory, a NAME.npz or a workdir can hold"
    f" model.name={model.name!r}."
  )


def _clip_tensors(found: Tensors) -> dict[str, np.ndarray]:
  """Converts Hugging Face's CLIP tensors to open_clip's names."""
  theirs: dict[str, np.ndarray] = {}
  for name, tensor in _joined(found).items():
    if name == "visual_projection.weight":
      theirs["visual.proj"] = np.ascontiguousarray(tensor.T)
    elif name == "text_projection.weight":
      theirs["text_projection"] = np.ascontiguousarray(tensor.T)
    else:
      theirs[_renamed(name, _VISION + _TEXT + _LAYER)] = tensor
  return theirs


def _siglip_tensors(found: Tensors) -> dict[str, np.ndarray]:
  """Converts SigLIP tensors in our shapes; the image tower is timm's."""
  theirs: dict[str, np.ndarray] = {}
  for name, tensor in _joined(found).items():
    if name.startswith("vision_model."):
      theirs["visual.trunk." + _renamed(name, _TRUNK)] = tensor
    elif name.startswith("logit_"):
      theirs[name] = tensor
    else:
      renamed = _renamed(name, _TEXT + _LAYER)
      is_table = renamed == "positional_embedding"
      theirs["text." + renamed] = tensor[0] if is_table else tensor
  return theirs


def _joined(found: Tensors) -> dict[str, np.ndarray]:
  """Joins queries, keys and values; in the head, keys and values."""
  joined: dict[str, np.ndarray] = {}
  for name, tensor in found.items():
    for pattern, parts in ((_QUERY, "qkv"), (_KEY, "kv")):
      if match := pattern.fullmatch(name):
        module, leaf = match.groups()
        joined[f"{module}.{parts}.{leaf}"] = np.concatenate(
          [found[f"{module}.{part}_proj.{leaf}"] for part in parts]
        )
        break
    else:
      if not _JOINED.fullmatch(name):
        joined[name] = tensor
  return joined


def _renamed(name: str, rows: tuple[tuple[str, str], ...]) -> str:
  for pattern, replacement in rows:
    name = re.sub(pattern, replacement, name)
  return name


def _clip_config(model: schema.Model) -> dict[str, Any]:
  tower, text = image_tower(model), model.text
  size = vit_sizes.vit(tower)
  gelus = {tower.gelu, text.gelu}
  if len(gelus) > 1 or "tanh" in gelus:
    raise UserError(
      f"open_clip's CLIP cannot have model.image.gelu={tower.gelu!r} with"
      f" model.text.gelu={text.gelu!r}; both are 'quick' or both 'exact'."
    )
  if text.eot_token not in (None, text.vocab_size - 1):
    raise UserError(
      f"open_clip's CLIP cannot have model.text.eot_token={text.eot_token}: it"
      f" takes the largest id, {text.vocab_size - 1}."
    )
  return {
    "embed_dim": embedding_size(model),
    "quick_gelu": gelus == {"quick"},
    "vision_cfg": {
      "image_size": model.image_size,
      "patch_size": size.patch_size,
      "head_width": size.width // size.num_heads,
      **_transformer(size, tower.layer_norm_eps),
    },
    "text_cfg": _text_config(text),
  }


def _siglip_config(model: schema.Model) -> dict[str, Any]:
  """Returns the network's settings; warns if open_clip's GELU differs."""
  trunk = open_clip_trunks.find(model)
  theirs, ours = open_clip_trunks.gelu(trunk), model.image.gelu
  if theirs != ours:
    _logger.warning(
      "open_clip's image tower %s has the %s GELU, but model.image.gelu is"
      " '%s': its embeddings will differ a little.",
      trunk,
      theirs,
      ours,
    )
  text = {
    **_text_config(model.text),
    # Folder of the tokenizer's files next to the weights.
    "hf_tokenizer_name": "tokenizer",
    "tokenizer_kwargs": {"clean": "canonicalize"},
    "no_causal_mask": True,
    "proj_bias": True,
    "pool_type": "last",
  }
  if model.text.gelu == "tanh":
    text["act_kwargs"] = {"approximate": "tanh"}
  return {
    "embed_dim": embedding_size(model),
    "init_logit_scale": math.log(model.scale_init),
    "init_logit_bias": model.bias_init,
    "custom_text": True,
    # For the text tower; timm's image towers ignore it.
    "quick_gelu": model.text.gelu == "quick",
    "vision_cfg": {
      "image_size": model.image_size,
      "timm_model_name": trunk,
      "timm_model_pretrained": False,
      "timm_pool": "map",
      "timm_proj": "none",
    },
    "text_cfg": text,
  }


def _text_config(text: Any) -> dict[str, Any]:
  size = text_sizes.size(text)
  return {
    "context_length": text.length,
    "vocab_size": text.vocab_size,
    "heads": size.num_heads,
    **_transformer(size, text.layer_norm_eps),
  }


def _transformer(size: Any, epsilon: float) -> dict[str, Any]:
  found = {
    "layers": size.depth,
    "width": size.width,
    "mlp_ratio": mlp_ratio(size),
  }
  if epsilon != _EPSILON:
    found["norm_kwargs"] = {"eps": epsilon}
  return found


def mlp_ratio(size: Any) -> float:
  """Returns the ratio whose product with the width truncates to the MLP's."""
  ratio = size.mlp_dim / size.width
  if int(size.width * ratio) < size.mlp_dim:
    ratio = math.nextafter(ratio, math.inf)
  return ratio


def _resizing(
  weights: Weights, kind: str
) -> tuple[dict[str, str], tuple[str, ...]]:
  """Returns keys of `preprocess_cfg` and what they cannot express.

  Args:
    weights: The network, and its image ops if they are known.
    kind: The family, whose published preprocessing is used if there are no ops.
  """
  if weights.preprocess is None:
    mode = "shortest" if kind == "clip" else "squash"
    return {"interpolation": "bicubic", "resize_mode": mode}, ()
  size = weights.model.image_size
  said, notes = timm_transform.described(weights.preprocess, size)
  side = math.floor(size / said["crop_pct"])
  if side != size:
    notes += (
      f"images are resized to {size} pixels there, not to {side} and cropped",
    )
  interpolation = said["interpolation"]
  if interpolation in ("box", "hamming"):
    interpolation = "bicubic"
    notes += ("images are resized bicubically there, not by areas",)
  mode = "squash" if said["crop_mode"] == "squash" else "shortest"
  return {"interpolation": interpolation, "resize_mode": mode}, notes


def _pixels(model: schema.Model) -> Mapping[str, Any]:
  mean, deviation = pixels.parse(model.normalize)
  return {"mean": mean, "std": deviation}
