"""FLOPs and parameters of Vision Transformers and hybrids, in closed form.

Counted as the ViT paper's tables do: matrix products and convolutions only, so
that normalisation, softmax and activations are left out.
"""

from vit_jax.config import schema
from vit_jax.models.resnet import cost as resnet_cost
from vit_jax.models.vit import sizes


def forward_flops(model: schema.Model, num_classes: int | None) -> int:
  """FLOPs of one image's forward pass, two per multiply-add."""
  size = sizes.vit(model)
  flops, channels = 0, 3
  if size.stem_blocks is not None:
    macs, _, channels = resnet_cost.backbone_macs(
      model.image_size, size.stem_blocks, size.stem_width, same=True
    )
    flops = 2 * macs
  return flops + vit_forward_flops(
    width=size.width,
    depth=size.depth,
    mlp_dim=size.mlp_dim,
    patch_size=size.patch_size // size.stem_stride,
    num_patches=size.grid(model.image_size) ** 2,
    num_classes=num_classes,
    representation_size=sizes.representation_size(model),
    pool=model.pool,
    cls_token=model.cls_token,
    relative=model.pos_embedding == "relative",
    channels=channels,
  )


def vit_forward_flops(
  *,
  width: int,
  depth: int,
  mlp_dim: int,
  patch_size: int,
  num_patches: int,
  num_classes: int | None,
  representation_size: int | None = None,
  pool: str = "cls",
  cls_token: bool | None = None,
  relative: bool = False,
  channels: int = 3,
) -> int:
  """FLOPs of one image's forward pass through a Vision Transformer.

  The number of heads does not change them.

  Args:
    width: Token width D.
    depth: Number of layers.
    mlp_dim: Hidden units of each layer's MLP.
    patch_size: Side of a patch, pixels.
    num_patches: Patches per image, without the cls token.
    num_classes: Outputs of the linear head; None for no head.
    representation_size: Hidden units of the tanh head; None for no such layer.
    pool: 'map' adds an attention-pooling layer, and 'none' applies the head
      to every token.
    cls_token: True if there is a class token; None if `pool` decides.
    relative: True if queries also meet 2 T - 1 relative keys in every layer.
    channels: Channels of the image, or of a stem's maps.

  Returns:
    Floating-point operations; a training step takes three times as many.
  """
  tokens = num_patches + sizes.has_cls(pool, cls_token)
  macs = num_patches * patch_size**2 * channels * width
  projections = 4 * tokens * width**2
  scores = 2 * tokens**2 * width
  mlp = 2 * tokens * width * mlp_dim
  macs += depth * (projections + scores + mlp)
  if relative:
    macs += depth * tokens * (2 * tokens - 1) * width
  if pool == "map":  # One query; keys and values of every token.
    macs += 2 * (1 + tokens) * width**2 + 2 * tokens * width
    macs += 2 * width * mlp_dim
  outputs = tokens if pool == "none" else 1
  features = width
  if representation_size is not None:
    macs += outputs * width * representation_size
    features = representation_size
  if num_classes is not None:
    macs += outputs * features * num_classes
  return 2 * macs


def num_params(model: schema.Model, num_classes: int | None) -> int:
  """Parameters of the network, its head's included.

  Position embeddings count if they are learned, one for each token, and added
  at the stem.
  """
  size = sizes.vit(model)
  total, channels = 0, 3
  if size.stem_blocks is not None:
    total, channels = resnet_cost.backbone_params(
      size.stem_blocks, size.stem_width, norm_first=False
    )
  width, mlp_dim = size.width, size.mlp_dim
  has_cls = sizes.has_cls(model.pool, model.cls_token)
  tokens = size.grid(model.image_size) ** 2 + has_cls
  patch = size.patch_size // size.stem_stride
  total += _dense(patch**2 * channels, width) + has_cls * width
  if model.pos_embedding == "learned_1d":
    total += (tokens - (has_cls and not model.cls_position)) * width
  attention = 4 * _dense(width, width) - 3 * width * (not model.qkv_bias)
  mlp = _dense(width, mlp_dim) + _dense(mlp_dim, width)
  total += size.depth * (attention + mlp + 4 * width) + 2 * width
  if model.pool == "map":  # A probe, attention, LayerNorm and MLP.
    total += width + attention + 2 * width + mlp
  representation = sizes.representation_size(model)
  total += _dense(width, representation)
  return total + _dense(representation or width, num_classes)


def _dense(inputs: int, outputs: int | None) -> int:
  """A layer with its bias; None: no layer."""
  return (inputs + 1) * outputs if outputs else 0
