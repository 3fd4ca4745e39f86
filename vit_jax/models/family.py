"""The record that every architecture fills, the only interface to it.

No other package refers to an architecture by its class or name. A family is a
folder of `vit_jax/models/` (or a module outside the package) whose `FAMILY` is
listed in `vit_jax.registry.FAMILIES`. Importing it imports neither jax nor
flax; functions that build or run a network import them when called.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vit_jax.config import schema
from vit_jax.models.detection import Detected, Shape
from vit_jax.models.fitting import Fitting

if TYPE_CHECKING:
  import flax.linen as nn


@dataclasses.dataclass(frozen=True)
class Part:
  """A part of a network that is itself a network of another family.

  Its parameters are those below its name.

  Attributes:
    take: `take(model) -> section`, the section of the part alone, headless.
    put: `put(model, section) -> model` with that network as the part.
    projection: `projection(model) -> (name, width)` of the parameters, a
      `kernel` and perhaps a `bias`, that map the part's features to those of
      the whole network; None if nothing does.
  """

  take: Callable[[schema.Model], schema.Model]
  put: Callable[[schema.Model, schema.Model], schema.Model]
  projection: Callable[[schema.Model], tuple[str, int] | None]


@dataclasses.dataclass(frozen=True)
class Family:
  """An architecture as plain functions and values.

  `model` is a section of `config.model` of the class `section`; `network` is a
  Flax module made by `create`, whose class attribute `family` is the name under
  which the family is registered.

  Attributes:
    section: Class of `config.model` under this name: `schema.Model`, or a
      subclass with the family's own keys.
    title: Human-readable name of the architecture, such as 'Vision
      Transformer'.
    tag: Name of the architecture on hubs, such as 'vit'.
    check: `check(model)`; raises UserError for keys that do not fit together.
    create: `create(model, num_classes) -> network`; None for no head.
    config_of: `config_of(network) -> model`, the inverse of `create`.
    size: `size(model)`, a dataclass of the numbers that fix all shapes.
    forward_flops: `forward_flops(model, num_classes)`, FLOPs of one image's
      forward pass, two per multiply-add.
    unread_flops: `unread_flops(model)`, the part of them that a network leaves
      out because nothing reads the results; where `has_tokens`, also
      `unread_flops(model, read_patches)` for an objective that reads a number
      of patches.
    skipped_flops: `skipped_flops(model, unread)`, FLOPs per image that
      stochastic depth saves in training, given `unread`, those of the last
      layer that are never computed.
    layer_flops: `layer_flops(model, num_tokens)`, FLOPs of all layers for a
      number of tokens. None unless `has_tokens`.
    num_params: `num_params(model, num_classes)`, the number of all parameters.
    grid: `grid(model) -> (side, stride)` of the tokens or of the last map:
      their number along a side of the image, and pixels from one to the next.
    describe: `describe(model) -> str`, such as 'ViT-B/16', or the sizes of a
      network without a name.
    details: `details(model) -> list[str]`, the lines of a model card.
    names: Published names, ordered by size.
    matches: `matches(names) -> bool` tells whether a file's parameters, given
      by our paths, belong to the family.
    detect: `detect(shapes, path, said) -> Detected` infers the network from the
      shapes of a file's parameters, {path: shape} with unstacked layers; `path`
      is the file's, for messages, and `said` has the keys of `model` that the
      file states. Raises UserError for shapes that fit no network. None for an
      unpublished family: its .npz files state all keys.
    shapes: `shapes(model, num_classes) -> {path: shape}` of all parameters,
      which the detected network must have. None where `detect` is None.
    fit: `fit(fitting)` adapts a file's parameters below the head to a network
      that differs in something the family can change, such as its grid.
    deciding: `deciding(path, one_sided) -> keys`: the keys of `model` that
      decide the shape of a parameter, the likeliest first; `one_sided` is True
      if only the file or only the network has it.
    implied: `implied(model) -> {key: value}`: the keys of `deciding` whose
      values follow from others, in addition to the numbers of `size`.
    unseen: `unseen(model, wanted) -> {key: value}`: the keys that change what
      the same parameters compute in this family, although other families'
      shapes reveal them, with None resolved, if a network such as `wanted`
      depends on them. Values are those of `model`.
    find: `find(name) -> model` for a published name in any of its spellings,
      and for names of the same form; None for names of other families.
    shrink: `shrink(model)` makes an overridable `config.model` tiny, in place.
    feature_names: `feature_names(network) -> list[str]`, all names that
      `models.features.features` accepts, in the order of computation.
    feature: `feature(network, name, sown) -> array`, found among the variables
      that applying the network has sown.
    map_names: `map_names(network) -> list[str]`, the features that are the
      results of layers, or of stages where a stage halves the map, in the order
      of computation: [b, h, w, d], or tokens [b, n, d] with prefix tokens
      first.
    last_norm: `last_norm(network, params) -> norm`: the function that
      normalises the tokens of any layer as the network does those of its last;
      None if there is no such norm.
    num_class_layers: `num_class_layers(model)`, the number of layers, counted
      from the last, whose class tokens `last_layers` can give; 0 for a network
      without one.
    last_layers: `last_layers(network, params, sown, count) -> (class tokens [b,
      count, d], mean of the last layer's patches [b, d])`, found among the
      variables that applying the network has sown, and normalised as the
      network normalises its last layer. None if `num_class_layers` is always 0.
    num_prefix_tokens: `num_prefix_tokens(model)`, the number of tokens before
      those of the patches.
    has_attention: True if attention maps are available as features.
    has_tokens: True if networks have the methods `embed_patches`, `add_prefix`,
      `encode` and `head` of the Vision Transformer, and `size(model)` a width.
    has_text: True if networks have the methods `embed_images`, `embed_text`,
      `scale` and `bias` of a two-tower network.
    pixel_filters: `pixel_filters(network, params) -> [y, x, 3, filters]`, the
      filters applied to the pixels.
    layer_of: `layer_of(model, path) -> int | None`: the layer of a parameter,
      counted from 0, by which its learning rate decays; -1 before the first
      layer, None after the last. Never called with paths of layers stacked by
      scan_layers. None for a family without layers.
    sharding_rules: (regex on the parameter path, mesh axis per dimension)
      pairs, tried before those that all families share.
    matrix_optimizer: True if Muon supports the family's matrices.
    parts: Parts that can start from their own checkpoints, by name.
  """

  section: type[schema.Model]
  title: str
  tag: str
  check: Callable[[schema.Model], None]
  create: Callable[[schema.Model, int | None], "nn.Module"]
  config_of: Callable[["nn.Module"], schema.Model]
  size: Callable[[schema.Model], Any]
  forward_flops: Callable[[schema.Model, int | None], int]
  num_params: Callable[[schema.Model, int | None], int]
  grid: Callable[[schema.Model], tuple[int, int]]
  describe: Callable[[schema.Model], str]
  shrink: Callable[[Any], None]
  feature_names: Callable[["nn.Module"], list[str]]
  feature: Callable[["nn.Module", str, Mapping[str, Any]], Any]
  pixel_filters: Callable[["nn.Module", Mapping[str, Any]], Any]
  matches: Callable[[Iterable[str]], bool] = lambda names: False
  detect: (
    Callable[[Mapping[str, Shape], str, Mapping[str, Any]], Detected] | None
  ) = None
  shapes: Callable[[schema.Model, int | None], dict[str, Shape]] | None = None
  unread_flops: Callable[..., int] = lambda model: 0
  skipped_flops: Callable[[schema.Model, int], int] = lambda model, unread: 0
  layer_flops: Callable[[schema.Model, int], int] | None = None
  details: Callable[[schema.Model], Sequence[str]] = lambda model: ()
  fit: Callable[[Fitting], None] = lambda fitting: None
  deciding: Callable[[str, bool], Sequence[str]] = lambda path, one_sided: ()
  implied: Callable[[schema.Model], Mapping[str, Any]] = lambda model: {}
  unseen: Callable[[schema.Model, schema.Model], Mapping[str, Any]] = (
    lambda model, wanted: {}
  )
  names: tuple[str, ...] = ()
  find: Callable[[str], schema.Model | None] = lambda name: None
  map_names: Callable[["nn.Module"], list[str]] = lambda network: ["encoded"]
  last_norm: Callable[
    ["nn.Module", Mapping[str, Any]], Callable[[Any], Any] | None
  ] = lambda network, params: None
  num_class_layers: Callable[[schema.Model], int] = lambda model: 0
  last_layers: (
    Callable[
      ["nn.Module", Mapping[str, Any], Mapping[str, Any], int], tuple[Any, Any]
    ]
    | None
  ) = None
  num_prefix_tokens: Callable[[schema.Model], int] = lambda model: 0
  has_attention: bool = False
  has_tokens: bool = False
  has_text: bool = False
  layer_of: Callable[[schema.Model, str], int | None] | None = None
  sharding_rules: tuple[tuple[str, tuple[str | None, ...]], ...] = ()
  matrix_optimizer: bool = False
  parts: Mapping[str, Part] = dataclasses.field(default_factory=dict)


def shared_keys(
  source: Any, section: type[schema.Section], network: type, but: Iterable[str]
) -> dict[str, Any]:
  """Values of the keys of `config.model` that a network takes unchanged.

  Args:
    source: The section or network that holds the values.
    section: Class of the section.
    network: Class of the network, a Flax module.
    but: Attributes of the network that are computed from several keys.
  """
  taken = {field.name for field in dataclasses.fields(network)}
  keys = section.model_fields.keys() & taken - {"name", *but}
  return {
    key: getattr(source, key) for key in section.model_fields if key in keys
  }
