"""The preprocessing ops by name, and the arguments that a config can set.

An op is a decorated function in `ops_image.py`, `ops_augment.py`,
`ops_label.py`, `ops_text.py` or `ops_device.py`. The pipeline passes its
positional-only parameters; the others can be set in the preprocessing string,
where pydantic checks them against their annotations. A parameter called `size`
defaults to `model.image_size`, or the size of the view.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal

import pydantic

Kind = Literal["image", "label", "text", "device"]
LabelSpace = Callable[..., tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class Op:
  """A registered op.

  Attributes:
    kind: 'image' ops run on the host, one image at a time; 'label' ops on
      the host, on the labels of many examples; 'text' ops on the host, on the
      captions of many examples; 'device' ops inside the jitted step, on the
      global batch.
    parameters: Parameters that can be set in a string, in order.
    side: Function (side of the input, **arguments) -> side of the output,
      pixels; None if it varies or images are not square.
    smaller: Function (smaller side of the input, or None if unknown,
      **arguments) -> that of the output.
    cuts_out: True if it cuts size x size pixels out of images at least as
      large.
    label_space: Function from (num_classes, max_labels, **arguments) to these
      numbers after the op.
    check: Function **arguments -> the problem with their combination, or None.
  """

  name: str
  kind: Kind
  function: Callable[..., Any]
  parameters: dict[str, inspect.Parameter]
  side: Callable[..., int | None]
  smaller: Callable[..., int | None]
  cuts_out: bool
  label_space: LabelSpace
  check: Callable[..., str | None]

  @property
  def is_variadic(self) -> bool:
    """True if it takes any number of unnamed arguments."""
    kinds = (p.kind for p in self.parameters.values())
    return any(kind is inspect.Parameter.VAR_POSITIONAL for kind in kinds)

  @functools.cached_property
  def adapters(self) -> dict[str, pydantic.TypeAdapter]:
    """Validators of the parameters; creating one takes longer than using it."""
    return {
      name: pydantic.TypeAdapter(parameter.annotation)
      for name, parameter in self.parameters.items()
    }


OPS: dict[str, Op] = {}


def register(
  kind: Kind,
  *,
  side: Callable[..., int | None] = lambda side, size=None, **_: size or side,
  smaller: Callable[..., int | None] | None = None,
  cuts_out: bool = False,
  label_space: LabelSpace = lambda *labels, **_: labels,
  check: Callable[..., str | None] = lambda **_: None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
  """Registers a function as the op of its name; see `Op` for the arguments.

  `smaller` defaults to `side`, for ops that treat both sides alike.
  """

  def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
    name = function.__name__
    if name in OPS:
      raise ValueError(f"There are two preprocessing ops called {name!r}.")
    parameters = {
      p.name: p
      for p in inspect.signature(function).parameters.values()
      if p.kind is not p.POSITIONAL_ONLY
    }
    OPS[name] = Op(
      name,
      kind,
      function,
      parameters,
      side,
      smaller or side,
      cuts_out,
      label_space,
      check,
    )
    return function

  return decorate
