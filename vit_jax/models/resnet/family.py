"""Big Transfer's ResNet-v2 (arXiv 1912.11370) as a family."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.family import Family, shared_keys
from vit_jax.models.resnet import cost, detect, shapes, sizes
from vit_jax.models.resnet.section import ResNetModel

if TYPE_CHECKING:
  from vit_jax.models.resnet.network import ResNet

# Published by Big Transfer, or in table 6 of the ViT paper.
_VARIANTS = (
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
_COMPUTED = ("blocks", "width", "num_classes")


def _check(model: schema.Model) -> None:
  """Checks the keys of a ResNet against each other.

  Raises:
    UserError: Names the key of `config.model`, its value and a valid one.
  """
  size = sizes.resnet(model)
  if size.width % sizes.NUM_GROUPS:
    above = -(-size.width // sizes.NUM_GROUPS) * sizes.NUM_GROUPS
    raise UserError(
      f"config.model.width = {size.width} does not divide into the"
      f" {sizes.NUM_GROUPS} groups of a ResNet's norms; use {above}."
    )


def _create(model: schema.Model, num_classes: int | None) -> "ResNet":
  from vit_jax.models.resnet.network import ResNet

  size = sizes.resnet(model)
  return ResNet(
    blocks=size.blocks,
    width=size.width,
    num_classes=num_classes,
    **shared_keys(model, ResNetModel, ResNet, _COMPUTED),
  )


def _config_of(network: "ResNet") -> schema.Model:
  keys = sizes.resnet_keys(sizes.ResNetSize(network.blocks, network.width))
  keys.update(shared_keys(network, ResNetModel, type(network), _COMPUTED))
  return ResNetModel(num_classes=network.num_classes, **keys)


def _grid(model: schema.Model) -> tuple[int, int]:
  stride = sizes.stem_stride(sizes.resnet(model).blocks)
  return -(-model.image_size // stride), stride


def _describe(model: schema.Model) -> str:
  size = sizes.resnet(model)
  keys = sizes.resnet_keys(size)
  if keys.keys() <= {"name", "variant"}:
    return f"BiT-{keys['variant']}"
  return f"BiT of {sum(size.blocks)} units and root width {size.width}"


def _details(model: schema.Model) -> list[str]:
  size = sizes.resnet(model)
  return [
    f"units of the stages: {', '.join(map(str, size.blocks))}",
    f"channels of the root: {size.width}",
  ]


def _find(name: str) -> schema.Model | None:
  match = re.fullmatch(r"(?:BiT-)?(R\d+x\d+)", name, re.ASCII)
  return ResNetModel(name="resnet", variant=match[1]) if match else None


def _shrink(model: Any) -> None:
  """Reduces the network to one unit in each stage."""
  named = ResNetModel(name="resnet", variant=model.variant)
  stages = len(sizes.resnet(named).blocks)
  model.update(width=32, blocks=(1,) * stages, image_size=64)


def _feature_names(network: "ResNet") -> list[str]:
  from vit_jax.models.resnet.network import unit_name

  return [
    "root",
    *(
      f"block{stage + 1}/{unit_name(unit)}"
      for stage, num_units in enumerate(network.blocks)
      for unit in range(num_units)
    ),
    "encoded",
    "pre_logits",
  ]


def _map_names(network: "ResNet") -> list[str]:
  from vit_jax.models.resnet.network import unit_name

  return [
    f"block{stage + 1}/{unit_name(num_units - 1)}"
    for stage, num_units in enumerate(network.blocks)
  ]


def _feature(network: "ResNet", name: str, sown: Mapping[str, Any]) -> Any:
  values = sown["intermediates"]
  if "/" not in name:
    return values[name][0]
  stage, unit = name.split("/")
  return values[stage][unit]["map"][0]


def _pixel_filters(network: "ResNet", params: Mapping[str, Any]) -> Any:
  from vit_jax.models.layers import convolution

  return convolution.standardized_filters(params["root_conv"]["kernel"])


FAMILY = Family(
  section=ResNetModel,
  title="ResNet",
  tag="bit",
  check=_check,
  create=_create,
  config_of=_config_of,
  size=sizes.resnet,
  forward_flops=cost.forward_flops,
  num_params=shapes.num_params,
  grid=_grid,
  describe=_describe,
  details=_details,
  names=tuple(f"BiT-{name}" for name in _VARIANTS),
  matches=detect.matches,
  detect=detect.detect,
  shapes=shapes.shapes,
  deciding=lambda path, one_sided: (
    ("num_classes", "width")
    if path.startswith("head/")
    else ("width", "blocks")
  ),
  find=_find,
  shrink=_shrink,
  feature_names=_feature_names,
  feature=_feature,
  map_names=_map_names,
  pixel_filters=_pixel_filters,
)
