"""Published results of the families that followed, and the recipes of each.

Sources: [DeiT] arXiv 2012.12877 and facebookresearch/deit, [DeiT3] its
README_revenge.md, [Swin] microsoft/Swin-Transformer, [ConvNeXt]
facebookresearch/ConvNeXt, [PVT] arXiv 2106.13797 and whai362/PVT, whose issue
60 corrects the parameters of b0; those of b1 are of no released network. [EVA]
arXiv 2303.11331, whose networks first learned a teacher's features of
ImageNet-21k, without labels.
"""

import dataclasses
import re
from collections.abc import Iterator

from vit_jax.config import names, schema


@dataclasses.dataclass(frozen=True)
class Result:
  """A network that is published with its accuracy on ImageNet-1k.

  Attributes:
    name: Name that `config.names.find` knows.
    image_size: Side of the images, pixels.
    data: Data of pre-training, 'i1k' or 'i21k'.
    epochs: Epochs of this phase on ImageNet-1k.
    accuracy: Top-1, percent.
    params: Parameters, millions; None if they are not printed.
    gmacs: Multiply-adds of a forward pass, 10^9; None if not printed.
    config: Value of `--config` for this phase.
    window_size: Side of a Swin's windows; None: the variant's.
  """

  name: str
  image_size: int
  data: str
  epochs: int
  accuracy: float
  params: float | None
  gmacs: float | None
  config: str
  window_size: int | None = None

  @property
  def model(self) -> schema.Model:
    """The section `model`, with 1000 classes."""
    keys = {"image_size": self.image_size, "num_classes": 1000}
    if self.window_size:
      keys["window_size"] = self.window_size
    return names.find(self.name).model_copy(update=keys)

  @property
  def row(self) -> str:
    """'Swin-B, 384 px, ImageNet-21k first'."""
    first = ", ImageNet-21k first" if self.data == "i21k" else ""
    return f"{self.name}, {self.image_size} px{first}"


# Name | side, data, epochs, accuracy, parameters, multiply-adds | phase.
_TABLE = """
DeiT-Ti/16 | 224 i1k 300 72.2 5 - | pretrain
DeiT-S/16 | 224 i1k 300 79.8 22 4.6 | pretrain
DeiT-B/16 | 224 i1k 300 81.8 86 17.5 | pretrain
DeiT-B/16 | 384 i1k 30 83.1 86 55.4 | finetune384
DeiT-Ti/16-distilled | 224 i1k 300 74.5 6 - | pretrain
DeiT-S/16-distilled | 224 i1k 300 81.2 22 - | pretrain
DeiT-B/16-distilled | 224 i1k 300 83.4 87 - | pretrain
DeiT3-S/16 | 224 i1k 800 81.4 22.0 4.6 | pretrain
DeiT3-S/16 | 384 i1k 20 83.4 22.0 15.5 | finetune384
DeiT3-B/16 | 224 i1k 20 83.8 86.6 17.5 | finetune224
DeiT3-B/16 | 384 i1k 20 85.0 86.9 55.5 | finetune384
DeiT3-L/16 | 224 i1k 20 84.9 304.4 61.6 | finetune224
DeiT3-L/16 | 384 i1k 20 85.8 304.8 191.2 | finetune384
DeiT3-H/14 | 224 i1k 20 85.2 632.1 167.4 | finetune224
DeiT3-S/16 | 224 i21k 50 83.1 22.0 4.6 | i21k_to_i1k
DeiT3-B/16 | 224 i21k 50 85.7 86.6 17.5 | i21k_to_i1k
DeiT3-L/16 | 224 i21k 50 87.0 304.4 61.6 | i21k_to_i1k
DeiT3-H/14 | 224 i21k 50 87.2 632.1 167.4 | i21k_to_i1k
Swin-T | 224 i1k 300 81.2 28 4.5 | pretrain
Swin-S | 224 i1k 300 83.2 50 8.7 | pretrain
Swin-B | 224 i1k 300 83.5 88 15.4 | pretrain
Swin-B | 384 i1k 30 84.5 88 47.1 | finetune384
Swin-B | 224 i21k 30 85.2 88 15.4 | finetune22k
Swin-L | 224 i21k 30 86.3 197 34.5 | finetune22k
ConvNeXt-T | 224 i1k 300 82.1 28.6 4.5 | pretrain
ConvNeXt-S | 224 i1k 300 83.1 50.2 8.7 | pretrain
ConvNeXt-B | 224 i1k 300 83.8 88.6 15.4 | pretrain
ConvNeXt-B | 384 i1k 30 85.1 88.6 45.0 | finetune384
ConvNeXt-L | 224 i1k 300 84.3 197.8 34.4 | pretrain
ConvNeXt-L | 384 i1k 30 85.5 197.8 101.0 | finetune384
ConvNeXt-B | 224 i21k 30 85.8 88.6 15.4 | finetune22k
ConvNeXt-L | 224 i21k 30 86.6 197.8 34.4 | finetune22k
ConvNeXt-XL | 224 i21k 30 87.0 350.2 60.9 | finetune22k
PVTv2-b0 | 224 i1k 300 70.5 3.7 0.6 | pretrain
PVTv2-b1 | 224 i1k 300 78.7 - 2.1 | pretrain
PVTv2-b2 | 224 i1k 300 82.0 25.4 4.0 | pretrain
PVTv2-b2-li | 224 i1k 300 82.1 22.6 3.9 | pretrain
PVTv2-b3 | 224 i1k 300 83.1 45.2 6.9 | pretrain
PVTv2-b4 | 224 i1k 300 83.6 62.6 10.1 | pretrain
PVTv2-b5 | 224 i1k 300 83.8 82.0 11.8 | pretrain
EVA02-Ti/14 | 336 i21k 100 80.7 - - | finetune
EVA02-S/14 | 336 i21k 100 85.8 - - | finetune
EVA02-B/14 | 448 i21k 30 88.3 - - | finetune
"""


def _results() -> Iterator[Result]:
  for line in _TABLE.strip().splitlines():
    name, numbers, phase = (part.strip() for part in line.split("|"))
    size, data, epochs, accuracy, *counts = numbers.split()
    params, gmacs = (None if x == "-" else float(x) for x in counts)
    large = name.startswith("Swin") and size == "384"
    yield Result(
      name=name,
      image_size=int(size),
      data=data,
      epochs=int(epochs),
      accuracy=float(accuracy),
      params=params,
      gmacs=gmacs,
      config=_config(name, phase),
      window_size=12 if large else None,
    )


def _config(name: str, phase: str) -> str:
  """`--config` of a network and its phase."""
  family, _, size = name.partition("-")
  arguments = [f"model={name}"]
  if family.startswith("DeiT"):
    model, _, distilled = size.partition("-")
    arguments = ["recipe=deit3"] if family == "DeiT3" else []
    arguments.append(f"model={model.partition('/')[0]}")
    arguments += [distilled] if distilled else []
  if family == "EVA02":
    return f"configs/eva02.py:model={size.partition('/')[0]},phase={phase}"
  if phase != "pretrain":
    arguments.append(f"phase={phase}")
  file = re.sub(r"v?\d*$", "", family.lower())
  return f"configs/{file}.py:{','.join(arguments)}"


RESULTS = tuple(_results())
