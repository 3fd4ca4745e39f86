"""Config values for scalars that may change over a run.

A scalar is a number, or text that describes its schedule:

  0.05
  'cosine(0.04, 0.4)'
  'cosine(0.996, 1.0)'
  "linear(0.04, 0.07, over='29 epochs', per='epoch')"
  "constant(0.07, warmup='30 epochs', warmup_from=0.04)"

`vit_jax.optim.scalars` evaluates it. The learning rate has a section of its
own, `config.schedule`.
"""

import ast
import dataclasses
import math

from vit_jax import durations

SHAPES = ("constant", "linear", "cosine")
PERIODS = ("step", "epoch")


@dataclasses.dataclass(frozen=True)
class Scalar:
  """A value as a function of the number of updates.

  Attributes:
    shape: One of `SHAPES`.
    first: Value after warm-up.
    last: Value at the end; equal to `first` if constant.
    warmup: Duration of a linear warm-up, as `durations.parse` takes it.
    warmup_from: Value at step 0, if there is a warm-up.
    over: Duration of the change, counted from the end of the warm-up; None: to
      the end of the run.
    per: 'step', or 'epoch' for a value that changes at the start of each epoch.
  """

  shape: str
  first: float
  last: float
  warmup: int | str = 0
  warmup_from: float = 0.0
  over: int | str | None = None
  per: str = "step"

  @property
  def values(self) -> tuple[float, ...]:
    """End points of its changes, between which all its values lie."""
    start = (self.warmup_from,) if self.warmup else ()
    return (*start, self.first, self.last)


def parse(value: float | str) -> Scalar:
  """Reads a scalar.

  Raises:
    ValueError: The value is not a scalar; the message shows valid ones.
  """
  if not isinstance(value, str):
    return Scalar("constant", float(value), float(value))
  try:
    return _called(value)
  except (
    OverflowError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
  ) as error:
    raise ValueError(
      f"{value!r} is not a scalar ({error}); write a number, or a change such"
      " as 'cosine(0.04, 0.4)' or \"linear(0.04, 0.07, over='30 epochs',"
      " per='epoch')\""
    ) from None


def _called(text: str) -> Scalar:
  node = ast.parse(text.strip(), mode="eval").body
  if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
    raise ValueError("it is not of the form shape(arguments)")
  shape = node.func.id
  if shape not in SHAPES:
    raise ValueError(f"its shape is one of {', '.join(SHAPES)}")
  ends = [float(ast.literal_eval(arg)) for arg in node.args]
  wanted = 1 if shape == "constant" else 2
  if len(ends) != wanted:
    raise ValueError(f"{shape} takes {wanted} value{'s' * (wanted > 1)}")
  options = {k.arg: ast.literal_eval(k.value) for k in node.keywords}
  if "warmup_from" in options:
    options["warmup_from"] = float(options["warmup_from"])
  scalar = Scalar(shape, ends[0], ends[-1], **options)
  for duration in (scalar.warmup, scalar.over):
    if duration is not None:
      durations.parse(duration)
  if not all(map(math.isfinite, scalar.values)):
    raise ValueError("its values must be finite")
  if scalar.per not in PERIODS:
    raise ValueError(f"per is one of {', '.join(PERIODS)}")
  if shape == "constant" and scalar.over is not None:
    raise ValueError("a constant changes over no time")
  return scalar


def is_constant(value: float | str) -> bool:
  """Returns True for a number, or text that describes a constant."""
  return len(set(parse(value).values)) == 1
