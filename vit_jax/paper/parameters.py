"""Numbers of parameters in closed form."""

from collections.abc import Sequence

from vit_jax.config import names, schema, sizes


def count(model: str | schema.Model, *, num_classes: int | None = 1000) -> int:
  """Parameters of a network, its head's included.

  Args:
    model: a name such as 'ViT-B/16', 'R50+B/16' or 'BiT-R50x1', at 224 px; or
      the section of a config. Position embeddings are learned, one for each
      token and added at the stem, or there are none.
    num_classes: outputs of the head; None: no head.

  Raises:
    UserError: if there is no model of this name.
  """
  if isinstance(model, str):
    model = names.find(model)
  if model.name == "resnet":
    size = sizes.resnet(model)
    total, channels = _backbone(size.blocks, size.width, norm_first=True)
    return total + _dense(channels, num_classes)
  size = sizes.vit(model)
  total, channels = 0, 3
  if size.stem_blocks is not None:
    total, channels = _backbone(
      size.stem_blocks, size.stem_width, norm_first=False
    )
  width, mlp_dim = size.width, size.mlp_dim
  has_cls = sizes.has_cls(model.pool, model.cls_token)
  tokens = size.grid(model.image_size) ** 2 + has_cls
  patch = size.patch_size // size.stem_stride
  total += _dense(patch**2 * channels, width) + has_cls * width
  if model.pos_embedding == "learned_1d":
    total += tokens * width
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


def _backbone(
  blocks: Sequence[int], width: int, *, norm_first: bool
) -> tuple[int, int]:
  """A root and stages of bottlenecks, convolutions without biases.

  Args:
    blocks: units of each stage.
    width: channels of the root.
    norm_first: whether normalisation and activation stand before each
      convolution, as in Big Transfer, or behind it, as in hybrids.

  Returns:
    Parameters, and channels of the result.
  """
  total, channels = 7 * 7 * 3 * width, width
  if not norm_first:
    total += 2 * width
  for stage, num_units in enumerate(blocks):
    inner, outer = width * 2**stage, 4 * width * 2**stage
    for unit in range(num_units):
      total += channels * inner + 9 * inner**2 + inner * outer
      total += 4 * inner + 2 * (channels if norm_first else outer)
      if channels != outer or (stage and not unit):
        total += channels * outer + (0 if norm_first else 2 * outer)
      channels = outer
  return total + (2 * channels if norm_first else 0), channels
