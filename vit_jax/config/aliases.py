"""Names of timm, Hugging Face and torchvision for the networks of this package.

'vit_base_patch16_384', 'google/vit-base-patch16-384' and 'vit_b_16' are all
ViT-B/16. An alias names the architecture; weights are given by a path.
"""

import re
from collections.abc import Mapping
from typing import Any

_SIZES = {
  "tiny": "Ti",
  "small": "S",
  "medium": "M",
  "base": "B",
  "large": "L",
  "huge": "H",
  "giant": "g",
  "gigantic": "G",
  "so400m": "So400m",
}
# Of networks in stages.
_STAGES = {
  **{size: size for size in ("atto", "femto", "pico", "nano")},
  **{"tiny": "T", "small": "S", "base": "B", "large": "L", "huge": "H"},
  "xlarge": "XL",
}
_SIZE = f"(?P<size>{'|'.join(_SIZES)})"
_STAGED = f"(?P<staged>{'|'.join(_STAGES)})"
_PATCH = r"patch(?P<patch>\d+)"
_PIXELS = r"(?P<pixels>\d{3})"
# What Hugging Face and timm add for the data that weights were trained on.
_DATA = r"(_in\w+|_(pt|ft)?(1|22)k)*"
_PRETRAINED = r"(_pretrain_\w+)?"

# Pattern of a name without its owner and tag, in lower case, with hyphens as
# underscores -> this package's name for it.
_FORMS = {
  rf"vit_{_SIZE}_{_PATCH}_{_PIXELS}{_DATA}": "ViT-{size}/{patch}",
  r"vit_(?P<letter>[blh])_(?P<patch>\d+)": "ViT-{letter}/{patch}",
  rf"vit_tiny_r_s16_p8_{_PIXELS}": "R+Ti/16",
  rf"vit_{_SIZE}_r(?P<depth>26|50)_s(?P<patch>\d+)_{_PIXELS}": (
    "R{depth}+{size}/{patch}"
  ),
  rf"deit_{_SIZE}_{_PATCH}_{_PIXELS}": "DeiT-{size}/{patch}",
  rf"deit_{_SIZE}_distilled_{_PATCH}_{_PIXELS}": (
    "DeiT-{size}/{patch}-distilled"
  ),
  rf"deit3_{_SIZE}_{_PATCH}_{_PIXELS}{_DATA}": "DeiT3-{size}/{patch}",
  r"dino_vit(?P<letter>[sb])(?P<patch>\d+)": "DINO-{letter}/{patch}",
  rf"dinov2_{_SIZE}": "DINOv2-{size}/14",
  rf"dinov2_with_registers_{_SIZE}": "DINOv2-{size}/14-registers",
  r"dinov2_vit(?P<letter>[sblg])14": "DINOv2-{letter}/14",
  r"dinov2_vit(?P<letter>[sblg])14_reg": "DINOv2-{letter}/14-registers",
  rf"vit_{_SIZE}_patch14_dinov2": "DINOv2-{size}/14",
  rf"vit_{_SIZE}_patch14_reg4_dinov2": "DINOv2-{size}/14-registers",
  rf"dinov3_vit(?P<letter>[sbl])16{_PRETRAINED}": "DINOv3-{letter}/16",
  rf"dinov3_vit(?P<letter>[slh])16plus{_PRETRAINED}": "DINOv3-{letter}+/16",
  r"vit_(?P<size>small|base|large)_patch16_dinov3(_qkvb)?": "DINOv3-{size}/16",
  r"vit_(?P<size>small|huge)_plus_patch16_dinov3(_qkvb)?": "DINOv3-{size}+/16",
  rf"dinov3_vit7b16{_PRETRAINED}|vit_7b_patch16_dinov3": "DINOv3-7B/16",
  rf"beit_{_SIZE}_{_PATCH}_{_PIXELS}{_DATA}": "BEiT-{size}/{patch}",
  rf"beitv2_{_SIZE}_{_PATCH}_{_PIXELS}{_DATA}": "BEiTv2-{size}/{patch}",
  rf"eva02_{_SIZE}_patch14_{_PIXELS}": "EVA02-{size}/14",
  r"resnetv2_(?P<depth>\d+)x(?P<width>\d)_bitm?": "BiT-R{depth}x{width}",
  rf"convnext_{_STAGED}(_{_PIXELS})?{_DATA}": "ConvNeXt-{staged}",
  rf"convnextv2_{_STAGED}{_DATA}(_{_PIXELS})?": "ConvNeXtV2-{staged}",
  rf"swin_{_STAGED}_patch4_window(?P<window>\d+)_{_PIXELS}{_DATA}": (
    "Swin-{staged}"
  ),
  rf"swinv2_{_STAGED}(_patch4)?_window(?P<window>\d+)_{_PIXELS}": (
    "SwinV2-{staged}"
  ),
  r"pvt_v2_b(?P<depth>\d)": "PVTv2-b{depth}",
  r"pvt_v2_b2_li(near)?": "PVTv2-b2-li",
  rf"clip_vit_{_SIZE}_{_PATCH}(_{_PIXELS})?": "CLIP-{size}/{patch}",
  rf"siglip_{_SIZE}_{_PATCH}_{_PIXELS}": "SigLIP-{size}/{patch}",
}
_LETTERS = {"s": "S", "b": "B", "l": "L", "h": "H", "g": "g"}
_WORDS = {"size": _SIZES, "staged": _STAGES, "letter": _LETTERS}


def find(name: str) -> tuple[str, Mapping[str, Any]] | None:
  """Translates another library's name to this package's name and keys.

  Args:
    name: Name such as 'swin_base_patch4_window12_384.ms_in22k' or
      'microsoft/swin-base-patch4-window12-384'; a tag of weights is left out.

  Returns:
    A name such as 'Swin-B' and keys of `config.model` such as `image_size` and
    `window_size`; or None if the name is not a known name of another library.
  """
  plain = name.rpartition("/")[2].partition(".")[0]
  plain = plain.lower().replace("-", "_")
  for pattern, form in _FORMS.items():
    match = re.fullmatch(pattern, plain)
    if match is None:
      continue
    found = {k: v for k, v in match.groupdict().items() if v is not None}
    keys = {
      key: int(found.pop(group))
      for group, key in (("pixels", "image_size"), ("window", "window_size"))
      if group in found
    }
    for group, words in _WORDS.items():
      if group in found:
        found[group] = words[found[group]]
    return form.format(**found), keys
  return None
