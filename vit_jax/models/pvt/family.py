"""Pyramid Vision Transformer v2 (arXiv 2106.13797) as a family."""

import operator
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models import stages
from vit_jax.models.family import Family, shared_keys
from vit_jax.models.pvt import cost, detect, shapes, sizes
from vit_jax.models.pvt.section import PVTModel

if TYPE_CHECKING:
  from vit_jax.models.pvt.network import PVT

_BY_STAGE = ("depths", "widths", "num_heads", "reductions", "expansions")
_NUMBERS = (*_BY_STAGE, "linear_attention")
_COMPUTED = (*_NUMBERS, "num_classes")
_PART = re.compile(r"(?:.*/)?stage(\d+)/(?:(embed|norm)|block(\d+))/.*")


def _check(model: schema.Model) -> None:
  """Checks the keys of a PVT against each other.

  Raises:
    UserError: Names the key of `config.model`, its value and a valid one.
  """
  size = sizes.pvt(model)
  for name in _BY_STAGE[1:]:
    if len(getattr(size, name)) != len(size.depths):
      raise UserError(
        f"config.model.depths = {size.depths} and config.model.{name} ="
        f" {getattr(size, name)} must have a number for each stage; set both."
      )
  sides = size.sides(model.image_size)
  for stage, (width, heads, reduction, side) in enumerate(
    zip(size.widths, size.num_heads, size.reductions, sides, strict=True), 1
  ):
    if width % heads:
      raise UserError(
        f"config.model.widths = {size.widths} gives stage {stage} {width}"
        f" channels, which do not divide over its {heads} heads"
        f" (config.model.num_heads = {size.num_heads}); use a multiple of"
        f" {heads}."
      )
    if reduction > side and not size.linear_attention:
      raise UserError(
        f"config.model.image_size = {model.image_size} gives stage {stage} a"
        f" map of {side} x {side} places, of which config.model.reductions ="
        f" {size.reductions} leaves no keys; use images of at least"
        f" {_least_side(size)}, or smaller reductions."
      )


def _least_side(size: sizes.PVTSize) -> int:
  """Side of the smallest images that give a key in every stage."""
  return next(
    side
    for side in range(1, max(size.reductions) * size.stride + 1)
    if all(map(operator.ge, size.sides(side), size.reductions))
  )


def _create(model: schema.Model, num_classes: int | None) -> "PVT":
  from vit_jax.models.pvt.network import PVT

  size = sizes.pvt(model)
  return PVT(
    num_classes=num_classes,
    **{name: getattr(size, name) for name in _NUMBERS},
    **shared_keys(model, PVTModel, PVT, _COMPUTED),
  )


def _config_of(network: "PVT") -> schema.Model:
  size = sizes.PVTSize(**{name: getattr(network, name) for name in _NUMBERS})
  keys = sizes.pvt_keys(size)
  keys.update(shared_keys(network, PVTModel, type(network), _COMPUTED))
  return PVTModel(num_classes=network.num_classes, **keys)


def _grid(model: schema.Model) -> tuple[int, int]:
  size = sizes.pvt(model)
  return size.sides(model.image_size)[-1], size.stride


def _describe(model: schema.Model) -> str:
  size = sizes.pvt(model)
  keys = sizes.pvt_keys(size)
  suffix = "-li" if size.linear_attention else ""
  if set(keys) <= {"name", "variant", "linear_attention"}:
    return f"PVTv2-{keys['variant']}{suffix}"
  kind = " with linear attention" if size.linear_attention else ""
  return (
    f"PVTv2 of {sum(size.depths)} blocks, from width {size.widths[0]} to"
    f" {size.widths[-1]}{kind}"
  )


def _details(model: schema.Model) -> list[str]:
  size = sizes.pvt(model)
  reductions = ", ".join(map(str, size.reductions))
  return [
    f"blocks of the stages: {', '.join(map(str, size.depths))}",
    f"channels of the stages: {', '.join(map(str, size.widths))}",
    f"heads of the stages: {', '.join(map(str, size.num_heads))}",
    f"keys of the stages: averages, {sizes.POOLED} x {sizes.POOLED}"
    if size.linear_attention
    else f"maps of the stages over those of their keys: {reductions}",
  ]


def _find(name: str) -> schema.Model | None:
  match = re.fullmatch(r"PVTv2-(b\d)(-li)?", name, re.ASCII)
  if not match:
    return None
  return PVTModel(name="pvt", variant=match[1], linear_attention=bool(match[2]))


def _shrink(model: Any) -> None:
  """Reduces the network to two stages of one block."""
  model.update(depths=(1, 1), widths=(8, 16), num_heads=(1, 2))
  model.update(reductions=(2, 1), expansions=(2, 2), image_size=32)


def _pixel_filters(network: "PVT", params: Mapping[str, Any]) -> Any:
  return params["stage1"]["embed"]["conv"]["kernel"]


def _layer_of(model: schema.Model, path: str) -> int | None:
  """Counts blocks as layers; an embedding belongs to the block after it."""
  match = _PART.fullmatch(path)
  if not match:
    return None
  depths, stage, part = sizes.pvt(model).depths, int(match[1]), match[2]
  if part == "embed" and stage == 1:
    return -1
  last = depths[stage - 1]
  block = {"embed": 1, "norm": last, None: int(match[3] or 0)}[part]
  return sum(depths[: stage - 1]) + block - 1


def _unseen(model: schema.Model, wanted: schema.Model) -> Mapping[str, Any]:
  """Heads, which only divide channels, so no shape tells; `Family.unseen`."""
  del wanted
  return {"num_heads": sizes.pvt(model).num_heads}


def _deciding(path: str, one_sided: bool) -> tuple[str, ...]:
  """Keys that decide a parameter's shape; see `Family.deciding`."""
  if path.startswith("head/"):
    return "num_classes", "widths"
  if re.search(r"/(reduce|reduce_norm)/", path):
    return "linear_attention", "reductions", "depths", "widths"
  if re.search(r"/mlp/", path) and not one_sided:
    return "expansions", "widths"
  return ("depths", "widths") if one_sided else ("widths",)


FAMILY = Family(
  section=PVTModel,
  title="Pyramid Vision Transformer",
  tag="pvt",
  check=_check,
  create=_create,
  config_of=_config_of,
  size=sizes.pvt,
  forward_flops=cost.forward_flops,
  num_params=shapes.num_params,
  grid=_grid,
  describe=_describe,
  details=_details,
  names=(*(f"PVTv2-{variant}" for variant in sizes.VARIANTS), "PVTv2-b2-li"),
  matches=detect.matches,
  detect=detect.detect,
  shapes=shapes.shapes,
  deciding=_deciding,
  unseen=_unseen,
  find=_find,
  shrink=_shrink,
  feature_names=lambda network: stages.feature_names(network, [], ["embed"]),
  feature=stages.feature,
  map_names=stages.map_names,
  pixel_filters=_pixel_filters,
  layer_of=_layer_of,
  sharding_rules=(
    (r".*/reduced_attention/(queries|keys|values)/kernel", (None, "tensor")),
    (r".*/reduced_attention/(queries|keys|values)/bias", ("tensor",)),
    (r".*/reduced_attention/output/kernel", ("tensor", None)),
    (r".*/mlp/expand/kernel", (None, "tensor")),
    (r".*/mlp/(expand|depthwise)/bias", ("tensor",)),
    (r".*/mlp/depthwise/kernel", (None, None, None, "tensor")),
    (r".*/mlp/project/kernel", ("tensor", None)),
  ),
)
