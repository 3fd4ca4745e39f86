"""Records that a family fills for each form of file that it is published in."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from vit_jax.config import schema
from vit_jax.weights.fields import Fields
from vit_jax.weights.spellings.names import Names, Tensors

Beside = tuple[dict[str, Any], schema.Objective | None]
# The model card beside weights.
CARD = "README.md"
# Among the notes that `Original.said` is given, of a file of TorchScript.
SCRIPT_NOTE = "The file is TorchScript: its weights are read, its program not."


@dataclasses.dataclass(frozen=True)
class Npz:
  """A family's names in google-research's .npz files.

  Attributes:
    matches: (names of arrays) -> whether they are of this family.
    canonical: (arrays by name, path for messages) -> arrays by our paths and
      in our shapes, unknown ones as they are; raises UserError where two names
      mean the same.
    published: (arrays by our paths, layers not stacked) -> arrays by the names
      that are written.
    unseen: Keys of `schema.Model` that neither names nor shapes tell; those of
      a part of it are written as 'text.pool'.
    parts: Parts that are networks of any family. What shapes tell of them, and
      `unseen`, are of a ViT; another family's part is told by all its keys.
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
    writes: (section `model`) -> whether its networks are written so; the first
      `model_type` that says so is.
    prefix: Start of all names where there is a head.
    normalize: Value of `model.normalize` for the family's own preprocessor.
    names: Spelling of the parameters.
    said: (config.json, tensors) -> keys of `schema.Model` that tensors do not
      tell; raises UserError for a network that is not ours.
    config: (section `model`) -> config.json without the names of classes;
      raises UserError if Hugging Face has no such network.
    unchecked: Keys of `config` that a file that is read may have otherwise.
    processor: (section `model`) -> preprocessor_config.json without the
      statistics of pixels.
    file_name: (name of a tensor) -> the name that the table has.
    select: (config.json, tensors) -> the tensors that outputs depend on, and
      notes about the others.
    says_image_size: Whether the preprocessor's size is that of the model.
    beside: (config.json, tensors) -> `Weights.beside` and `Weights.objective`.
    scale: (section `model`, tensors) -> tensors with which Hugging Face's
      network computes the same.
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
    architectures: Regex of the starts of these names.
    names: Spelling of the parameters; the first of `required` marks a file.
    said: (config.json, tensors, path, notes) -> keys of `schema.Model` that
      tensors do not tell.
    prepare: (tensors, path, notes) -> tensors with the parts that our networks
      have; adds notes about what was changed.
    arguments: Names of `model_args` that shapes tell or that `said` reads,
      beside those that families share.
    marks: Names in a file, any of which marks it, in place of the first of
      `names.required`.
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


@dataclasses.dataclass(frozen=True)
class Original:
  """A family's names in the PyTorch checkpoints of those who published it.

  Attributes:
    label: Names of the architectures, for messages.
    names: Spelling of the parameters; the first of `required` marks a file.
    said: (tensors, path, notes) -> keys of `schema.Model` that tensors do not
      tell.
    prepare: (tensors, path, notes) -> tensors with the parts that our networks
      have; adds notes about what was changed.
    marks: Names in a file, any of which marks it, where `prepare` changes the
      one that `names` requires first.
    beside: (tensors) -> `Weights.beside` and `Weights.objective`.
    state: (contents of the file) -> `Weights.state` of `beside`'s objective.
    told: (tensors, path) -> keys of `schema.Model` that tensors tell which
      `prepare` leaves out, instead of those of `said`.
  """

  label: str
  names: Names
  said: Callable[[Tensors, str, list[str]], dict[str, Any]]
  prepare: Callable[[Tensors, str, list[str]], Tensors] = (
    lambda tensors, path, notes: tensors
  )
  marks: tuple[str, ...] = ()
  beside: Callable[[Tensors], Beside] = lambda tensors: ({}, None)
  told: Callable[[Tensors, str], dict[str, Any]] = lambda tensors, path: {}
  state: Callable[[Mapping[Any, Any]], Mapping[str, np.ndarray]] = (
    lambda contents: {}
  )
