"""timm's SigLIP image towers, which open_clip identifies only by name."""

import dataclasses

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.two_towers.shapes import image_tower
from vit_jax.models.vit import sizes
from vit_jax.weights.fields import Fields
from vit_jax.weights.spellings.vit import timm

_EPSILON = 1e-6


@dataclasses.dataclass(frozen=True)
class Trunk:
  """Image towers that differ only in image size.

  Attributes:
    name: Part of timm's name.
    numbers: Width, depth, number of heads and hidden units of the MLPs.
    patch_size: Side of a patch, in pixels.
    image_sizes: Sides of the images, in pixels.
  """

  name: str
  numbers: tuple[int, int, int, int]
  patch_size: int
  image_sizes: tuple[int, ...]


# timm 1.0.31, timm/models/vision_transformer.py.
TRUNKS = (
  Trunk("base", sizes.VARIANTS["B"], 16, (224, 256, 384, 512)),
  Trunk("base", sizes.VARIANTS["B"], 32, (256,)),
  Trunk("large", sizes.VARIANTS["L"], 16, (256, 384, 512)),
  Trunk("so400m", sizes.VARIANTS["So400m"], 14, (224, 378, 384)),
  Trunk("so400m", sizes.VARIANTS["So400m"], 16, (256, 384, 512)),
  Trunk("giantopt", (1536, 40, 16, 6144), 16, (256, 384)),
)


def find(model: schema.Model) -> str:
  """Returns timm's name of a SigLIP image tower; its GELU may differ.

  Raises:
    UserError: There is no such tower in timm.
  """
  tower = image_tower(model)
  size = sizes.vit(tower)
  numbers = (size.width, size.depth, size.num_heads, size.mlp_dim)
  names = {
    side: f"vit_{trunk.name}_patch{trunk.patch_size}_siglip_{side}"
    for trunk in TRUNKS
    if (trunk.numbers, trunk.patch_size) == (numbers, size.patch_size)
    for side in trunk.image_sizes
  }
  if not names:
    raise UserError(
      "open_clip has SigLIP's image towers by timm's names, and timm has none"
      f" of width {size.width}, {size.depth} layers and patches of"
      f" {size.patch_size}. A Hugging Face directory, a NAME.npz or a workdir"
      " can hold this network."
    )
  if model.image_size not in names:
    raise UserError(
      f"open_clip's SigLIP cannot have model.image_size={model.image_size}:"
      f" timm has this image tower for {', '.join(map(str, names))} pixels. Of"
      " another size positions can be resized to one of these"
      f" (--image_size={min(names)})."
    )
  if tower.gelu == "quick" or tower.layer_norm_eps != _EPSILON:
    raise UserError(
      "open_clip's SigLIP cannot have"
      f" model.image.gelu={tower.gelu!r} with"
      f" model.image.layer_norm_eps={tower.layer_norm_eps}; timm's image towers"
      f" have 'exact' or 'tanh', and {_EPSILON}."
    )
  return names[model.image_size]


def gelu(name: str) -> str:
  """Returns the form of the GELU in timm's tower of that name."""
  return timm.gelu(Fields(name, {"architecture": name}))
