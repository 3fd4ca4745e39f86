"""The record that every architecture fills: all that others ask of it.

No other room knows an architecture by its class or by its name. A family is a
folder of `vit_jax/models/` (or a module outside the package) whose `FAMILY` is
entered in `vit_jax.registry.FAMILIES`. Importing it imports neither jax nor
flax; functions that build or run a network do that when they are called.
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
  """A part of a network that is a network of another family.

  Its parameters are those below its name.

  Attributes:
    take: `take(model) -> section`, the section of the part alone, headless.
    put: `put(model, section) -> model` with that network as the part.
  """

  take: Callable[[schema.Model], schema.Model]
  put: Callable[[schema.Model, schema.Model], schema.Model]


@dataclasses.dataclass(frozen=True)
class Family:
  """An architecture as plain functions and values.

  `model` is a section of `config.model` of the class `section`; `network` is
  a Flax module made by `create`, whose class attribute `family` is the name
  under which the family is registered.

  Attributes:
    section: Class of `config.model` under this name: `schema.Model`, or a
      subclass with keys of the family's own.
    title: Name of the architecture for people, such as 'Vision Transformer'.
    tag: Name of the architecture on hubs, such as 'vit'.
    check: `check(model)`; raises UserError for keys that do not fit together.
    create: `create(model, num_classes) -> network`; None: no head.
    config_of: `config_of(network) -> model`; `create` makes this network of it.
    size: `size(model)`, a dataclass of the numbers that fix all shapes.
    forward_flops: `forward_flops(model, num_classes)`, FLOPs of one image's
      forward pass, two per multiply-add.
    unread_flops: `unread_flops(model)`, those of them that a network leaves out
      because nothing reads their results; where `has_tokens`, also
      `unread_flops(model, read_patches)`, of an objective that reads a number
      of patches.
    skipped_flops: `skipped_flops(model, unread)`, FLOPs of an image that
      stochastic depth leaves out in training, of which `unread` of the last
      layer are not computed in any case.
    layer_flops: `layer_flops(model, num_tokens)`, FLOPs of all layers on a
      number of tokens. None where not `has_tokens`.
    num_params: `num_params(model, num_classes)`, all parameters.
    grid: `grid(model) -> (side, stride)` of the tokens or of the last map: how
      many along a side of the image, and pixels from one to the next.
    describe: `describe(model) -> str`, such as 'ViT-B/16', or the sizes of a
      network that has no name.
    details: `details(model) -> list[str]`, the lines of a model card.
    names: Published names, in the order of their sizes.
    matches: `matches(names) -> bool` tells whether a file's parameters, by our
      paths, are of the family.
    detect: `detect(shapes, path, said) -> Detected` tells the network from the
      shapes of a file's parameters, {path: shape} with layers not stacked;
      `path` is the file's, for messages, and `said` has the keys of `model`
      that the file tells. Raises UserError for shapes of no network. None for
      a family that is not published: its .npz files tell all keys.
    shapes: `shapes(model, num_classes) -> {path: shape}` of all parameters,
      which what is detected must have. None where `detect` is.
    fit: `fit(fitting)` brings the parameters of a file below the head to a
      network that differs in what the family can change, such as its grid.
    deciding: `deciding(path, one_sided) -> keys`: Keys of `model` that decide
      the shape of a parameter, the likeliest first; `one_sided` is True if
      either a file or the network lacks it.
    implied: `implied(model) -> {key: value}`: Keys of `deciding` whose values
      follow from others, beside the numbers of `size`.
    unseen: `unseen(model, wanted) -> {key: value}`: Keys by which equal
      parameters compute something else in this family, though they are among
      those that other families' shapes tell, with what None stands for; as far
      as a network such as `wanted` depends on them. Values are those of
      `model`.
    find: `find(name) -> model` for a published name, in any of its spellings,
      and for names of the same form; None for other families' names.
    shrink: `shrink(model)` makes an overridable `config.model` tiny, in place.
    feature_names: `feature_names(network) -> list[str]`, every name that
      `models.features.features` takes, in the order of computation.
    feature: `feature(network, name, sown) -> array`, found among the variables
      that applying the network has sown.
    map_names: `map_names(network) -> list[str]`, those features that are the
      results of layers, or of stages where a stage halves the map, in the order
      of computation: [b, h, w, d], or tokens [b, n, d] of which prefix tokens
      are the first.
    last_norm: `last_norm(network, params) -> norm`: The function that
      normalises the tokens of any layer as the network does those of its last;
      None where it has no such norm.
    num_class_layers: `num_class_layers(model)`: Layers, counted from the last,
      whose class token `last_layers` can give; 0 of a network without one.
    last_layers: `last_layers(network, params, sown, count) -> (class tokens [b,
      count, d], mean of the last layer's patches [b, d])`, found among the
      variables that applying the network has sown, and normalised as the
      network normalises its last layer. None where `num_class_layers` is 0 for
      every model.
    num_prefix_tokens: `num_prefix_tokens(model)`: Tokens before those of the
      patches.
    has_attention: True if feature maps of attention can be asked for.
    has_tokens: True if networks have the methods `embed_patches`, `add_prefix`,
      `encode` and `head` of the Vision Transformer, and `size(model)` a width.
    has_text: True if networks have the methods `embed_images`, `embed_text`,
      `scale` and `bias` of a two-tower network.
    pixel_filters: `pixel_filters(network, params) -> [y, x, 3, filters]`, the
      filters that meet the pixels.
    layer_of: `layer_of(model, path) -> int | None`: Layer of a parameter,
      counted from 0, by which its learning rate decays; -1 before the first
      layer, None after the last. Paths of layers stacked by scan_layers are not
      asked for. None of a family without layers.
    sharding_rules: (regex on the parameter path, mesh axis per dimension)
      pairs, tried before those that all families share.
    matrix_optimizer: True if Muon knows the family's matrices.
    parts: Parts that may start from a checkpoint of their own, by name.
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
  """Values of the keys of `config.model` that a network takes as they are.

  Args:
    source: The section or the network that has the values.
    section: Class of the section.
    network: Class of the network, a Flax module.
    but: Attributes of the network that are computed from several keys.
  """
  taken = {field.name for field in dataclasses.fields(network)}
  keys = section.model_fields.keys() & taken - {"name", *but}
  return {
    key: getattr(source, key) for key in section.model_fields if key in keys
  }
