"""Records of what timm makes of our networks."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from vit_jax.config import schema
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.unwritable import Unwritable


@dataclasses.dataclass(frozen=True)
class TimmNetwork:
  """A network in the arguments of `timm.create_model` and words of its config.

  Attributes:
    architecture: Name that timm knows; its own sizes are put over by
      `arguments`.
    arguments: `model_args` of config.json, values of JSON that are not None,
      which timm would drop.
    pool: Value of `global_pool`; '' for none.
    width: Length of the pooled feature.
    first_conv: Name of the layer that takes the pixels.
    classifier: Name of the head, or names of both.
    fixed_input_size: Whether other sizes of images need other parameters.
    notes: What is not quite the same, a sentence each.
  """

  architecture: str
  arguments: Mapping[str, Any]
  pool: str
  width: int
  first_conv: str
  classifier: str | tuple[str, ...]
  fixed_input_size: bool
  notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class TimmWriter:
  """A class of timm's networks that ours are written as.

  Attributes:
    writes: (section `model`) -> whether its networks are written so; the first
      writer that says so is.
    network: (section `model`) -> what timm makes them of; raises `Unwritable`
      where it has no such network.
    tensors: (section `model`, parameters by our paths, layers not stacked) ->
      tensors by timm's names, with timm's axes.
  """

  writes: Callable[[schema.Model], bool]
  network: Callable[[schema.Model], TimmNetwork]
  tensors: Callable[[schema.Model, Tensors], Tensors]


def cannot(kind: str, what: str) -> Unwritable:
  """The error that timm has no such network.

  Args:
    kind: Name of the class.
    what: Key of `model` and its value.
  """
  return Unwritable(f"timm's {kind} cannot have {what}")


def require(kind: str, model: schema.Model, wanted: Mapping[str, Any]) -> None:
  """Checks that keys have the only values that a class of timm's knows.

  Raises:
    Unwritable: One has another; the first is named.
  """
  for key, value in wanted.items():
    found = getattr(model, key)
    if found != value:
      raise cannot(kind, f"model.{key}={found!r}")


def ratio(width: int, hidden: int) -> float:
  """`mlp_ratio` of which timm makes `hidden` units: it rounds down."""
  exact = hidden / width
  return exact if int(width * exact) == hidden else (hidden + 0.5) / width
