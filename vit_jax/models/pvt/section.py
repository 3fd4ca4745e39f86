"""Keys of `config.model` that Pyramid Vision Transformers add."""

from collections.abc import Mapping
from typing import Any, ClassVar

from vit_jax.config.schema import (
  Fraction,
  Layers,
  Model,
  Positive,
  Size,
  key,
)


class PVTModel(Model):
  """A Pyramid Vision Transformer v2 (arXiv 2106.13797)."""

  # A PVT always averages its last map, and supports one GELU.
  implied: ClassVar[Mapping[str, Any]] = {"pool": "gap", "gelu": "exact"}

  name: str = key("pvt", "Name of the family.")
  linear_attention: bool = key(
    False,
    "True: queries attend to 7 x 7 keys, averages of the parts of a map of"
    " any size. False: keys come from a convolution of stride `reductions`.",
  )
  depths: tuple[Layers, ...] | None = key(
    None, "Blocks of each stage; None: the variant's."
  )
  widths: tuple[Size, ...] | None = key(
    None, "Channels of each stage; None: the variant's."
  )
  num_heads: tuple[Size, ...] | None = key(
    None, "Heads of each stage; None: 1, 2, 5 and 8."
  )
  reductions: tuple[Size, ...] | None = key(
    None,
    "Ratio of the side of a map to that of its keys, per stage; None: 8, 4, 2"
    " and 1.",
  )
  expansions: tuple[Size, ...] | None = key(
    None,
    "Ratio of the channels inside the MLPs to those outside, per stage; None:"
    " the variant's.",
  )
  stochastic_depth_rate: Fraction = key(
    0.0,
    "Drop rate of the last layer; the rates grow linearly from 0 at the first.",
  )
  layer_norm_eps: Positive = key(
    1e-6, "Epsilon of the norms before branches and at the end of a stage."
  )
  map_norm_eps: Positive = key(
    1e-5,
    "Epsilon of the norms after convolutions; Hugging Face uses that of the"
    " other norms.",
  )
