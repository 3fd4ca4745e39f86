"""FLOPs of Vision Transformers and hybrids, in closed form.

Counted as in the ViT paper's tables: matrix products and convolutions only,
without normalisation, softmax and activations.
"""

from vit_jax.config import schema
from vit_jax.models.layers import skipping_groups
from vit_jax.models.resnet import cost as resnet_cost
from vit_jax.models.vit import sizes


def forward_flops(model: schema.Model, num_classes: int | None) -> int:
  """FLOPs of one image's forward pass, two per multiply-add.

  They do not depend on the number of heads.
  """
  size = sizes.vit(model)
  width = size.width
  macs, channels = 0, 3
  if size.stem_blocks is not None:
    macs, _, channels = resnet_cost.backbone_macs(
      model.image_size, size.stem_blocks, size.stem_width, same=True
    )
  num_patches = size.grid(model.image_size) ** 2
  tokens = num_patches + sizes.num_prefix(model)
  patch = size.patch_size // size.stem_stride
  macs += num_patches * patch**2 * channels * width
  macs += _layer_macs(model, size, tokens)
  if model.pool == "map":  # One query; keys and values for every patch.
    macs += 2 * (1 + num_patches) * width**2 + 2 * num_patches * width
    macs += _mlp_matrices(model) * width * size.mlp_dim
  outputs = tokens if model.pool == "none" else 1
  outputs += model.distillation == "average"
  features = sizes.feature_size(model)
  if representation_size := sizes.representation_size(model):
    macs += outputs * features * representation_size
    features = representation_size
  return 2 * (macs + outputs * features * (num_classes or 0))


def unread_flops(model: schema.Model, read_patches: int | None = None) -> int:
  """FLOPs of the last layer for tokens that are not read.

  `forward_flops` counts them, as published tables do, but the network skips
  them. Keys and values are needed for all tokens.

  Args:
    model: The section of a config.
    read_patches: Number of patches that an objective reads, the only ones for
      which the MLP is computed; None for the tokens that the head reads.
  """
  read = sizes.num_read(model.pool, model.distillation)
  reads_all = read is None and read_patches is None
  if reads_all or model.scan_layers or model.pos_embedding == "relative":
    return 0
  size = sizes.vit(model)
  tokens = size.grid(model.image_size) ** 2 + sizes.num_prefix(model)
  mlp = _mlp_matrices(model) * size.width * size.mlp_dim
  if read_patches is not None:
    return 2 * (tokens - read_patches) * mlp
  of_token = 2 * size.width**2 + 2 * tokens * size.width + mlp
  return 2 * (tokens - read) * of_token


def skipped_flops(model: schema.Model, unread: int) -> int:
  """FLOPs per image that `model.stochastic_depth_group` skips in training.

  Args:
    model: The section of a config.
    unread: FLOPs of the last layer that are never computed.
  """
  if model.stochastic_depth_group is None:
    return 0
  size = sizes.vit(model)
  tokens = size.grid(model.image_size) ** 2 + sizes.num_prefix(model)
  groups = skipping_groups.of_layers(
    model.stochastic_depth_rate,
    model.stochastic_depth,
    size.depth,
    model.stochastic_depth_group,
  )
  skipped = 1 - skipping_groups.computed_share(groups)
  of_last = 1 - skipping_groups.computed_share(groups[-1:])
  return round(skipped * layer_flops(model, tokens) - of_last * unread)


def layer_flops(model: schema.Model, num_tokens: int) -> int:
  """FLOPs of all layers for a number of tokens, two per multiply-add."""
  return 2 * _layer_macs(model, sizes.vit(model), num_tokens)


def _layer_macs(model: schema.Model, size: sizes.Size, tokens: int) -> int:
  width = size.width
  projections = 4 * tokens * width**2
  scores = 2 * tokens**2 * width
  mlp = _mlp_matrices(model) * tokens * width * size.mlp_dim
  if model.pos_embedding == "relative":  # Queries have 2 T - 1 more keys.
    scores += tokens * (2 * tokens - 1) * width
  return size.depth * (projections + scores + mlp)


def _mlp_matrices(model: schema.Model) -> int:
  return 3 if model.mlp == "swiglu" else 2
