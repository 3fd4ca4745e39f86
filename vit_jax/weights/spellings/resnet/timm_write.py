"""BiT as timm's ResNetV2."""

import numpy as np

from vit_jax.config import schema
from vit_jax.models.resnet import sizes
from vit_jax.weights import flat
from vit_jax.weights.spellings import names
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.resnet import timm, torch
from vit_jax.weights.spellings.timm_network import (
  TimmNetwork,
  TimmWriter,
  cannot,
)

_KIND = "ResNetV2"
# Units per stage -> depth in the name, and width factors that timm has; the
# smallest divides the others.
_DEPTHS = {
  (3, 4, 6, 3): (50, (1, 3)),
  (3, 4, 23, 3): (101, (1, 3)),
  (3, 8, 36, 3): (152, (2, 4)),
}
# timm rounds the root's channels to a multiple of this.
_MULTIPLE = 8


def _network(model: schema.Model) -> TimmNetwork:
  size = sizes.resnet(model)
  if size.blocks not in _DEPTHS:
    raise cannot(_KIND, f"model.blocks={size.blocks}")
  depth, factors = _DEPTHS[size.blocks]
  factor = next(
    (f for f in factors if f * sizes.ROOT_WIDTH == size.width), factors[0]
  )
  if size.width % (factor * _MULTIPLE):
    raise cannot(_KIND, f"model.width={size.width}")
  root = size.width // factor
  return TimmNetwork(
    architecture=f"resnetv2_{depth}x{factor}_bit",
    arguments={
      "stem_chs": root,
      "channels": [4 * root * 2**stage for stage in range(len(size.blocks))],
    },
    pool="avg",
    width=4 * size.width * 2 ** (len(size.blocks) - 1),
    first_conv="stem.conv",
    classifier="head.fc",
    fixed_input_size=False,
  )


def _tensors(model: schema.Model, params: Tensors) -> Tensors:
  written = names.write(flat.unflatten(params), timm.TIMM.names)
  written = torch.with_torchs_constants(model, written)
  head = "head.fc.weight"
  if head in written:
    # A 1 x 1 convolution.
    written = {**written, head: written[head][:, :, None, None]}
  return {name: np.asarray(tensor) for name, tensor in written.items()}


WRITER = TimmWriter(
  writes=lambda model: model.name == "resnet",
  network=_network,
  tensors=_tensors,
)
