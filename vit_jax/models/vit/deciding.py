"""Keys of `config.model` that determine the shape of a ViT's parameter."""

import re

# Regex for a parameter -> keys, the likeliest first.
_KEYS = (
  (r"pre_logits/.*", "representation_size width pool"),
  # A head of other classes is a new one, so its number of inputs is at fault.
  (r"head/.*", "representation_size width pool num_classes"),
  (r"dist|head_dist/.*", "distillation num_classes width"),
  (r"cls", "pool cls_token width"),
  (r"registers", "registers width"),
  (r".*/layer_scale_\d", "layer_scale width"),
  (r"MAPHead_0/.*", "pool mlp_dim num_heads width"),
  (r"(fc_norm|Transformer/encoder_norm)/.*", "norm_after_pool width"),
  (
    r"Transformer/posembed.*",
    "pos_embedding pos_embedding_at cls_token distillation cls_position width"
    " num_heads image_size",
  ),
  (
    r".*/relative_bias/table",
    "pos_embedding pos_embedding_at num_heads image_size",
  ),
  (r".*/key/bias", "key_bias qkv_bias num_heads width"),
  (r".*/(query|value)/bias", "qkv_bias num_heads width"),
  (r".*/MultiHeadDotProductAttention_0/.*", "num_heads width"),
  (r".*/MlpBlock_0/gate/.*", "mlp mlp_dim width"),
  (r".*/MlpBlock_0/LayerNorm_0/.*", "mlp_norm mlp_dim width"),
  (r".*/MlpBlock_0/.*", "mlp_dim width"),
  (r"norm_pre/.*", "pre_norm width"),
  (r"embedding/bias", "patch_bias width"),
  (r"embedding/.*", "patch_size stem_blocks stem_width width"),
  (r"(conv_root|gn_root|block\d+)/.*", "stem_blocks stem_width"),
  (r".*", "width blocks"),
)
# Keys that explain a layer's missing parameter better than the depth.
_OF_LAYERS = ("key_bias", "qkv_bias", "layer_scale", "mlp", "mlp_norm")
_LAYER = re.compile(r"Transformer/encoderblock(_\d+)?/")
_STACKED = "Transformer/encoderblock/"


def deciding(path: str, one_sided: bool) -> list[str]:
  """Returns the keys, the likeliest first; see `Family.deciding`."""
  keys = next(keys for regex, keys in _KEYS if re.fullmatch(regex, path))
  names = keys.split()
  if path.startswith(_STACKED) or (one_sided and _LAYER.match(path)):
    # Depth comes first, except for parameters that whole layers may lack.
    told = [name for name in names if name in _OF_LAYERS]
    names = [*told, "depth", *names]
  return names
