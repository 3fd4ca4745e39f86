"""A network with the heads of DINOv2."""

from typing import Any, NamedTuple

import flax.linen as nn
from jaxtyping import Array, Float

from vit_jax.config import schema
from vit_jax.objectives.dino.head import Head

IMAGES, PATCHES = "dino_head", "ibot_head"


class Learner(NamedTuple):
  """A network and its heads, whose parameters are next to the network's.

  Attributes:
    network: Network without a classifier.
    head: Head for images.
    patch_head: Head for patches.
    of_patches: Name of the patch head's parameters.
  """

  network: nn.Module
  head: Head
  patch_head: Head
  of_patches: str

  @classmethod
  def of(
    cls, network: nn.Module, objective: schema.DINOv2, dtype: str
  ) -> "Learner":
    """Builds the heads that a section `objective` describes."""

    def head(bottleneck):
      return Head(
        objective.prototypes,
        objective.hidden_width,
        bottleneck,
        objective.unit_prototypes,
        dtype,
        weight_norm=objective.weight_norm,
      )

    images = head(objective.bottleneck)
    if not objective.separate_patch_head:
      return cls(network, images, images, IMAGES)
    return cls(network, images, head(objective.patch_bottleneck), PATCHES)

  def say_of_images(
    self, params: Any, tokens: Float[Array, "*b d"]
  ) -> tuple[Float[Array, "*b e"], Float[Array, "k e"]]:
    """Returns the directions of class tokens, and the prototypes."""
    return self.head.apply({"params": params[IMAGES]}, tokens)

  def say_of_patches(
    self, params: Any, tokens: Float[Array, "*b d"]
  ) -> tuple[Float[Array, "*b e"], Float[Array, "k e"]]:
    """Returns the directions of patches, and their prototypes."""
    return self.patch_head.apply({"params": params[self.of_patches]}, tokens)
