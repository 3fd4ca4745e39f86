"""Makes the small ConvNeXts of this folder, as `make_huggingface.py` does its
own; with the original authors' names, too, from timm's tensors.

  python tests/golden/make_convnext.py
"""

import re

import timm
import torch
import transformers
from make_huggingface import (
  IMAGENET,
  LABELS,
  fresh,
  randomize,
  save_expected,
  save_huggingface,
  save_timm,
  stored,
)
from safetensors.torch import save_file

SIZES = dict(depths=(1, 2, 4, 1), dims=(8, 12, 16, 24))
SMALL = dict(depths=(1, 1, 2, 1), dims=(8, 8, 12, 16))
PROCESSOR = {"size": {"shortest_edge": 32}, "crop_pct": 0.875, "resample": 3}


def huggingface(kind: str, seed: int, *, has_head: bool) -> None:
  """A folder huggingface_<kind>: 'convnext' or 'convnextv2'."""
  prefix = {"convnext": "ConvNext", "convnextv2": "ConvNextV2"}[kind]
  config = getattr(transformers, f"{prefix}Config")(
    depths=list(SIZES["depths"]),
    hidden_sizes=list(SIZES["dims"]),
    image_size=32,
    patch_size=2,
    **(dict(id2label=LABELS) if has_head else {}),
  )
  suffix = "ForImageClassification" if has_head else "Model"
  model = getattr(transformers, prefix + suffix)(config)
  randomize_all(model, seed)

  def outputs(pixels):
    found = model(pixels)
    return found.logits if has_head else found.pooler_output

  save_huggingface(
    f"huggingface_{kind}",
    model,
    IMAGENET,
    {32: outputs, 45: outputs},
    processor=PROCESSOR,
  )


def randomize_all(model: torch.nn.Module, seed: int) -> None:
  """As `randomize`, with the factors of blocks and norms near 1."""
  randomize(model, seed)
  generator = torch.Generator().manual_seed(seed)
  with torch.no_grad():
    for name, parameter in sorted(model.named_parameters()):
      if name.endswith(("grn.weight", "layer_scale_parameter")):
        value = torch.randn(parameter.shape, generator=generator)
        parameter.copy_((1 + 0.3 * value).half())


def original(name: str) -> str:
  """facebookresearch's name of timm's tensor."""
  name = name.replace("stem.", "downsample_layers.0.")
  name = re.sub(r"stages\.(\d)\.downsample", r"downsample_layers.\1", name)
  name = name.replace(".blocks.", ".").replace("conv_dw", "dwconv")
  name = name.replace("mlp.fc", "pwconv").replace("head.norm", "norm")
  name = name.replace("mlp.grn.weight", "grn.gamma")
  return name.replace("mlp.grn.bias", "grn.beta").replace("head.fc", "head")


def timms(
  name: str, architecture: str, seed: int, settings: dict, *, is_saved: bool
) -> None:
  """A folder of timm's, and one of the same network by its authors' names."""
  arguments = dict(settings, num_classes=5)
  model = timm.create_model(architecture, **arguments)
  randomize_all(model, seed)
  functions = {64: model, 70: model}
  if is_saved:
    save_timm(
      f"timm_{name}",
      model,
      IMAGENET,
      functions,
      architecture,
      global_pool="avg",
      model_args=arguments,
      label_names=list(LABELS.values()),
    )
    return
  folder = fresh(f"original_{name}")
  save_expected(folder, IMAGENET, functions)
  tensors = {}
  for key, tensor in stored(model).items():
    grn = ".grn." in key
    tensors[original(key)] = tensor.reshape(1, 1, 1, -1) if grn else tensor
  save_file(tensors, folder / "model.safetensors")


if __name__ == "__main__":
  huggingface("convnext", 21, has_head=True)
  huggingface("convnextv2", 22, has_head=False)
  timms("convnext", "convnext_tiny", 23, SMALL, is_saved=True)
  timms("convnextv2", "convnextv2_atto", 24, SMALL, is_saved=True)
  timms("convnext", "convnext_tiny", 25, SMALL, is_saved=False)
  timms("convnextv2", "convnextv2_tiny", 26, SMALL, is_saved=False)
