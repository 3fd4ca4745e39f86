"""Keys of `config.model` that ResNets add."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from vit_jax.config.schema import Layers, Model, Size, key


class ResNetModel(Model):
  """A ResNet-v2 of Big Transfer."""

  # A ResNet always averages its last map.
  implied: ClassVar[Mapping[str, Any]] = {"pool": "gap"}

  name: str = key("resnet", "Name of the family.")
  width: Size | None = key(
    None, "Channels of the root, 64 x width factor; None: the variant's."
  )
  blocks: tuple[Layers, ...] | None = key(
    None, "Residual units of each stage of a ResNet; None: the variant's."
  )
  standardization: Literal["google", "torch"] = key(
    "google",
    "Epsilon added to the variances of kernels and of channel groups, in"
    " ResNets and stems. google: the values of [VT] and BiT; torch: those of"
    " timm and Hugging Face, whose logits differ by about 1e-4.",
  )
