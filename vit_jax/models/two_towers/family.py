"""CLIP (arXiv 2103.00020), SigLIP (2303.15343) and LiT (2111.07991)."""

import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.family import Family, Part, shared_keys
from vit_jax.models.fitting import Fitting
from vit_jax.models.text import sizes as text_sizes
from vit_jax.models.text.section import TextModel
from vit_jax.models.two_towers import detect
from vit_jax.models.two_towers import shapes as tower_shapes
from vit_jax.models.two_towers.section import SHARED, TwoTowersModel
from vit_jax.models.two_towers.shapes import IMAGE, TEXT, below, image_tower
from vit_jax.models.vit.section import ViTModel

if TYPE_CHECKING:
  import flax.linen as nn

  from vit_jax.models.two_towers.network import TwoTowers

_TEXT_NUMBERS = ("width", "depth", "num_heads", "mlp_dim")
_NAME = re.compile(r"(CLIP|SigLIP)-([\w]+)/(\d+)", re.ASCII)
# openai/CLIP: size of the image tower -> that of the text tower, and the length
# of the embeddings.
_CLIP_TEXT = {"B": ("M", 512), "L": ("B", 768)}
_SIGLIP = ("B", "L", "So400m")


@dataclasses.dataclass(frozen=True)
class Size:
  """Numbers that determine a two-tower network's shapes.

  Attributes:
    image: Numbers of the image tower, of its family's type.
    text: Numbers of the text tower.
    embedding_size: Length of the embeddings.
  """

  image: Any
  text: text_sizes.Size
  embedding_size: int


def _image_family(model: schema.Model) -> Family:
  return registry.FAMILIES.get(model.image.name)


def _family_of(image: "nn.Module") -> Family:
  """Family of an image tower that has been built."""
  return registry.FAMILIES.get(image.family)


def _check(model: schema.Model) -> None:
  if _image_family(model).has_text:
    raise UserError(
      f"config.model.image.name = {model.image.name!r} is not an image tower;"
      " use 'vit' or another family of images."
    )
  defaults = type(model.image)()
  for name in SHARED:
    if getattr(model.image, name) != getattr(defaults, name):
      raise UserError(
        f"config.model.image.{name} = {getattr(model.image, name)!r} is in the"
        f" wrong section; set config.model.{name}."
      )
  _image_family(model).check(image_tower(model))
  if getattr(model.image, "pool", None) == "none":
    raise UserError(
      "config.model.image.pool = 'none' gives features of every patch, and one"
      " of the image is compared with the text; use 'cls', 'gap' or 'map'."
    )
  text_sizes.size(model.text)
  tower_shapes.check_widths(model)


def _create(model: schema.Model, num_classes: int | None) -> "TwoTowers":
  from vit_jax.models.text.network import TextTransformer
  from vit_jax.models.two_towers.network import TwoTowers

  del num_classes
  text = model.text.model_dump(exclude={"variant", "dtype", *_TEXT_NUMBERS})
  dtype = model.text.dtype or model.dtype
  text |= dataclasses.asdict(text_sizes.size(model.text))
  return TwoTowers(
    image=_image_family(model).create(image_tower(model), None),
    text=TextTransformer(dtype=dtype, remat=model.remat, **text),
    embedding_size=tower_shapes.embedding_size(model),
    image_projection=model.image_projection,
    text_projection=model.text_projection,
    scale_init=model.scale_init,
    bias_init=model.bias_init,
  )


def _config_of(network: "TwoTowers") -> schema.Model:
  image_family = _family_of(network.image)
  image = image_family.config_of(network.image)
  shared = {name: getattr(image, name) for name in SHARED}
  own = {
    name: getattr(image, name)
    for name in image.model_fields_set
    if name not in SHARED
  }
  text = shared_keys(
    network.text, TextModel, type(network.text), but=_TEXT_NUMBERS
  )
  if network.text.dtype == image.dtype:
    text.pop("dtype", None)
  size = text_sizes.Size(
    **{name: getattr(network.text, name) for name in _TEXT_NUMBERS}
  )
  keys = shared_keys(network, TwoTowersModel, type(network), ("image", "text"))
  return TwoTowersModel(
    **shared,
    image=image_family.section(**own),
    text=TextModel(**text, **text_sizes.keys(size)),
    **keys,
  )


def _size(model: schema.Model) -> Size:
  return Size(
    _image_family(model).size(image_tower(model)),
    text_sizes.size(model.text),
    tower_shapes.embedding_size(model),
  )


def _forward_flops(model: schema.Model, num_classes: int | None) -> int:
  """FLOPs of an image and a text, without the comparison of all pairs."""
  del num_classes
  size = tower_shapes.embedding_size(model)
  total = _image_family(model).forward_flops(image_tower(model), None)
  total += text_sizes.forward_flops(model.text)
  if model.image_projection != "none":
    total += 2 * tower_shapes.image_width(model) * size
  if model.text_projection != "none":
    total += 2 * text_sizes.size(model.text).width * size
  return total


def _unread_flops(model: schema.Model) -> int:
  of_image = _image_family(model).unread_flops(image_tower(model))
  return of_image + text_sizes.unread_flops(model.text)


def _describe(model: schema.Model) -> str:
  size = text_sizes.size(model.text)
  return (
    f"{_image_family(model).describe(image_tower(model))} and a text"
    f" transformer of width {size.width} and depth {size.depth}"
  )


def _details(model: schema.Model) -> list[str]:
  size = text_sizes.size(model.text)
  causal = "causal, " if model.text.causal else ""
  return [
    *_image_family(model).details(image_tower(model)),
    f"text: width {size.width}, {size.depth} layers of {size.num_heads} heads,"
    f" {causal}{model.text.length} tokens of {model.text.vocab_size}, pooling:"
    f" `{model.text.pool}`",
    f"embeddings of {tower_shapes.embedding_size(model)} numbers",
  ]


def _fit(fitting: Fitting) -> None:
  """Fits the image tower as its family does; the text tower must match."""
  part = dataclasses.replace(
    fitting,
    leaves=below(IMAGE, fitting.leaves),
    shapes=below(IMAGE, fitting.shapes),
    wanted=image_tower(fitting.wanted),
    in_file=frozenset(below(IMAGE, dict.fromkeys(fitting.in_file))),
    fresh=[],
    dropped=[],
  )
  _image_family(fitting.wanted).fit(part)
  for name in list(fitting.leaves):
    if name.startswith(IMAGE):
      del fitting.leaves[name]
  fitting.leaves |= {IMAGE + name: leaf for name, leaf in part.leaves.items()}
  fitting.fresh += [IMAGE + name for name in part.fresh]
  fitting.dropped += [IMAGE + name for name in part.dropped]


def _deciding(path: str, one_sided: bool) -> list[str]:
  if path.startswith(IMAGE):
    return ["variant", "image", "image_size"]
  if path.startswith(TEXT):
    return ["text"]
  if path.startswith("logit"):
    return ["bias_init"]
  return ["embedding_size", "image_projection", "text_projection", "text"]


def _find(name: str) -> schema.Model | None:
  match = _NAME.fullmatch(name)
  if match is None:
    return None
  kind, size, patch = match.groups()
  variant = f"{size}/{patch}"
  if kind == "SigLIP":
    return TwoTowersModel(
      variant=variant,
      image=ViTModel(pool="map", pos_embedding_stddev="width"),
      text=TextModel(variant=size),
      bias_init=-10.0,
    )
  if size not in _CLIP_TEXT:
    return None
  text, embedding_size = _CLIP_TEXT[size]
  return clip(variant, text, embedding_size)


def clip(
  variant: str, text: str, embedding_size: int, gelu: str = "quick"
) -> TwoTowersModel:
  """Returns the section of a CLIP network.

  Args:
    variant: Variant of the image tower.
    text: Variant of the text tower.
    embedding_size: Length of the embeddings.
    gelu: Form of the GELU: 'quick', or 'exact' in open_clip's later models.
  """
  layers = {"gelu": gelu, "layer_norm_eps": 1e-5}
  return TwoTowersModel(
    variant=variant,
    normalize="clip",
    pos_embedding_resize="bicubic",
    image=ViTModel(
      pool="cls",
      patch_bias=False,
      pre_norm=True,
      pos_embedding_stddev="width",
      **layers,
    ),
    text=TextModel(
      variant=text,
      vocab_size=49_408,
      length=77,
      causal=True,
      pool="eot",
      embedding_stddev=0.02,
      pos_embedding_stddev=0.01,
      **layers,
    ),
    embedding_size=embedding_size,
    image_projection="linear",
    text_projection="linear",
    scale_init=1 / 0.07,
    bias_init=None,
  )


def _shrink(model: Any) -> None:
  """Makes the image tower tiny, and the text tower two layers of width 32."""
  family = registry.FAMILIES.get(model.image.name)
  shared = {name: model[name] for name in SHARED}
  tower = type(model)({**model.image, **shared})
  family.shrink(tower)
  for name in SHARED:
    model[name] = tower[name]
  for name in model.image:
    if name not in SHARED:
      model.image[name] = tower[name]
  model.text.update(width=32, depth=2, num_heads=2, mlp_dim=64)
  model.text.update(vocab_size=300, length=16)
  if model.embedding_size is not None:
    model.embedding_size = 32


def _feature(network: "TwoTowers", name: str, sown: Mapping[str, Any]) -> Any:
  if name == "pre_logits":
    return sown["intermediates"]["representation"][0]
  tower = network.image
  return _family_of(tower).feature(tower, name, _sown_by_image(sown))


def _last_layers(
  network: "TwoTowers",
  params: Mapping[str, Any],
  sown: Mapping[str, Any],
  count: int,
) -> tuple[Any, Any]:
  tower = network.image
  return _family_of(tower).last_layers(
    tower, params["image"], _sown_by_image(sown), count
  )


def _sown_by_image(sown: Mapping[str, Any]) -> dict[str, Any]:
  return {kind: tree["image"] for kind, tree in sown.items() if "image" in tree}


def _with_image(model: schema.Model, tower: schema.Model) -> schema.Model:
  """`model` with another image tower, and embeddings that fit it."""
  told = {name: getattr(tower, name) for name in tower.model_fields_set}
  shared = {name: told.pop(name) for name in SHARED if name in told}
  shared.pop("num_classes", None)
  found = model.model_copy(update={**shared, "image": type(tower)(**told)})
  if found.image_projection != "none":
    return found
  width = tower_shapes.image_width(found)
  return found.model_copy(update={"embedding_size": width})


def _image_projection(model: schema.Model) -> tuple[str, int] | None:
  if model.image_projection == "none":
    return None
  return "image_projection", tower_shapes.embedding_size(model)


def _layer_of(model: schema.Model, path: str) -> int | None:
  """Layers of the image tower; those of the text tower count as above them."""
  if not path.startswith(IMAGE):
    return None
  family = _image_family(model)
  if family.layer_of is None:
    return None
  return family.layer_of(image_tower(model), path.removeprefix(IMAGE))


FAMILY = Family(
  section=TwoTowersModel,
  title="two-tower network",
  tag="clip",
  check=_check,
  create=_create,
  config_of=_config_of,
  size=_size,
  forward_flops=_forward_flops,
  unread_flops=_unread_flops,
  num_params=tower_shapes.num_params,
  grid=lambda model: _image_family(model).grid(image_tower(model)),
  describe=_describe,
  details=_details,
  names=(
    "CLIP-B/32",
    "CLIP-B/16",
    "CLIP-L/14",
    *(f"SigLIP-{size}/{14 if size == 'So400m' else 16}" for size in _SIGLIP),
  ),
  matches=detect.matches,
  detect=detect.detect,
  shapes=tower_shapes.shapes,
  fit=_fit,
  deciding=_deciding,
  find=_find,
  shrink=_shrink,
  feature_names=lambda network: _family_of(network.image).feature_names(
    network.image
  ),
  feature=_feature,
  map_names=lambda network: _family_of(network.image).map_names(network.image),
  last_norm=lambda network, params: _family_of(network.image).last_norm(
    network.image, params["image"]
  ),
  pixel_filters=lambda network, params: _family_of(network.image).pixel_filters(
    network.image, params["image"]
  ),
  num_class_layers=lambda model: _image_family(model).num_class_layers(
    image_tower(model)
  ),
  last_layers=_last_layers,
  num_prefix_tokens=lambda model: _image_family(model).num_prefix_tokens(
    image_tower(model)
  ),
  has_text=True,
  layer_of=_layer_of,
  parts={
    "image": Part(
      take=image_tower, put=_with_image, projection=_image_projection
    )
  },
)
