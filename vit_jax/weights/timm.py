"""timm's safetensors: Vision Transformers, hybrids and BiT.

The tensors' names and shapes tell the architecture; a config.json beside them
what they do not, such as the number of heads.
"""

import re
from typing import Any

from etils import epath

from vit_jax.config import schema, sizes
from vit_jax.errors import UserError
from vit_jax.weights import (
  tensors,
  timm_tensors,
  torch_layout,
  torch_resnet,
  torch_vit,
)
from vit_jax.weights.contract import Weights
from vit_jax.weights.fields import Fields
from vit_jax.weights.image_processor import CONFIG, normalize_key
from vit_jax.weights.timm_tensors import Tensors, shape

NAMES = torch_vit.Names(
  embedding="patch_embed.proj",
  cls="cls_token",
  pos_embedding="pos_embed",
  block="blocks.{}",
  norm_0="norm1",
  # timm joins query, key and value to qkv; `timm_tensors` takes them apart.
  attention=torch_vit.Attention("attn.q", "attn.k", "attn.v", "attn.proj"),
  norm_1="norm2",
  dense_0="mlp.fc1",
  dense_1="mlp.fc2",
  last_norm="norm",
  pre_logits="pre_logits.fc",
  head="head",
  map_head="attn_pool",
  map_attention=torch_vit.Attention("q", "k", "v", "proj"),
  norm_after_pool="fc_norm",
  stem="patch_embed.backbone.",
)
BIT_NAMES = torch_resnet.Names(
  root="stem.conv",
  unit="stages.{}.blocks.{}",
  head="head.fc",
  head_is_conv=True,
)

_FAMILIES = "vit_*, deit*_*, flexivit_* and resnetv2_*_bit"
_IS_READ = re.compile(r"(test_)?vit_|deit3?_|flexivit_|resnetv2_\w+_bit")
# Norms after the branches, under the names of those before them.
_IS_POST_NORM = re.compile(r"_rpn_")
_HAS_TANH_GELU = re.compile(
  r"_(base_patch32|so400m_patch16|giantopt_patch16)_siglip"
  r"|_large_patch16_siglip(_gap)?_512"
)
_GELUS = {"gelu": "exact", "gelu_tanh": "tanh"}
_POOLS = {"token": "cls", "avg": "gap", "map": "map"}
_HEAD_SIZE = 64
# Of models whose heads are of another size, by width and by name.
_HEADS = {1152: 16, 1280: 16, 1408: 16, 1664: 16}
_HAS_16_HEADS = re.compile(r"vit_base_patch16_gap_224|vit_giantopt_.*")
_DEFAULT_IMAGE_SIZE = 224
# Arguments of a model that shapes tell, that only training looks at, or that
# are read here. Any other may change what is computed.
_ARGUMENTS = re.compile(
  r"img_size|patch_size|embed_dim|depth|mlp_ratio|num_classes|in_chans"
  r"|class_token|fc_norm|qkv_bias|no_embed_class|init_values"
  r"|dynamic_img_size|strict_img_size|weight_init|fix_init|\w*drop\w*_rate"
  r"|layers|channels|stem_chs|width_factor|zero_init_last"
  r"|num_heads|global_pool|act_layer"
)


def read(path: epath.PathLike) -> Weights:
  """The parameters of a file, and the network that they are of.

  Args:
    path: a .safetensors file, or the directory that holds one; a config.json
      beside it is looked at.

  Raises:
    UserError: the file is damaged, or is of a network that is not ours; the
      message names what in it is not.
  """
  path = epath.Path(path)
  directory = path.parent if path.suffix == tensors.SUFFIX else path
  config = Fields(str(directory / CONFIG), {})
  if (directory / CONFIG).exists():
    config = Fields.read(directory / CONFIG)
  _check_config(config)
  found: Tensors = tensors.read(path)
  where, assumed = str(path), []
  if f"{BIT_NAMES.root}.weight" in found:
    model = _bit(found, where, config, assumed)
    size = sizes.resnet(model)
    pairs = torch_resnet.bit_pairs(size, model.num_classes, BIT_NAMES)
  else:
    found = timm_tensors.usual(found, where, assumed)
    found, model = _vit(found, where, config, assumed)
    pairs = torch_vit.pairs(model, NAMES)
  return Weights(
    path=where,
    model=model,
    params=torch_layout.read(where, found, pairs),
    class_names=_class_names(config, model.num_classes),
    assumed=tuple(assumed),
  )


def _check_config(config: Fields) -> None:
  """Refuses architectures and arguments whose meaning is not known."""
  if "architecture" not in config:
    return
  name = config.text("architecture")
  if not _IS_READ.match(name):
    raise config.refusal("architecture", f"is not one of {_FAMILIES}")
  if _IS_POST_NORM.search(name):
    raise config.refusal(
      "architecture", "has its norms after the branches, unlike our networks"
    )
  arguments = config.mapping("model_args")
  for key, value in arguments.values.items():
    if value and not _ARGUMENTS.fullmatch(key):
      raise arguments.refusal(key, "is an argument that is not understood")


def _bit(
  found: Tensors, path: str, config: Fields, assumed: list[str]
) -> schema.Model:
  width, _, _, _ = shape(found, f"{BIT_NAMES.root}.weight", 4, path)
  head = f"{BIT_NAMES.head}.weight"
  return schema.Model(
    **sizes.resnet_keys(
      sizes.ResNetSize(_stage_blocks(found, "stages."), width)
    ),
    num_classes=shape(found, head, 4, path)[0] if head in found else None,
    standardization="torch",
    normalize=_normalize(config, assumed),
    image_size=_input_size(config)
    or _taken_size(_DEFAULT_IMAGE_SIZE, "any other does too", assumed),
  )


def _vit(
  found: Tensors, path: str, config: Fields, assumed: list[str]
) -> tuple[Tensors, schema.Model]:
  """The network, and its tensors with a full position embedding."""
  width, _, patch, _ = shape(found, f"{NAMES.embedding}.weight", 4, path)
  hidden, _ = shape(found, f"blocks.0.{NAMES.dense_0}.weight", 2, path)
  stem = _stem(found, path)
  size = sizes.Size(
    width=width,
    depth=timm_tensors.num_blocks(found),
    num_heads=_num_heads(config, width, assumed),
    mlp_dim=hidden,
    patch_size=patch * sizes.stem_stride(stem.get("stem_blocks")),
    **stem,
  )
  pool = _pool(found, config)
  has_cls = NAMES.cls in found
  if pool == "cls" and not has_cls:
    raise config.refusal(
      "global_pool", "needs the class token, and there is none"
    )
  if pool == "map" and has_cls:
    raise UserError(
      f"{path} has both a class token and attention pooling, which our networks"
      " do not have together."
    )
  found, side = timm_tensors.with_class_row(
    found, has_cls, NAMES.pos_embedding, path
  )
  image_size = _input_size(config)
  if image_size is None or size.grid(image_size) != side:
    image_size = side * size.patch_size
  representation = f"{NAMES.pre_logits}.weight"
  head = f"{NAMES.head}.weight"
  model = schema.Model(
    **sizes.vit_keys(size),
    image_size=image_size,
    drop_remainder=image_size % size.patch_size != 0,
    num_classes=shape(found, head, 2, path)[0] if head in found else None,
    representation_size=shape(found, representation, 2, path)[0]
    if representation in found
    else None,
    pool=pool,
    cls_token=True if has_cls and pool != "cls" else None,
    norm_after_pool=f"{NAMES.norm_after_pool}.weight" in found,
    pos_embedding_resize="bicubic_antialias",
    gelu=_gelu(config),
    qkv_bias="blocks.0.attn.q.bias" in found,
    normalize=_normalize(config, assumed),
    standardization="torch" if stem else "google",
  )
  return found, model


def _stem(found: Tensors, path: str) -> dict[str, Any]:
  """Sizes of a hybrid's stem; {} where there is none."""
  if not any(name.startswith(NAMES.stem) for name in found):
    return {}
  blocks = _stage_blocks(found, f"{NAMES.stem}stages.")
  root = f"{NAMES.stem}stem.conv" if blocks else f"{NAMES.stem}conv"
  width, _, _, _ = shape(found, f"{root}.weight", 4, path)
  return {"stem_blocks": blocks, "stem_width": width}


def _stage_blocks(found: Tensors, prefix: str) -> tuple[int, ...]:
  """How many units the names speak of, for each stage."""
  unit = re.compile(re.escape(prefix) + r"(\d+)\.blocks\.(\d+)\.")
  units = {match.groups() for name in found if (match := unit.match(name))}
  stages = sorted({stage for stage, _ in units}, key=lambda x: (len(x), x))
  return tuple(sum(s == stage for s, _ in units) for stage in stages)


def _pool(found: Tensors, config: Fields) -> str:
  arguments = config.mapping("model_args")
  for fields in (config, arguments):
    if fields.values.get("global_pool"):
      name = fields.text("global_pool")
      if name not in _POOLS:
        raise fields.refusal(
          "global_pool", f"is not a pooling of our networks: {list(_POOLS)}"
        )
      return _POOLS[name]
  if any(name.startswith(f"{NAMES.map_head}.") for name in found):
    return "map"
  averages = f"{NAMES.norm_after_pool}.weight" in found
  return "cls" if NAMES.cls in found and not averages else "gap"


def _num_heads(config: Fields, width: int, assumed: list[str]) -> int:
  arguments = config.mapping("model_args")
  num_heads = _HEADS.get(width, max(1, width // _HEAD_SIZE))
  if "num_heads" in arguments:
    num_heads = arguments.integer("num_heads")
  elif _HAS_16_HEADS.fullmatch(config.text("architecture", "unknown")):
    num_heads = 16
  elif "architecture" not in config:
    assumed.append(
      f"No config.json says how many heads there are: {num_heads} of size"
      f" {width // num_heads} are taken (model.num_heads={num_heads})."
    )
  if width % num_heads:
    raise UserError(
      f"{config.path}: {num_heads} heads do not divide the width of {width};"
      " say the right number as model_args.num_heads."
    )
  return num_heads


def _gelu(config: Fields) -> str:
  arguments = config.mapping("model_args")
  if "act_layer" in arguments:
    name = arguments.text("act_layer")
    if name not in _GELUS:
      raise arguments.refusal(
        "act_layer", f"is not an activation of our networks: {list(_GELUS)}"
      )
    return _GELUS[name]
  architecture = config.text("architecture", "vit_")
  return "tanh" if _HAS_TANH_GELU.search(architecture) else "exact"


def _normalize(config: Fields, assumed: list[str]) -> str:
  settings = config.mapping("pretrained_cfg")
  if "mean" in settings and "std" in settings:
    return normalize_key(
      settings, settings.numbers("mean"), settings.numbers("std")
    )
  normalize = "minus_one_to_one"
  assumed.append(
    "No config.json says how pixels are normalised: (x - 127.5) / 127.5 is"
    f" taken (model.normalize='{normalize}'); DeiT and others want 'imagenet'."
  )
  return normalize


def _input_size(config: Fields) -> int | None:
  """Side of the image that config.json says."""
  settings = config.mapping("pretrained_cfg")
  if "input_size" not in settings:
    return None
  size = settings.integers("input_size", ())
  if len(size) != 3 or size[0] != 3 or size[1] != size[2]:
    raise settings.refusal("input_size", "is not [3, side, side]")
  return size[1]


def _taken_size(size: int, remark: str, assumed: list[str]) -> int:
  assumed.append(
    f"No config.json says the size of the images: {size} pixels are taken"
    f" (model.image_size={size}); {remark}."
  )
  return size


def _class_names(
  config: Fields, num_classes: int | None
) -> tuple[str, ...] | None:
  names = config.values.get("label_names")
  if not isinstance(names, list) or len(names) != num_classes:
    return None
  return tuple(map(str, names))
