"""Records of our networks in timm's terms."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from vit_jax.config import schema
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.unwritable import Unwritable


@dataclasses.dataclass(frozen=True)
class TimmNetwork:
  """A network as arguments of `timm.create_model` and terms of its config.

  Attributes:
    architecture: Name that timm knows; `arguments` override its own sizes.
    arguments: `model_args` of config.json: JSON values other than None, which
      timm would drop.
    pool: Value of `global_pool`; '' for none.
    width: Length of the pooled feature.
    first_conv: Name of the layer that receives the pixels.
    classifier: Name of the head, or the names of both heads.
    fixed_input_size: Whether other image sizes need other parameters.
    notes: One sentence per remaining difference.
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
  """A timm network class that our networks are written as.

  Attributes:
    writes: (section `model`) -> whether its networks are written as this class;
      the first writer that says so is used.
    network: (section `model`) -> the network in timm's terms; raises
      `Unwritable` if timm has no such network.
    tensors: (section `model`, parameters by our paths, layers unstacked) ->
      tensors with timm's names and axes.
  """

  writes: Callable[[schema.Model], bool]
  network: Callable[[schema.Model], TimmNetwork]
  tensors: Callable[[schema.Model, Tensors], Tensors]


def cannot(kind: str, what: str) -> Unwritable:
  """Returns the error that timm has no such network.

  Args:
    kind: Name of the class.
    what: Key of `model` and its value.
  """
  return Unwritable(f"timm's {kind} cannot have {what}")


def require(kind: str, model: schema.Model, wanted: Mapping[str, Any]) -> None:
  """Checks that keys have the only values that a timm class supports.

  Raises:
    Unwritable: A key has a different value; the message names the first one.
  """
  for key, value in wanted.items():
    found = getattr(model, key)
    if found != value:
      raise cannot(kind, f"model.{key}={found!r}")


def ratio(width: int, hidden: int) -> float:
  """Returns the `mlp_ratio` for `hidden` units in timm, which rounds down."""
  exact = hidden / width
  return exact if int(width * exact) == hidden else (hidden + 0.5) / width
