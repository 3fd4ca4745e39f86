"""Swin Transformer and Swin V2 (arXiv 2103.14030, 2111.09883) as a family."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models import stages
from vit_jax.models.family import Family, shared_keys
from vit_jax.models.layers import short_attention_memory
from vit_jax.models.swin import cost, detect, fitting, shapes, sizes
from vit_jax.models.swin.section import SwinModel

if TYPE_CHECKING:
  from vit_jax.models.swin.network import Swin

_TITLES = {1: "Swin", 2: "SwinV2"}
_NUMBERS = (
  "depths",
  "num_heads",
  "width",
  "patch_size",
  "window_size",
  "version",
)
_COMPUTED = (*_NUMBERS, "num_classes")
_PART = re.compile(r"(?:.*/)?(stem|stage(\d+)/(?:merge|block(\d+)))/.*")


def _check(model: schema.Model) -> None:
  """Checks the keys of a Swin against each other.

  Raises:
    UserError: Names the key of `config.model`, its value and a valid one.
  """
  size = sizes.swin(model)
  if len(size.depths) != len(size.num_heads):
    raise UserError(
      f"config.model.depths = {size.depths} and config.model.num_heads ="
      f" {size.num_heads} must have a number for each stage; set both."
    )
  for stage, (width, heads) in enumerate(
    zip(size.widths(), size.num_heads, strict=True), 1
  ):
    if width % heads:
      raise UserError(
        f"config.model.width = {size.width} gives stage {stage} {width}"
        f" channels, which do not divide over its {heads} heads"
        f" (config.model.num_heads = {size.num_heads}); use a multiple of"
        f" {_smallest_width(size)}."
      )
  _check_pretrained(model, size)
  if model.attention == "pallas":
    _check_pallas(model, size)
  elif model.attention not in ("auto", "xla"):
    # A ViT's config may override the network of a checkpoint.
    raise UserError(
      f"config.model.attention = '{model.attention}' does not know the windows"
      " of a Swin; use config.model.attention='xla', or 'pallas' on TPUs."
    )
  if model.image_size < size.stride:
    raise UserError(
      f"config.model.image_size = {model.image_size} is less than one place of"
      f" the last map, {size.stride} pixels; use at least {size.stride}, or a"
      " smaller config.model.patch_size."
    )


def _smallest_width(size: sizes.SwinSize) -> int:
  """The smallest width that the heads of every stage divide."""
  return next(
    width
    for width in range(1, size.num_heads[0] * max(size.num_heads) + 1)
    if all(width * 2**i % n == 0 for i, n in enumerate(size.num_heads))
  )


def _check_pretrained(model: schema.Model, size: sizes.SwinSize) -> None:
  windows = model.pretrained_window_sizes
  if windows is None:
    return
  if size.version == 1:
    raise UserError(
      f"config.model.pretrained_window_sizes = {windows} is of version 2, whose"
      " position biases are computed; leave it None, or set"
      " config.model.version=2."
    )
  if len(windows) != len(size.depths) or min(windows) < 0:
    raise UserError(
      f"config.model.pretrained_window_sizes = {windows} needs a number of"
      f" places, or 0, for each of the {len(size.depths)} stages."
    )


def _check_pallas(model: schema.Model, size: sizes.SwinSize) -> None:
  for window, width, heads in zip(
    size.windows(model.image_size), size.widths(), size.num_heads, strict=True
  ):
    if not short_attention_memory.fits(
      window**2, width, heads, model.dtype, has_bias=True
    ):
      raise UserError(
        "config.model.attention = 'pallas' keeps the scores of a window on the"
        f" chip, which config.model.window_size = {size.window_size} does not"
        f" allow ({window**2} places in a window); use"
        " config.model.attention='xla'."
      )


def _create(model: schema.Model, num_classes: int | None) -> "Swin":
  from vit_jax.models.swin.network import Swin

  size = sizes.swin(model)
  if model.attention == "auto":
    model = model.updated(attention="xla")
  return Swin(
    num_classes=num_classes,
    **{name: getattr(size, name) for name in _NUMBERS},
    **shared_keys(model, SwinModel, Swin, _COMPUTED),
  )


def _config_of(network: "Swin") -> schema.Model:
  size = sizes.SwinSize(**{name: getattr(network, name) for name in _NUMBERS})
  keys = sizes.swin_keys(size)
  keys.update(shared_keys(network, SwinModel, type(network), _COMPUTED))
  return SwinModel(num_classes=network.num_classes, **keys)


def _grid(model: schema.Model) -> tuple[int, int]:
  size = sizes.swin(model)
  return size.sides(model.image_size)[-1], size.stride


def _describe(model: schema.Model) -> str:
  size = sizes.swin(model)
  title, keys = _TITLES[size.version], sizes.swin_keys(size)
  if "depths" in keys or size.patch_size != 4:
    return (
      f"{title} of {sum(size.depths)} blocks, from width {size.width} to"
      f" {size.widths()[-1]}, patches of {size.patch_size} pixels"
    )
  window = size.window_size
  usual = window == sizes.WINDOWS[size.version]
  return f"{title}-{keys['variant']}" + ("" if usual else f", window {window}")


def _details(model: schema.Model) -> list[str]:
  size = sizes.swin(model)
  windows = size.windows(model.image_size)
  return [
    f"blocks of the stages: {', '.join(map(str, size.depths))}",
    f"heads of the stages: {', '.join(map(str, size.num_heads))}",
    f"channels of the stages: {', '.join(map(str, size.widths()))}",
    f"windows of the stages, places: {', '.join(map(str, windows))}",
    f"patches of {size.patch_size} x {size.patch_size} pixels",
  ]


def _find(name: str) -> schema.Model | None:
  match = re.fullmatch(r"Swin(V2)?-(\w+)", name, re.ASCII)
  if not match:
    return None
  version = 2 if match[1] else 1
  return SwinModel(name="swin", variant=match[2], version=version)


def _shrink(model: Any) -> None:
  """Reduces the network to two stages of two blocks with 2 x 2 windows."""
  model.update(depths=(2, 2), num_heads=(2, 4), width=8, patch_size=2)
  model.update(window_size=2, image_size=16)
  if model.pretrained_window_sizes is not None:
    model.pretrained_window_sizes = (2, 2)


def _pixel_filters(network: "Swin", params: Mapping[str, Any]) -> Any:
  return params["stem"]["conv"]["kernel"]


def _layer_of(model: schema.Model, path: str) -> int | None:
  """Counts blocks as layers; a merging belongs to the block before it."""
  match = _PART.fullmatch(path)
  if not match:
    return None
  if match[1] == "stem":
    return -1
  depths, stage = sizes.swin(model).depths, int(match[2])
  block = int(match[3] or depths[stage - 1])
  return sum(depths[: stage - 1]) + block - 1


def _unseen(model: schema.Model, wanted: schema.Model) -> Mapping[str, Any]:
  """Windows of version 2, and padding where it matters; `Family.unseen`."""
  size, keys = sizes.swin(model), {}
  if size.version == 2:
    keys["window_size"] = size.window_size
  if sizes.swin(wanted).order_matters(wanted.image_size):
    keys["pad_before_shift"] = model.pad_before_shift
  return keys


def _deciding(path: str, one_sided: bool) -> tuple[str, ...]:
  """Keys that decide a parameter's shape; see `Family.deciding`."""
  if path.startswith("head/"):
    return "num_classes", "width"
  if path.startswith("stem/"):
    return "patch_size", "width"
  if re.search(r"/(positions|log_scale|position_\w+/\w+)$", path):
    return "version", "depths", "num_heads", "window_size", "image_size"
  if one_sided:
    return "depths", "version", "width"
  return "width", "version"


FAMILY = Family(
  section=SwinModel,
  title="Swin Transformer",
  tag="swin",
  check=_check,
  create=_create,
  config_of=_config_of,
  size=sizes.swin,
  forward_flops=cost.forward_flops,
  num_params=shapes.num_params,
  grid=_grid,
  describe=_describe,
  details=_details,
  names=tuple(
    f"{title}-{variant}"
    for title in _TITLES.values()
    for variant in sizes.VARIANTS
  ),
  matches=detect.matches,
  detect=detect.detect,
  shapes=shapes.shapes,
  fit=fitting.fit,
  deciding=_deciding,
  unseen=_unseen,
  find=_find,
  shrink=_shrink,
  feature_names=lambda network: stages.feature_names(network, ["stem"]),
  feature=stages.feature,
  map_names=stages.map_names,
  pixel_filters=_pixel_filters,
  layer_of=_layer_of,
  sharding_rules=(
    (r".*/attention/(queries|keys|values)/kernel", (None, "tensor")),
    (r".*/attention/(queries|keys|values)/bias", ("tensor",)),
    (r".*/attention/output/kernel", ("tensor", None)),
    (r".*/expand/kernel", (None, "tensor")),
    (r".*/expand/bias", ("tensor",)),
    (r".*/project/kernel", ("tensor", None)),
  ),
)
