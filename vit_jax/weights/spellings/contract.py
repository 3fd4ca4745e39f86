"""Records that a family fills in for each format it is published in."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from vit_jax.config import schema
from vit_jax.weights.fields import Fields
from vit_jax.weights.spellings.names import Names, Tensors

Beside = tuple[dict[str, Any], schema.Objective | None]
# The model card next to the weights.
CARD = "README.md"
# Note that `Original.said` receives for a TorchScript file.
SCRIPT_NOTE = "The file is TorchScript: its weights are read, its program not."


class Assumed(int):
  """A number that a file does not state, such as that of the heads."""


@dataclasses.dataclass(frozen=True)
class Npz:
  """A family's names in google-research's .npz files.

  Attributes:
    matches: (names of arrays) -> whether they belong to this family.
    canonical: (arrays by name, path for messages) -> arrays with our paths and
      shapes, unknown ones unchanged; raises UserError if two names mean the
      same.
    published: (arrays by our paths, layers unstacked) -> arrays by the names to
      write.
    unseen: Keys of `schema.Model` that neither names nor shapes determine;
      those of a part are written like 'text.pool'.
    parts: Parts that may be networks of any family. Inference from shapes and
      `unseen` assume a ViT; for a part of another family all keys are written.
  """

  matches: Callable[[Iterable[str]], bool]
  canonical: Callable[[Tensors, str], dict[str, np.ndarray]]
  published: Callable[[Tensors], Tensors]
  unseen: tuple[str, ...]
  parts: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class HuggingFace:
  """A `model_type` of Hugging Face's config.json.

  Attributes:
    writes: (section `model`) -> whether its networks are written as this type;
      the first `model_type` that says so is used.
    prefix: Prefix of all names if there is a head.
    normalize: Value of `model.normalize` for the family's own preprocessor.
    names: Names of the parameters.
    said: (config.json, tensors) -> keys of `schema.Model` that tensors do not
      determine; raises UserError for a network that is not ours.
    config: (section `model`) -> config.json without the names of classes;
      raises UserError if Hugging Face has no such network.
    unchecked: Keys of `config` that may differ in a file being read.
    processor: (section `model`) -> preprocessor_config.json without the pixel
      statistics.
    file_name: (name of a tensor) -> its name in the table.
    select: (config.json, tensors) -> the tensors that outputs depend on, and
      notes about the others.
    says_image_size: Whether the preprocessor's size is the model's.
    beside: (config.json, tensors) -> `Weights.beside` and `Weights.objective`.
    scale: (section `model`, tensors) -> tensors with which Hugging Face's
      network gives the same outputs.
  """

  writes: Callable[[schema.Model], bool]
  prefix: str
  normalize: str
  names: Names
  said: Callable[[Fields, Tensors], dict[str, Any]]
  config: Callable[[schema.Model], dict[str, Any]]
  unchecked: frozenset[str]
  processor: Callable[[schema.Model], Mapping[str, Any]]
  file_name: Callable[[str], str] = str
  select: Callable[[Fields, Tensors], tuple[Tensors, list[str]]] = (
    lambda config, tensors: (tensors, [])
  )
  says_image_size: bool = False
  beside: Callable[[Fields, Tensors], Beside] = lambda *_: ({}, None)
  scale: Callable[[schema.Model, Tensors], Tensors] = lambda model, tensors: (
    tensors
  )


@dataclasses.dataclass(frozen=True)
class Timm:
  """A family of timm's architectures.

  Attributes:
    label: Names of the architectures, for messages.
    architectures: Regex that matches the beginning of these names.
    names: Names of the parameters; the first of `required` identifies a file.
    said: (config.json, tensors, path, notes) -> keys of `schema.Model` that
      tensors do not determine.
    prepare: (tensors, path, notes) -> tensors with the parts that our networks
      have; adds notes about any changes.
    arguments: Names of `model_args` that shapes determine or that `said` reads,
      in addition to those shared by all families.
    marks: Names any of which identifies a file, instead of the first of
      `names.required`.
    fixed: Arguments that tensors do not determine and the only value that our
      networks have; a config may also state them outside `model_args`.
    biases: Regex that matches the end of any bias that a file lacks only if
      `model_args` has `qkv_bias` of false; None if shapes tell.
  """

  label: str
  architectures: str
  names: Names
  said: Callable[[Fields, Tensors, str, list[str]], dict[str, Any]]
  prepare: Callable[[Tensors, str, list[str]], Tensors] = (
    lambda tensors, path, notes: tensors
  )
  arguments: frozenset[str] = frozenset()
  marks: tuple[str, ...] = ()
  fixed: Mapping[str, str] = dataclasses.field(default_factory=dict)
  biases: str | None = None


@dataclasses.dataclass(frozen=True)
class Original:
  """A family's names in its authors' PyTorch checkpoints.

  Attributes:
    label: Names of the architectures, for messages.
    names: Names of the parameters; the first of `required` identifies a file.
    said: (tensors, path, notes) -> keys of `schema.Model` that tensors do not
      determine.
    prepare: (tensors, path, notes) -> tensors with the parts that our networks
      have; adds notes about any changes.
    marks: Names any of which identifies a file, if `prepare` changes the one
      that `names` requires first.
    beside: (tensors, path) -> `Weights.beside` and `Weights.objective`.
    state: (contents of the file) -> `Weights.state` for `beside`'s objective.
    told: (tensors, path) -> keys of `schema.Model` determined by tensors that
      `prepare` drops; these override `said`.
  """

  label: str
  names: Names
  said: Callable[[Tensors, str, list[str]], dict[str, Any]]
  prepare: Callable[[Tensors, str, list[str]], Tensors] = (
    lambda tensors, path, notes: tensors
  )
  marks: tuple[str, ...] = ()
  beside: Callable[[Tensors, str], Beside] = lambda tensors, path: ({}, None)
  told: Callable[[Tensors, str], dict[str, Any]] = lambda tensors, path: {}
  state: Callable[[Mapping[Any, Any]], Mapping[str, np.ndarray]] = (
    lambda contents: {}
  )
