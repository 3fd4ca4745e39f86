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

  # A Swin always averages its last map, and supports one GELU.
  implied: ClassVar[Mapping[str, Any]] = {"pool": "gap", "gelu": "exact"}

  name: str = key("swin", "Name of the family.")
  version: Literal[1, 2] = key(
    1,
    "1: Swin, which learns a table of position biases and normalises before"
    " each branch; 2: Swin V2, which computes the biases, uses cosine"
    " attention and normalises after each branch.",
  )
  attention: Literal["auto", "xla", "pallas"] = key(
    "xla",
    "Attention implementation. xla, which auto selects: plain products, on"
    " any device; pallas: a kernel that keeps the scores of windows on the"
    " chip, on TPUs.",
  )
  window_size: Size | None = key(
    None,
    "Side of a window in positions of a map; a smaller map is one window."
    " None: 7, or 8 for version 2.",
  )
  pretrained_window_sizes: tuple[NonNegativeInt, ...] | None = key(
    None,
    "Version 2: side of the windows of each stage with which the position"
    " biases were trained, used as the unit of offsets; None or 0: that of"
    " this model.",
  )
  pad_before_shift: bool = key(
    True,
    "Order of padding and shifting in blocks with shifted windows, for maps"
    " that windows do not divide. True: pad first, as the authors and Hugging"
    " Face do; False: shift first, as timm does. Other maps are not affected.",
  )
  depths: tuple[Layers, ...] | None = key(
    None, "Blocks of each stage; None: the variant's."
  )
  num_heads: tuple[Size, ...] | None = key(
    None, "Heads of each stage; None: the variant's."
  )
  width: Size | None = key(
    None,
    "Channels of the first stage, doubled at each further stage; None: the"
    " variant's.",
  )
  patch_size: Size = key(4, "Side of a patch in pixels.")
  stochastic_depth_rate: Fraction = key(
    0.0,
    "Drop rate of the last layer; the rates grow linearly from 0 at the first.",
  )
