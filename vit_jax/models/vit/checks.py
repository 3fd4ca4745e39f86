"""Checks of `config.model` for a Vision Transformer.

Imports neither jax nor flax, so that commands reject a bad value at once.
"""

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.layers import cudnn_limits, short_attention_memory
from vit_jax.models.resnet.sizes import NUM_GROUPS, ROOT_WIDTH
from vit_jax.models.vit import sizes
from vit_jax.suggestions import nearest_multiples


def check(model: schema.Model) -> None:
  """Checks the keys of a ViT, with or without a stem, against each other.

  Raises:
    UserError: Names the key of `config.model`, its value and a valid one.
  """
  size = sizes.vit(model)
  if size.width % size.num_heads:
    divisors = [n for n in range(1, size.width + 1) if size.width % n == 0]
    nearest = min(divisors, key=lambda n: abs(n - size.num_heads))
    raise UserError(
      f"config.model.width = {size.width} does not divide over"
      f" config.model.num_heads = {size.num_heads}; use {nearest} heads, or"
      f" width {nearest_multiples(size.width, size.num_heads)}."
    )
  _check_stem(model, size)
  _check_image_size(model, size)
  _check_tokens(model)
  _check_distillation(model)
  _check_position_embedding(model, size.width)
  _check_stochastic_depth(model)
  _check_rope(model, size)
  if model.attention not in ("auto", "xla"):
    _check_kernel(model)
  if model.attention == "cudnn":
    _check_cudnn(model, size.width // size.num_heads)
  if model.attention == "pallas":
    _check_pallas(model, size)


def _check_stem(model: schema.Model, size: sizes.Size) -> None:
  if size.stem_blocks is None:
    if size.stem_width != ROOT_WIDTH:
      raise UserError(
        f"config.model.stem_width = {size.stem_width}, but '{model.variant}'"
        " has no stem; set config.model.stem_blocks or a variant such as"
        " 'R50+B/16'."
      )
    return
  if size.stem_width % NUM_GROUPS:
    raise UserError(
      f"config.model.stem_width = {size.stem_width} does not divide into the"
      f" {NUM_GROUPS} groups of its norms; use"
      f" {nearest_multiples(size.stem_width, NUM_GROUPS)}."
    )
  if size.patch_size % size.stem_stride:
    raise UserError(
      f"config.model.variant = '{model.variant}' has a total stride of"
      f" {size.patch_size}, but the stem of config.model.stem_blocks ="
      f" {size.stem_blocks} alone has {size.stem_stride}; use a multiple of"
      " that after the slash."
    )


def _check_image_size(model: schema.Model, size: sizes.Size) -> None:
  side, patch = model.image_size, size.patch_size
  if size.grid(side) < 1:
    raise UserError(
      f"config.model.image_size = {side} is smaller than the patch of"
      f" '{model.variant}'; use {patch} or more, or a smaller patch."
    )
  # A stem's convolutions reach beyond the border, so its maps cover the image.
  map_side = -(-side // size.stem_stride)
  unused = map_side % (patch // size.stem_stride) * size.stem_stride
  if unused and not model.drop_remainder:
    raise UserError(
      f"config.model.image_size = {side} is not a multiple of the patch size"
      f" {patch} of '{model.variant}'; use"
      f" {nearest_multiples(side, patch)}, or"
      f" config.model.drop_remainder=True, which leaves"
      f" {unused} pixel{'s' * (unused > 1)} unused."
    )


def _check_tokens(model: schema.Model) -> None:
  if model.cls_token is False and sizes.has_cls(model.pool, None):
    raise UserError(
      f"config.model.pool = '{model.pool}' takes the token that"
      " config.model.cls_token = False leaves out; use config.model.pool='gap'."
    )
  if model.norm_after_pool and model.pool == "cls_gap":
    raise UserError(
      "config.model.pool = 'cls_gap' joins tokens after the last norm; leave"
      " config.model.norm_after_pool False, or use config.model.pool='gap'."
    )
  if model.cls_token and model.pool == "map":
    raise UserError(
      "config.model.pool = 'map' attends with a token of its own; leave"
      " config.model.cls_token unset."
    )


def _check_distillation(model: schema.Model) -> None:
  if model.distillation == "none":
    return
  if model.pool != "cls":
    raise UserError(
      f"config.model.distillation = '{model.distillation}' adds a token"
      f" after the class token, but config.model.pool = '{model.pool}'; use"
      " config.model.pool='cls'."
    )
  if model.representation_size is not None:
    raise UserError(
      f"config.model.distillation = '{model.distillation}' has linear heads;"
      f" config.model.representation_size = {model.representation_size} would"
      " add a hidden layer. Leave it None."
    )


def _check_position_embedding(model: schema.Model, width: int) -> None:
  kind = model.pos_embedding
  if kind == "relative_bias":
    _check_relative_bias(model)
  elif model.pos_embedding_resize == "geometric":
    raise UserError(
      "config.model.pos_embedding_resize = 'geometric' resizes tables of"
      f" offsets, but config.model.pos_embedding = '{kind}'; use 'bilinear' or"
      " 'bicubic'."
    )
  if kind == "relative" and model.registers:
    raise UserError(
      f"config.model.registers = {model.registers} adds tokens without"
      " positions, but config.model.pos_embedding = 'relative' places every"
      " token; use config.model.pos_embedding='learned_1d'."
    )
  if kind == "relative" and not model.cls_position:
    raise UserError(
      "config.model.cls_position = False leaves the class token out of a table"
      " of positions, which config.model.pos_embedding = 'relative' does not"
      " have; leave config.model.cls_position at True."
    )
  if model.pos_embedding_init == "sincos2d":
    if kind != "learned_1d":
      raise UserError(
        "config.model.pos_embedding_init = 'sincos2d' is where a table of"
        " config.model.pos_embedding = 'learned_1d' starts, but that is"
        f" '{kind}'; leave pos_embedding_init at 'normal'."
      )
    kind = "sincos2d"
  # sincos2d divides by width / 4 - 1 frequencies.
  of, least = {"learned_2d": (2, 2), "sincos2d": (4, 8)}.get(kind, (1, 1))
  if width % of or width < least:
    raise UserError(
      f"config.model.pos_embedding = '{kind}' needs a width of at least"
      f" {least} that is a multiple of {of}, but config.model.width ="
      f" {width}; use {nearest_multiples(max(width, least), of)}."
    )
  if kind == "none" and model.pos_embedding_at != "stem":
    raise UserError(
      f"config.model.pos_embedding_at = '{model.pos_embedding_at}' has"
      " nothing to place, as config.model.pos_embedding = 'none'; leave it"
      " at 'stem'."
    )


def _check_stochastic_depth(model: schema.Model) -> None:
  if (
    model.stochastic_depth_group is not None
    and model.stochastic_depth_rate
    and model.scan_layers
    and model.stochastic_depth == "linear"
  ):
    raise UserError(
      "config.model.stochastic_depth_group ="
      f" {model.stochastic_depth_group} computes fewer examples in later"
      " layers, but config.model.scan_layers = True compiles one layer for all;"
      " set config.model.stochastic_depth='constant', or scan_layers to False."
    )


def _check_rope(model: schema.Model, size: sizes.Size) -> None:
  if not model.rope:
    for key in ("rope_base", "rope_coordinates"):
      value = getattr(model, key)
      default = type(model).model_fields[key].default
      if value != default:
        raise UserError(
          f"config.model.{key} = {value!r} is of rotary positions, but"
          " config.model.rope = False; set config.model.rope=True, or leave"
          f" {key} at {default!r}."
        )
    return
  heads = size.num_heads
  if size.width // heads % 4:
    raise UserError(
      "config.model.rope = True turns pairs of units, half of them by row and"
      f" half by column, but heads of {size.width // heads} units"
      f" (config.model.num_heads = {heads}) are not a multiple of 4; use"
      f" config.model.width={nearest_multiples(size.width, 4 * heads)}."
    )
  if model.rope_coordinates == "unit" and model.rope_grid != 16:
    raise UserError(
      f"config.model.rope_grid = {model.rope_grid} scales rows and columns that"
      " are counted in patches, but config.model.rope_coordinates = 'unit';"
      " leave rope_grid at 16, or set rope_coordinates to 'patches'."
    )
  if model.pos_embedding in ("relative", "relative_bias"):
    raise UserError(
      "config.model.rope = True is a relative position itself, so that"
      f" config.model.pos_embedding = '{model.pos_embedding}' does not go with"
      " it; use"
      " config.model.pos_embedding='learned_1d' or 'none'."
    )


def _check_relative_bias(model: schema.Model) -> None:
  if model.pos_embedding_at == "stem":
    raise UserError(
      "config.model.pos_embedding = 'relative_bias' is added to scores of"
      " attention, which config.model.pos_embedding_at = 'stem' has none of;"
      " use 'every_layer', or 'every_layer_shared' for one table for all."
    )
  has_cls = sizes.has_cls(model.pool, model.cls_token)
  if not has_cls or sizes.num_prefix(model) != 1:
    raise UserError(
      "config.model.pos_embedding = 'relative_bias' has places for one class"
      " token and the patches, but there are"
      f" {sizes.num_prefix(model)} tokens before them; use"
      " config.model.cls_token=True, config.model.registers=0 and"
      " config.model.distillation='none'."
    )
  if not model.cls_position:
    raise UserError(
      "config.model.cls_position = False leaves the class token out of a table"
      " of positions, which config.model.pos_embedding = 'relative_bias' does"
      " not have; leave config.model.cls_position at True."
    )


def _check_kernel(model: schema.Model) -> None:
  takes_bias = model.attention == "pallas"
  refused = ("relative",) if takes_bias else ("relative", "relative_bias")
  if model.pos_embedding in refused:
    raise UserError(
      f"config.model.attention = '{model.attention}' does not take"
      f" config.model.pos_embedding = '{model.pos_embedding}'; use"
      " config.model.attention='xla'."
    )


def _check_pallas(model: schema.Model, size: sizes.Size) -> None:
  length = size.grid(model.image_size) ** 2 + sizes.num_prefix(model)
  has_bias = model.pos_embedding == "relative_bias"
  if not short_attention_memory.fits(
    length, size.width, size.num_heads, model.dtype, has_bias=has_bias
  ):
    raise UserError(
      "config.model.attention = 'pallas' keeps the scores of all pairs of"
      f" tokens on the chip, which the {length} tokens of '{model.variant}' at"
      f" config.model.image_size = {model.image_size} do not allow; use"
      f" config.model.attention='{'xla' if has_bias else 'flash'}'."
    )


def _check_cudnn(model: schema.Model, head_size: int) -> None:
  if model.dtype != "bfloat16":
    raise UserError(
      "config.model.attention = 'cudnn' computes in bfloat16 only, but"
      f" config.model.dtype = '{model.dtype}'; set it to 'bfloat16', or"
      " config.model.attention to 'xla'."
    )
  if not cudnn_limits.takes(head_size):
    raise UserError(
      "config.model.attention = 'cudnn' takes heads of at most"
      f" {cudnn_limits.MAX_HEAD_SIZE} units, a multiple of 8;"
      f" '{model.variant}' has {head_size}. Change"
      " config.model.num_heads, or use config.model.attention='xla'."
    )
