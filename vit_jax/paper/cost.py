"""Cost of networks in closed form: 2 FLOPs per multiply-add.

Counted as the paper's tables do: matrix products and convolutions only, so
that normalisation, softmax and activations are left out. Convolutions are
counted without the multiplications by the zeros of their padding.
"""

from collections.abc import Sequence

from vit_jax.config import names, schema, sizes


def training_exaflops(
  model: str | schema.Model, images: int | float, epochs: int | float
) -> float:
  """Cost of a training run in units of 10^18, as Table 6 gives it.

  Forward and backward passes, three times the forward pass.

  Args:
    model: a name such as 'ViT-B/16', 'R50+B/16' or 'BiT-R50x1', at 224 px
      with 1000 classes; or the section of a config, of which a `num_classes`
      of None counts as 1000 classes.
    images: images of the data set.
    epochs: passes over it.

  Raises:
    UserError: if there is no model of this name.
  """
  if isinstance(model, str):
    model = names.find(model)
  forward = forward_flops(model, num_classes=model.num_classes or 1000)
  return 3 * forward * images * epochs / 1e18


def forward_flops(model: schema.Model, *, num_classes: int | None) -> int:
  """FLOPs of one image's forward pass, two per multiply-add.

  Args:
    model: the section; its own `num_classes` is not looked at.
    num_classes: outputs of the head; None: no head.
  """
  if model.name == "resnet":
    size = sizes.resnet(model)
    return resnet_forward_flops(
      blocks=size.blocks,
      width=size.width,
      image_size=model.image_size,
      num_classes=num_classes,
    )
  size = sizes.vit(model)
  flops, channels = 0, 3
  if size.stem_blocks is not None:
    macs, _, channels = _backbone(
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


def resnet_forward_flops(
  *,
  blocks: Sequence[int],
  width: int,
  image_size: int,
  num_classes: int | None,
) -> int:
  """FLOPs of one image's forward pass through a ResNet of bottlenecks.

  Args:
    blocks: units of each stage.
    width: channels of the root.
    image_size: side of the image, pixels.
    num_classes: outputs of the linear head; None: no head.
  """
  macs, _, channels = _backbone(image_size, blocks, width, same=False)
  return 2 * (macs + channels * (num_classes or 0))


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
    width: token width D.
    depth: number of layers.
    mlp_dim: hidden units of each layer's MLP.
    patch_size: side of a patch, pixels.
    num_patches: patches per image, without the cls token.
    num_classes: outputs of the linear head; None: no head.
    representation_size: hidden units of the tanh head; None: no such layer.
    pool: 'map' adds an attention-pooling layer, and 'none' applies the head
      to every token.
    cls_token: whether there is one; None: if pool is 'cls'.
    relative: whether queries also meet 2 T - 1 relative keys in every layer.
    channels: channels of the image, or of a stem's maps.

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


def _backbone(
  side: int, blocks: Sequence[int], width: int, *, same: bool
) -> tuple[int, int, int]:
  """A root and stages of bottlenecks.

  Args:
    side: of the image, pixels.
    blocks: units of each stage.
    width: channels of the root.
    same: whether padding is as 'SAME' has it, or half a kernel on each side.

  Returns:
    Multiply-adds, side and channels of the resulting map.
  """
  macs, side = _convolution(side, 3, width, kernel=7, stride=2, same=same)
  side = -(-side // 2)  # The pooling.
  channels = width
  for stage, num_units in enumerate(blocks):
    inner, outer = width * 2**stage, 4 * width * 2**stage
    for unit in range(num_units):
      stride = 2 if stage and not unit else 1
      bottleneck = [(channels, inner, 1, 1), (inner, inner, 3, stride)]
      if stride > 1 or channels != outer:
        projection = _convolution(
          side, channels, outer, kernel=1, stride=stride, same=same
        )
        macs += projection[0]
      for inputs, outputs, kernel, step in (*bottleneck, (inner, outer, 1, 1)):
        more, side = _convolution(
          side, inputs, outputs, kernel=kernel, stride=step, same=same
        )
        macs += more
      channels = outer
  return macs, side, channels


def _convolution(
  side: int, inputs: int, outputs: int, *, kernel: int, stride: int, same: bool
) -> tuple[int, int]:
  """Multiply-adds of a convolution over a square map, and the result's side."""
  result = -(-side // stride)
  padding = kernel // 2
  if same:  # What is uneven goes to the far side.
    padding = max(0, (result - 1) * stride + kernel - side) // 2
  taps = sum(
    0 <= place * stride + tap - padding < side
    for place in range(result)
    for tap in range(kernel)
  )
  return taps**2 * inputs * outputs, result
