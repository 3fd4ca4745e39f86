"""Cost of networks in closed form: 2 FLOPs per multiply-add.

Counted as the paper's tables do: matrix products only, so that normalisation,
softmax and activations are left out.
"""


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
  relative: bool = False,
  channels: int = 3,
) -> int:
  """FLOPs of one image's forward pass through a Vision Transformer.

  The number of heads does not change them.

  Args:
    width: token width D.
    depth: number of layers.
    mlp_dim: hidden units of each layer's MLP.
    patch_size: side of a patch, pixels.
    num_patches: patches per image, without the cls token.
    num_classes: outputs of the linear head; None: no head.
    representation_size: hidden units of the tanh head; None: no such layer.
    pool: 'cls' adds a token, 'map' an attention-pooling layer, and 'none'
      applies the head to every token.
    relative: whether queries also meet 2 T - 1 relative keys in every layer.
    channels: channels of the image.

  Returns:
    Floating-point operations; a training step takes three times as many.
  """
  tokens = num_patches + (pool == "cls")
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
