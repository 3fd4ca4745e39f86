"""timm weight files, with or without a config."""

import re

from etils import epath

from vit_jax.config import pixels
from vit_jax.errors import UserError
from vit_jax.weights import labels, state_dict, tensors, timm_config
from vit_jax.weights.contract import Weights
from vit_jax.weights.fields import COUNTS, NUMBERS, TEXT, Fields
from vit_jax.weights.image_processor import normalize_key
from vit_jax.weights.spellings import names, zero_biases
from vit_jax.weights.spellings.contract import Assumed, Timm
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.registry import TIMM

# Regex of architectures -> their difference, which tensors may not show.
_OTHERS = {
  r"_rpn_": "has its norms after the branches, unlike our networks",
  r"_(lingbot|sapiens2|rope_(?!reg)|pe_(core|lang|spatial))": (
    "has rotary positions of another form than EVA-02's, which our networks do"
    " not have"
  ),
}
# Model arguments that shapes determine, that only affect training, or that are
# read here. Any other may change the outputs.
_ARGUMENTS = re.compile(
  r"img_size|patch_size|embed_dim|depth|mlp_ratio|num_classes|in_chans"
  r"|depths|window_size|pretrained_window_sizes"
  r"|class_token|reg_tokens|fc_norm|qkv_bias|no_embed_class|init_values"
  r"|dynamic_img_size|strict_img_size|weight_init|fix_init|\w*drop\w*_rate"
  r"|layers|channels|stem_chs|width_factor|zero_init_last"
  r"|num_heads|global_pool|act_layer"
  r"|depths|dims|kernel_sizes|conv_mlp|conv_bias|use_grn|ls_init_value"
  r"|head_init_scale|head_norm_first|head_hidden_size|norm_eps"
)

_OF_MAP = (
  'timm returns the last map (global_pool = ""); here the map is averaged, and'
  " its positions are the 'tokens' of vit_jax.features."
)


def read(path: epath.PathLike, part: str | None = None) -> Weights:
  """Reads the parameters in a file and detects their network.

  Args:
    path: A weights file, or a directory that holds one.
    part: As for `tensors.read`.

  Raises:
    UserError: The file is damaged, or its network is not one of ours; the
      message names the unsupported part.
  """
  path = epath.Path(path)
  directory = path if path.is_dir() else path.parent
  config = timm_config.found(path)
  if config is None:
    config = Fields(str(directory / timm_config.NAME), {})
  families = [TIMM.get(name) for name in TIMM.names()]
  told = _check_config(config, families)
  where = str(path)
  notes: list[str] = []
  marks = [mark for family in families for mark in _marks(family)]
  found = tensors.read(path, notes, part)
  found = state_dict.bare(found, where, marks, notes)
  family = told or _family(found, families, where)
  for fields in (config, config.mapping("model_args")):
    for key, value in family.fixed.items():
      if fields.values.get(key) not in (None, "", value):
        raise fields.refusal(key, f"is not '{value}', as in our networks")
  if "global_pool" in family.fixed and _returns_map(config):
    notes.append(_OF_MAP)
  if told and family.biases is not None:
    ends = re.compile(f".*{family.biases}").fullmatch
    if not any(map(ends, found)):
      zero_biases.check(config.mapping("model_args"))
  found = family.prepare(found, where, notes)
  names.check_required(where, found, family.names)
  said = family.said(config, found, where, notes)
  said["normalize"] = _normalize(config, notes)
  if (image_size := _input_size(config)) is not None:
    said["image_size"] = image_size
  heads_assumed = isinstance(said.get("num_heads"), Assumed)
  model, params, assumed = names.read(where, found, family.names, said)
  return Weights(
    path=where,
    model=model,
    params=params,
    class_names=_class_names(config, model.num_classes),
    assumed=(*notes, *assumed),
    heads_assumed=heads_assumed,
  )


def _check_config(config: Fields, families: list[Timm]) -> Timm | None:
  """Returns the family of an architecture; None if there is no name.

  Raises:
    UserError: The architecture, or the meaning of an argument, is not known.
  """
  if "architecture" not in config:
    return None
  name = config.get("architecture", TEXT)
  family = next((f for f in families if re.match(f.architectures, name)), None)
  if family is None:
    known = ", ".join(family.label for family in families)
    raise config.refusal(
      "architecture", f"is none of timm's networks that are read: {known}"
    )
  for pattern, difference in _OTHERS.items():
    if re.search(pattern, name):
      raise config.refusal("architecture", difference)
  arguments = config.mapping("model_args")
  for key, value in arguments.values.items():
    is_known = key in family.arguments or _ARGUMENTS.fullmatch(key)
    if value and not is_known:
      raise arguments.refusal(key, "is an argument that is not understood")
  return family


def _family(found: Tensors, families: list[Timm], path: str) -> Timm:
  for family in families:
    if any(name in found for name in _marks(family)):
      return family
  some = ", ".join(sorted(found)[:4]) or "none"
  known = ", ".join(family.label for family in families)
  marks = dict.fromkeys(mark for one in families for mark in _marks(one))
  raise UserError(
    f"{path} is none of timm's networks that are read ({known}): it has none of"
    f" {', '.join(marks)}. Its"
    f" tensors: {some}{', ...' if len(found) > 4 else ''}. (Hugging Face's"
    " files are read with the config.json next to them.)"
  )


def _marks(family: Timm) -> tuple[str, ...]:
  return family.marks or family.names.required[:1]


def _returns_map(config: Fields) -> bool:
  """Tells whether timm does not pool, as `global_pool` says."""
  of_network = config.mapping("model_args").values
  return of_network.get("global_pool", config.values.get("global_pool")) == ""


def _normalize(config: Fields, notes: list[str]) -> str:
  settings = timm_config.settings(config)
  if settings is not None:
    mean, deviation = pixels.parse("imagenet")  # timm's default.
    if "mean" not in settings and "std" not in settings:
      notes.append(
        f"{settings.path} does not say how pixels are normalised: timm's"
        " default is taken (model.normalize='imagenet'), though many of its"
        " ViTs want 'minus_one_to_one'."
      )
    return normalize_key(
      settings,
      settings.get("mean", NUMBERS, mean),
      settings.get("std", NUMBERS, deviation),
    )
  normalize = "minus_one_to_one"
  notes.append(
    "No config.json says how pixels are normalised: (x - 127.5) / 127.5 is"
    f" taken (model.normalize='{normalize}'); DeiT and others want 'imagenet'."
  )
  return normalize


def _input_size(config: Fields) -> int | None:
  """Returns the image side stated in config.json."""
  settings = timm_config.settings(config)
  if settings is None or "input_size" not in settings:
    return None
  size = settings.get("input_size", COUNTS, ())
  if len(size) != 3 or size[0] != 3 or size[1] != size[2]:
    raise settings.refusal("input_size", "is not [3, side, side]")
  return size[1]


def _class_names(
  config: Fields, num_classes: int | None
) -> tuple[str, ...] | None:
  values = dict(config.values)
  if (settings := timm_config.settings(config)) is not None:
    values = {**settings.values, **values}
  named = values.get("label_names", values.get("labels"))
  if not isinstance(named, list) or len(named) != num_classes:
    return None
  return labels.names([str(name) for name in named])
