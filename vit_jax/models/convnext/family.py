"""ConvNeXt and ConvNeXt V2 (arXiv 2201.03545, 2301.00808) as a family."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models import stages
from vit_jax.models.convnext import cost, detect, shapes, sizes
from vit_jax.models.convnext.section import ConvNeXtModel
from vit_jax.models.family import Family, shared_keys

if TYPE_CHECKING:
  from vit_jax.models.convnext.network import ConvNeXt

# Published by the papers' authors.
_VARIANTS = {
  1: ("T", "S", "B", "L", "XL"),
  2: ("atto", "femto", "pico", "nano", "T", "B", "L", "H"),
}
_TITLES = {1: "ConvNeXt", 2: "ConvNeXtV2"}
_NUMBERS = ("depths", "widths", "stem_stride", "version")
_COMPUTED = (*_NUMBERS, "num_classes")
_PART = re.compile(r"(?:.*/)?(stem|stage(\d+)/(?:downsample|block(\d+)))/.*")
# Blocks of a stage that share a layer of `layer_decay`.
_BLOCKS_PER_LAYER = 3


def _check(model: schema.Model) -> None:
  """Checks the keys of a ConvNeXt against each other.

  Raises:
    UserError: Names the key of `config.model`, its value and a valid one.
  """
  size = sizes.convnext(model)
  if len(size.depths) != len(size.widths):
    raise UserError(
      f"config.model.depths = {size.depths} and config.model.widths ="
      f" {size.widths} must have a number for each stage; set both."
    )
  if model.image_size < size.stride:
    raise UserError(
      f"config.model.image_size = {model.image_size} leaves nothing of the"
      f" last map, whose places are {size.stride} pixels apart; use at least"
      f" {size.stride}, or a smaller config.model.stem_stride."
    )


def _create(model: schema.Model, num_classes: int | None) -> "ConvNeXt":
  from vit_jax.models.convnext.network import ConvNeXt

  size = sizes.convnext(model)
  return ConvNeXt(
    num_classes=num_classes,
    **{name: getattr(size, name) for name in _NUMBERS},
    **shared_keys(model, ConvNeXtModel, ConvNeXt, _COMPUTED),
  )


def _size_of(network: "ConvNeXt") -> sizes.ConvNeXtSize:
  return sizes.ConvNeXtSize(
    **{name: getattr(network, name) for name in _NUMBERS}
  )


def _config_of(network: "ConvNeXt") -> schema.Model:
  keys = sizes.convnext_keys(_size_of(network))
  keys.update(shared_keys(network, ConvNeXtModel, type(network), _COMPUTED))
  return ConvNeXtModel(num_classes=network.num_classes, **keys)


def _grid(model: schema.Model) -> tuple[int, int]:
  stride = sizes.convnext(model).stride
  return model.image_size // stride, stride


def _describe(model: schema.Model) -> str:
  size = sizes.convnext(model)
  title, keys = _TITLES[size.version], sizes.convnext_keys(size)
  if "depths" not in keys and size.stem_stride == 4:
    return f"{title}-{keys['variant']}"
  return (
    f"{title} of {sum(size.depths)} blocks, from width {size.widths[0]} to"
    f" {size.widths[-1]}, stem of stride {size.stem_stride}"
  )


def _details(model: schema.Model) -> list[str]:
  size = sizes.convnext(model)
  return [
    f"blocks of the stages: {', '.join(map(str, size.depths))}",
    f"channels of the stages: {', '.join(map(str, size.widths))}",
    f"stride of the stem: {size.stem_stride} pixels",
  ]


def _find(name: str) -> schema.Model | None:
  match = re.fullmatch(r"ConvNeXt(V2)?-(\w+)", name, re.ASCII)
  if not match:
    return None
  return ConvNeXtModel(
    name="convnext", variant=match[2], version=2 if match[1] else 1
  )


def _shrink(model: Any) -> None:
  """Reduces the network to one block in each stage."""
  stages = len(sizes.convnext(ConvNeXtModel(variant=model.variant)).depths)
  model.update(depths=(1,) * stages, stem_stride=2)
  model.update(widths=tuple(8 * 2**i for i in range(stages)), image_size=32)


def _pixel_filters(network: "ConvNeXt", params: Mapping[str, Any]) -> Any:
  return params["stem"]["conv"]["kernel"]


def _layer_of(model: schema.Model, path: str) -> int | None:
  """Three blocks of a stage form a layer; its downsampling joins the first."""
  match = _PART.fullmatch(path)
  if not match:
    return None
  if match[1] == "stem":
    return -1
  stage, block = int(match[2]), int(match[3] or 1)
  depths = sizes.convnext(model).depths[: stage - 1]
  below = sum(-(-depth // _BLOCKS_PER_LAYER) for depth in depths)
  return below + (block - 1) // _BLOCKS_PER_LAYER


def _deciding(path: str, one_sided: bool) -> tuple[str, ...]:
  """Keys that decide a parameter's shape; see `Family.deciding`."""
  if path.startswith("head/"):
    return "num_classes", "widths"
  if path.startswith("stem/"):
    return "stem_stride", "widths"
  if one_sided and re.search(r"/(gamma|grn/\w+)$", path):
    return "version", "depths"
  return ("depths", "widths") if one_sided else ("widths",)


FAMILY = Family(
  section=ConvNeXtModel,
  title="ConvNeXt",
  tag="convnext",
  check=_check,
  create=_create,
  config_of=_config_of,
  size=sizes.convnext,
  forward_flops=cost.forward_flops,
  num_params=shapes.num_params,
  grid=_grid,
  describe=_describe,
  details=_details,
  names=tuple(
    f"{_TITLES[version]}-{name}"
    for version, names in _VARIANTS.items()
    for name in names
  ),
  matches=detect.matches,
  detect=detect.detect,
  shapes=shapes.shapes,
  deciding=_deciding,
  find=_find,
  shrink=_shrink,
  feature_names=lambda network: stages.feature_names(network, ["stem"]),
  feature=stages.feature,
  map_names=stages.map_names,
  pixel_filters=_pixel_filters,
  layer_of=_layer_of,
  sharding_rules=(
    (r".*/expand/kernel", (None, "tensor")),
    (r".*/(expand|grn)/(bias|scale)", ("tensor",)),
    (r".*/project/kernel", ("tensor", None)),
  ),
)
