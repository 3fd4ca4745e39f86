"""Keys of `config.model` that Swin Transformers add."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from vit_jax.config.schema import (
  Fraction,
  Layers,
  Model,
  NonNegativeInt,
  Size,
  key,
)


class SwinModel(Model):
  """A Swin Transformer (arXiv 2103.14030) or Swin V2 (arXiv 2111.09883)."""

  # A Swin averages its last map anyway, and knows one GELU.
  implied: ClassVar[Mapping[str, Any]] = {"pool": "gap", "gelu": "exact"}

  name: str = key("swin", "Name of the family.")
  version: Literal[1, 2] = key(
    1,
    "Swin: 1 learns a table of position biases and normalises before each"
    " branch; 2 computes the biases, compares by cosine and normalises after.",
  )
  attention: Literal["auto", "xla", "pallas"] = key(
    "xla",
    "Attention implementation. xla, which auto is: plain products, on any"
    " device; pallas: a kernel that keeps the scores of windows on the chip, on"
    " TPUs.",
  )
  window_size: Size | None = key(
    None,
    "Side of a window, places of a map; a smaller map is one window. None: 7,"
    " or 8 for version 2.",
  )
  pretrained_window_sizes: tuple[NonNegativeInt, ...] | None = key(
    None,
    "Version 2: side of each stage's windows that position biases were trained"
    " with, in which offsets are measured; None or 0: those of this model.",
  )
  pad_before_shift: bool = key(
    True,
    "Order in which a map that windows do not divide is padded and moved, in"
    " blocks whose windows move. True: padded first, as the authors and Hugging"
    " Face do; False: moved first, as timm does. It matters for no other map.",
  )
  depths: tuple[Layers, ...] | None = key(
    None, "Blocks of each stage; None: the variant's."
  )
  num_heads: tuple[Size, ...] | None = key(
    None, "Heads of each stage; None: the variant's."
  )
  width: Size | None = key(
    None,
    "Channels of the first stage, which the others double; None: the"
    " variant's.",
  )
  patch_size: Size = key(4, "Side of a patch, pixels.")
  stochastic_depth_rate: Fraction = key(
    0.0, "Rate of the last layer, growing linearly from 0 at the first."
  )
