"""Keys of `config.model` that ConvNeXts add."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from vit_jax.config.schema import (
  Fraction,
  Layers,
  Model,
  Positive,
  Size,
  key,
)


class ConvNeXtModel(Model):
  """A ConvNeXt (arXiv 2201.03545) or ConvNeXt V2 (arXiv 2301.00808)."""

  # A ConvNeXt averages its last map before its last norm, and supports one
  # GELU.
  implied: ClassVar[Mapping[str, Any]] = {
    "pool": "gap",
    "norm_after_pool": True,
    "gelu": "exact",
  }

  name: str = key("convnext", "Name of the family.")
  version: Literal[1, 2] = key(
    1,
    "1: ConvNeXt, which scales the output of each block; 2: ConvNeXt V2,"
    " which has global response normalisation inside the block instead.",
  )
  depths: tuple[Layers, ...] | None = key(
    None, "Blocks of each stage; None: the variant's."
  )
  widths: tuple[Size, ...] | None = key(
    None, "Channels of each stage; None: the variant's."
  )
  depthwise: Literal["xla", "pallas"] = key(
    "xla",
    "Depthwise convolutions on TPUs. xla: the compiler's; pallas: a kernel that"
    " adds shifted maps, where the images on a device are a multiple of 8 and a"
    " row of their maps fits into vector memory; the compiler's elsewhere.",
  )
  stem_stride: Size = key(
    4, "Side and stride of the first convolution in pixels."
  )
  stochastic_depth_rate: Fraction = key(
    0.0,
    "Drop rate of the last layer; the rates grow linearly from 0 at the first.",
  )
  layer_norm_eps: Positive = key(
    1e-6, "Epsilon of the norms before the pooling."
  )
  head_norm_eps: Positive = key(
    1e-6,
    "Epsilon of the norm after the pooling, which Hugging Face sets"
    " separately.",
  )
