"""Models by name: 'ViT-B/16', 'R50+B/16', 'BiT-R50x1'."""

import re
from collections.abc import Iterator

from vit_jax.config import schema, sizes
from vit_jax.errors import UserError
from vit_jax.suggestions import did_you_mean

# Patch sizes, pixels, that Vision Transformers are trained with.
_PATCHES = {
  "mu": (16,),
  "Ti": (16,),
  "S": (8, 16, 32),
  "M": (16, 32),
  "B": (8, 16, 32),
  "L": (14, 16, 32),
  "So400m": (14, 16),
  "H": (14,),
  "g": (14,),
  "G": (14,),
}
# Of google-research/vision_transformer and tables 3 and 6 of the ViT paper.
_HYBRIDS = (
  "R+Ti/16",
  "R26+S/32",
  "R26+B/32",
  "R50+B/16",
  "R50+B/32",
  "R50+L/16",
  "R50+L/32",
)
# Published by Big Transfer, or in table 6 of the ViT paper.
_RESNETS = (
  "R50x1",
  "R50x2",
  "R50x3",
  "R101x1",
  "R101x3",
  "R152x1",
  "R152x2",
  "R152x4",
  "R200x3",
)


def known() -> list[str]:
  """Names in the order of families and sizes; other sizes have names too."""
  return list(_known())


def find(name: str) -> schema.Model:
  """The architecture of this name, all other keys at their defaults.

  'B/16' is as good as 'ViT-B/16', 'R50x1' as 'BiT-R50x1', and 'R50x1+ViT-B/16'
  as 'R50+B/16'; patch sizes and width factors may be any.

  Raises:
    UserError: if there is none, with the nearest that there is.
  """
  resnet = re.fullmatch(r"(?:BiT-)?(R\d+x\d+)", name, re.ASCII)
  if resnet:
    model = schema.Model(name="resnet", variant=resnet[1])
  else:
    stem, plus, vit = name.rpartition("+")
    stem = re.sub(r"^(R\d+)x1$", r"\1", stem)
    model = schema.Model(variant=stem + plus + vit.removeprefix("ViT-"))
  try:
    sizes.resolve(model)
  except UserError:
    near = did_you_mean(name, _known(), cutoff=0.0)
    raise UserError(
      f"No model is named '{name}'. Did you mean '{near}'?"
      " vit_jax.list_models() has all names."
    ) from None
  return model


def describe(model: schema.Model) -> str:
  """'ViT-B/16 at 224 pixels', or sizes where there is no name for them."""
  if model.name == "resnet":
    size = sizes.resnet(model)
    keys = sizes.resnet_keys(size)
    name, units = f"BiT-{keys['variant']}", sum(size.blocks)
    unnamed = f"BiT of {units} units and root width {size.width}"
    is_named = keys.keys() <= {"name", "variant"}
  else:
    size = sizes.vit(model)
    keys = sizes.vit_keys(size)
    name = (
      keys["variant"] if "+" in keys["variant"] else f"ViT-{keys['variant']}"
    )
    stem = "" if size.stem_blocks is None else " and a convolutional stem"
    unnamed = (
      f"ViT of width {size.width}, depth {size.depth}, patches of"
      f" {size.patch_size} pixels{stem}"
    )
    is_named = keys.keys() <= {"variant"}
  return f"{name if is_named else unnamed} at {model.image_size} pixels"


def _known() -> Iterator[str]:
  for name, patches in _PATCHES.items():
    yield from (f"ViT-{name}/{patch}" for patch in patches)
  yield from _HYBRIDS
  yield from (f"BiT-{name}" for name in _RESNETS)
