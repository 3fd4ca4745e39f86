"""Computes timm's feature maps of its small networks of this folder.

    PYTHONPATH=.:tests/golden python tests/golden/make_feature_maps.py

Needs torch, transformers and timm; timm_maps.npz is of timm 1.0.31, in double
precision.
"""

import functools
import json
import re

import numpy as np
import timm
import torch
from make_dino import SWIGLU, TIMM
from make_huggingface import HERE, pixels
from safetensors.torch import load_file
from timm.layers import StdConv2d
from timm.models import resnetv2, vision_transformer

from tests.weights import published

TRANSFORMERS = ("timm_vit", "timm_dinov2_registers")
# Of those that differ in nothing that another has not; the file stays small.
SPARED = {
  ("timm_convnextv2", "images_70"),
  ("timm_dinov2_registers", "images_24"),
  ("timm_swinv2", "images_64"),
}
STAGED = ("swin", "swinv2", "convnext", "convnextv2", "pvt_v2")


def transformer(name: str, config, state, size: int):
  """Maps of all layers, from pixels and whether they are normalised."""
  if name == "timm_vit":
    net = timm.create_model(config["architecture"], **config["model_args"])
  else:
    registers = dict(reg_tokens=2, no_embed_class=True, init_values=1e-5)
    keys = TIMM | dict(num_heads=4)
    net = vision_transformer.VisionTransformer(**keys, **registers, **SWIGLU)
  net.load_state_dict(state)
  net.set_input_size(img_size=size)
  return lambda x, norm: (
    net.double()
    .eval()
    .forward_intermediates(x, norm=norm, intermediates_only=True)
  )


def staged(config, state, size: int):
  """Maps of all stages by `features_only`, whose modules have other names."""
  keys = dict(config["model_args"])
  keys.pop("num_classes")
  if "img_size" in keys:
    keys["img_size"] = size
  count = len(keys["depths"])
  net = timm.create_model(
    config["architecture"],
    features_only=True,
    out_indices=tuple(range(count)),
    **keys,
  )
  inner = getattr(net, "model", net)
  wanted = inner.state_dict()
  for name in wanted:
    known = re.sub(r"^(stages|stem|layers)_", r"\1.", name)
    # What depends on the size of the image alone is not saved.
    if known in state and state[known].shape == wanted[name].shape:
      wanted[name] = state[known]
    else:
      assert "relative" in name or "mask" in name, name
  inner.load_state_dict(wanted)
  return lambda x, norm: net.double().eval()(x)


def resnet(state):
  """Maps of all stages, without the one of the stem."""
  net = resnetv2.ResNetV2(
    layers=(2,),
    channels=(128,),
    stem_chs=32,
    num_classes=5,
    stem_type="fixed",
    conv_layer=functools.partial(StdConv2d, eps=1e-8),
  )
  net.load_state_dict(state)
  return lambda x, norm: (
    net.double().eval().forward_intermediates(x, intermediates_only=True)[1:]
  )


def main() -> None:
  arrays = {}
  for name in (*TRANSFORMERS, *(f"timm_{x}" for x in STAGED), "timm_bit"):
    folder = published.folder(name)
    config = json.loads((folder / "config.json").read_text())
    statistics = [config["pretrained_cfg"][key] for key in ("mean", "std")]
    state = {
      key: tensor.double()
      for key, tensor in load_file(folder / "model.safetensors").items()
    }
    for key, images in published.expected(name).items():
      if not key.startswith("images") or (name, key) in SPARED:
        continue
      size = images.shape[1]
      if name in TRANSFORMERS:
        compute = transformer(name, config, state, size)
      elif name == "timm_bit":
        compute = resnet(state)
      else:
        compute = staged(config, state, size)
      for norm in (False, True) if name in TRANSFORMERS else (False,):
        with torch.no_grad():
          maps = compute(pixels(images[:1], statistics).double(), norm)
        for number, x in enumerate(maps):
          # Of what timm gives, Swin's alone have channels last.
          x = x if "swin" in name else x.permute(0, 2, 3, 1)
          norms = "/norm" if norm else ""
          some = x[..., :: published.KEPT_CHANNELS]
          arrays[f"{name}/{key}{norms}/{number}"] = some.float().numpy()
  np.savez_compressed(HERE / "timm_maps.npz", **arrays)


if __name__ == "__main__":
  main()
