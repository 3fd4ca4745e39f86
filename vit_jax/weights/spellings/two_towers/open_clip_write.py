"""CLIPs as directories of open_clip."""

import re
from typing import Any

import numpy as np
from etils import epath

from vit_jax import records
from vit_jax.config import pixels, schema
from vit_jax.errors import UserError
from vit_jax.models.text import sizes as text_sizes
from vit_jax.models.two_towers.shapes import embedding_size, image_tower
from vit_jax.models.vit import sizes as vit_sizes
from vit_jax.weights import stacking, tensors
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import names
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.registry import HUGGINGFACE
from vit_jax.weights.spellings.two_towers.open_clip import CONFIG

_MODEL = "open_clip_model.safetensors"
_EPSILON = 1e-5  # Where no norm_kwargs say another.
_ROWS = (
  (r"^vision_model\.embeddings\.class_embedding$", "visual.class_embedding"),
  (
    r"^vision_model\.embeddings\.position_embedding\.weight$",
    "visual.positional_embedding",
  ),
  (r"^vision_model\.embeddings\.patch_embedding\.", "visual.conv1."),
  (r"^vision_model\.pre_layrnorm\.", "visual.ln_pre."),
  (r"^vision_model\.post_layernorm\.", "visual.ln_post."),
  (r"^vision_model\.encoder\.layers\.", "visual.transformer.resblocks."),
  (
    r"^text_model\.embeddings\.position_embedding\.weight$",
    "positional_embedding",
  ),
  (r"^text_model\.embeddings\.token_embedding\.", "token_embedding."),
  (r"^text_model\.final_layer_norm\.", "ln_final."),
  (r"^text_model\.encoder\.layers\.", "transformer.resblocks."),
  (r"\.layer_norm([12])\.", r".ln_\1."),
  (r"\.self_attn\.out_proj\.", ".attn.out_proj."),
  (r"\.mlp\.fc1\.", ".mlp.c_fc."),
  (r"\.mlp\.fc2\.", ".mlp.c_proj."),
)
_QUERY = re.compile(r"(.*)\.self_attn\.q_proj\.(weight|bias)")


def write(directory: epath.PathLike, weights: Weights) -> None:
  """Writes a directory that open_clip opens as 'local-dir:DIR'.

  Args:
    directory: A path that is still free; it appears once it is complete.
    weights: A CLIP and its parameters.

  Raises:
    UserError: The network is none that open_clip has, or the directory cannot
      be written.
  """
  directory = epath.Path(directory)
  model = weights.model
  family = HUGGINGFACE.get("clip")
  if not family.writes(model):
    raise UserError(
      "open_clip's form is written of CLIPs alone; a Hugging Face directory, a"
      f" NAME.npz or a workdir can hold model.name={model.name!r}."
    )
  family.config(model)  # Raises UserError of what no CLIP can be.
  config = {
    "model_cfg": _model_config(model),
    "preprocess_cfg": _preprocessing(model),
  }
  found = names.write(stacking.unstack_layers(weights.params), family.names)
  found = _respelled(family.scale(model, found))
  with records.new_directory(directory) as partial:
    tensors.write(partial / _MODEL, found)
    records.write_json(partial / CONFIG, config)


def _respelled(found: Tensors) -> dict[str, np.ndarray]:
  """Tensors by open_clip's names, of those of Hugging Face."""
  theirs: dict[str, np.ndarray] = {}
  for name, tensor in found.items():
    if match := _QUERY.fullmatch(name):
      parts = [
        found[f"{match[1]}.self_attn.{part}_proj.{match[2]}"] for part in "qkv"
      ]
      joined = f"{match[1]}.attn.in_proj_{match[2]}"
      theirs[_renamed(joined)] = np.concatenate(parts)
    elif name == "visual_projection.weight":
      theirs["visual.proj"] = np.ascontiguousarray(tensor.T)
    elif name == "text_projection.weight":
      theirs["text_projection"] = np.ascontiguousarray(tensor.T)
    elif ".self_attn.k_proj." not in name and ".self_attn.v_proj." not in name:
      theirs[_renamed(name)] = tensor
  return theirs


def _renamed(name: str) -> str:
  for pattern, replacement in _ROWS:
    name = re.sub(pattern, replacement, name)
  return name


def _model_config(model: schema.Model) -> dict[str, Any]:
  tower, text = image_tower(model), model.text
  size, of_text = vit_sizes.vit(tower), text_sizes.size(text)
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
    "text_cfg": {
      "context_length": text.length,
      "vocab_size": text.vocab_size,
      "heads": of_text.num_heads,
      **_transformer(of_text, text.layer_norm_eps),
    },
  }


def _transformer(size: Any, epsilon: float) -> dict[str, Any]:
  found = {
    "layers": size.depth,
    "width": size.width,
    "mlp_ratio": size.mlp_dim / size.width,
  }
  if epsilon != _EPSILON:
    found["norm_kwargs"] = {"eps": epsilon}
  return found


def _preprocessing(model: schema.Model) -> dict[str, Any]:
  mean, deviation = pixels.parse(model.normalize)
  return {
    "mean": mean,
    "std": deviation,
    "interpolation": "bicubic",
    "resize_mode": "shortest",
  }
