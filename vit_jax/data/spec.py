"""Parser of preprocessing strings: 'decode|inception_crop(224)|flip_lr'.

Neither TensorFlow nor jax is imported, so that mistakes in a config are
reported at once. `clu.preprocess_spec` parses the same language but imports
both, and reports neither the place of a mistake nor a correction.
"""

import ast
import dataclasses
import inspect
import warnings
from typing import Any

import numpy as np
import pydantic

from vit_jax.data import (  # noqa: F401
  known_sides,
  ops_augment,
  ops_device,
  ops_image,
  ops_label,
  ops_text,
)
from vit_jax.data.registry import OPS, Op
from vit_jax.errors import UserError
from vit_jax.suggestions import did_you_mean

# Side of images, which may have one size or various sizes.
_UNKNOWN_SIDE = 0

# Ops in strings of other projects that are implemented elsewhere here.
_ELSEWHERE = {
  "value_range": "pixels are normalised by the model (model.normalize)",
  "vgg_value_range": "pixels are normalised by the model (model.normalize)",
  "normalize": "pixels are normalised by the model (model.normalize)",
  "onehot": "labels cross to the device as ids; the objective expands them",
  "mixup": "set objective.mixup_alpha",
  "cutmix": "set objective.cutmix_alpha",
  "shuffle": "the training data is always shuffled",
}


@dataclasses.dataclass(frozen=True)
class Call:
  """One op of a string with its arguments, including `size`.

  Attributes:
    name: Name of the op, with '_2' and so on if the string repeats it.
    where: Name of the op in messages.
  """

  op: Op
  args: tuple[Any, ...]
  kwargs: dict[str, Any]
  name: str
  where: str

  @property
  def bound(self) -> dict[str, Any]:
    """Returns all arguments by parameter name."""
    return {"keys": self.args} if self.op.is_variadic else self.kwargs


@dataclasses.dataclass(frozen=True)
class Preprocess:
  """A parsed preprocessing string; see `parse`."""

  text: str
  where: str
  image_size: int
  calls: tuple[Call, ...]
  size_key: str = "config.model.image_size"

  def of_kind(self, kind: str) -> tuple[Call, ...]:
    return tuple(call for call in self.calls if call.op.kind == kind)

  def side(self, side: int | None) -> int | None:
    """Returns the side of the host's square images, given the source's side.

    None if sides vary.
    """
    for call in self.of_kind("image"):
      side = call.op.side(side, **call.bound)
    return side

  def check_crops(self, smaller: int | None) -> None:
    """Checks that images are at least as large as their crops.

    Args:
      smaller: Smaller side of the source's images; None if unknown.

    Raises:
      UserError: A crop is larger than the image.
    """
    for call in self.of_kind("image"):
      size = call.bound.get("size")
      if call.op.cuts_out and smaller is not None and size > smaller:
        raise UserError(
          f"{call.where} cuts {size} x {size} pixels out of images of which a"
          f" side has {smaller}; cut out less, or resize them before."
        )
      smaller = call.op.smaller(smaller, **call.bound)

  def label_space(
    self, num_classes: int | None, max_labels: int
  ) -> tuple[int | None, int]:
    """Returns the numbers of classes and of labels per example after the ops.

    They are None and 0 if there are no labels.

    Raises:
      UserError: An op does not suit the dataset's numbers.
    """
    for call in self.of_kind("label"):
      if num_classes is None:
        if call.op.name == "keep":
          continue
        raise UserError(
          f"{call.where} changes classes, and the data have none; leave it out."
        )
      try:
        num_classes, max_labels = call.op.label_space(
          num_classes, max_labels, **call.bound
        )
      except ValueError as error:
        raise UserError(f"{call.where}: {error}.") from error
    return num_classes, max_labels

  def labels(self, labels: np.ndarray) -> np.ndarray | None:
    """Applies the label ops to int32 [n] or [n, max_labels]; may drop them."""
    for call in self.of_kind("label"):
      if labels is not None:
        labels = call.op.function(labels, *call.args, **call.kwargs)
    return labels

  @property
  def has_labels(self) -> bool:
    """True if batches have labels."""
    return self.labels(np.zeros(1, np.int32)) is not None

  @property
  def tokenizes(self) -> Call | None:
    """The op that creates `text`, if batches have it."""
    calls = self.of_kind("text")
    return calls[0] if calls else None

  @property
  def renumbers(self) -> bool:
    """True if an op changes the meaning of the labels."""
    return any(call.op.name == "remap" for call in self.calls)


def _arguments(op: Op, node: ast.expr, image_size: int, where: str):
  """Checks the (args, kwargs) of a call and fills in `size`."""
  args, kwargs = [], {}
  if isinstance(node, ast.Call):
    try:
      args = [ast.literal_eval(arg) for arg in node.args]
      kwargs = {k.arg: ast.literal_eval(k.value) for k in node.keywords}
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
      raise UserError(
        f"{where}: arguments are written out, such as 224, 0.5, 'bicubic' or"
        " [0, 1]."
      ) from error
  signature = inspect.Signature(list(op.parameters.values()))
  try:
    bound = signature.bind_partial(*args, **kwargs)
  except TypeError as error:
    known = ", ".join(
      map("*{}".format if op.is_variadic else str, op.parameters)
    )
    raise UserError(
      f"{where}: {error}; the arguments of {op.name}: {known or 'none'}."
    ) from None
  is_of_pixels = "size" in op.parameters and op.kind != "label"
  if is_of_pixels and bound.arguments.get("size") is None:
    bound.arguments["size"] = image_size
  bound.apply_defaults()
  for name in op.parameters:
    if name not in bound.arguments:
      raise UserError(f"{where}: the argument {name!r} is missing.")
    value = bound.arguments[name]
    if op.is_variadic:
      return tuple(_checked(op, name, one, where) for one in value), {}
    bound.arguments[name] = _checked(op, name, value, where)
  return (), bound.arguments


def _checked(op: Op, name: str, value: Any, where: str) -> Any:
  """Returns the value of an argument if its annotation allows it."""
  if isinstance(value, list):
    value = tuple(value)
  try:
    return op.adapters[name].validate_python(value, strict=True)
  except pydantic.ValidationError as error:
    problem = error.errors()[0]["msg"]
    raise UserError(
      f"{where}: {name} = {value!r} is not valid:"
      f" {problem[0].lower()}{problem[1:]}."
    ) from error


def _find(name: str, where: str) -> Op:
  if name in OPS:
    return OPS[name]
  if name in _ELSEWHERE:
    raise UserError(
      f"{where} is not a preprocessing op here: {_ELSEWHERE[name]}. Leave it"
      " out."
    )
  near = did_you_mean(name, OPS, cutoff=0.6)
  hint = f' Did you mean "{near}"?' if near else ""
  raise UserError(
    f"{where} is not known.{hint} Known ops: {', '.join(sorted(OPS))}."
  )


def parse(
  text: str,
  image_size: int,
  *,
  where: str = "config.train.preprocess",
  size_key: str = "config.model.image_size",
) -> Preprocess:
  """Parses a preprocessing string.

  Args:
    text: Ops separated by '|', with literal arguments.
    image_size: Side of the resulting images, pixels.
    where: Config key of the string, for messages.
    size_key: Config key of `image_size`, for messages.

  Raises:
    UserError: The string cannot be parsed; the message gives the op's position.
  """
  calls: list[Call] = []
  start = 0
  for number, part in enumerate(text.split("|"), start=1):
    position = start + len(part) - len(part.lstrip()) + 1
    start += len(part) + 1
    part = part.strip()
    here = f'{where}: op {number} "{part}" (character {position} of "{text}")'
    if not part:
      raise UserError(f"{here} is empty; write ops separated by '|'.")
    try:
      with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
        node = ast.parse(part, mode="eval").body
      function = node.func if isinstance(node, ast.Call) else node
      if not isinstance(function, ast.Name):
        raise ValueError(part)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
      raise UserError(
        f"{here} cannot be read; write an op as name or name(arguments)."
      ) from error
    op = _find(function.id, here)
    args, kwargs = _arguments(op, node, image_size, here)
    repeats = sum(call.op is op for call in calls)
    name = f"{op.name}_{repeats + 1}" if repeats else op.name
    call = Call(op, args, kwargs, name, here)
    problem = op.check(**call.bound)
    if problem:
      raise UserError(f"{here}: {problem}.")
    if calls and calls[-1].op.kind == "device" and op.kind != "device":
      raise UserError(
        f"{here} runs on the host, but {calls[-1].op.name} before it runs on"
        f" the device; put {op.name} first."
      )
    calls.append(call)

  preprocess = Preprocess(text, where, image_size, tuple(calls), size_key)
  images = preprocess.of_kind("image")
  if not images or images[0].name != "decode":
    raise UserError(f'{where} = "{text}" has to begin with "decode".')
  _check_text(preprocess)
  return preprocess


def _check_text(preprocess: Preprocess) -> None:
  """Raises UserError for text that is created twice, or created and dropped."""
  calls = preprocess.of_kind("text")
  if len(calls) > 1:
    raise UserError(f"{calls[1].where} is given twice; remove one.")
  for call in preprocess.of_kind("label"):
    if calls and call.op.name == "keep" and "text" not in call.args:
      raise UserError(
        f"{call.where} drops what {calls[0].name} makes; name 'text' in it, or"
        f" leave out {calls[0].name}."
      )


def check(
  text: str,
  image_size: int,
  *,
  where: str = "config.train.preprocess",
  train: bool = True,
  dataset: str | None = None,
) -> Preprocess:
  """Like `parse`, with all checks that need no data.

  Args:
    text, image_size, where: As in `parse`.
    train: True for training, False for an evaluation.
    dataset: Name of the images' dataset; None for files of any size.

  Raises:
    UserError: As `parse`; or the resulting images have another size or are
      smaller than a crop, or an evaluation has ops of the training step.
  """
  preprocess = parse(text, image_size, where=where)
  check_sides(preprocess, dataset)
  if preprocess.tokenizes and not train:
    raise UserError(
      f"{preprocess.tokenizes.where} draws captions for training; leave it out"
      " of an evaluation, which reads all captions itself."
    )
  device = preprocess.of_kind("device")
  if device and not train:
    raise UserError(
      f"{device[0].where} augments training images inside the step; leave it"
      " out of an evaluation."
    )
  return preprocess


def check_sides(preprocess: Preprocess, dataset: str | None) -> None:
  """Checks sides as far as they are known from the ops and the dataset's name.

  Raises:
    UserError: The resulting images differ from `image_size`, vary in size, or
      are smaller than a crop.
  """
  if dataset is None:
    preprocess.check_crops(None)
    side = preprocess.side(_UNKNOWN_SIDE)
    if side == _UNKNOWN_SIDE:
      return
  else:
    preprocess.check_crops(known_sides.smaller(dataset))
    side = preprocess.side(known_sides.of_arrays(dataset))
  check_side(preprocess, side)


def check_side(preprocess: Preprocess, side: int | None) -> None:
  """Checks the side of the images produced by the host.

  Raises:
    UserError: The side is not `image_size`, or varies between images (None).
  """
  size = preprocess.image_size
  start = f'{preprocess.where} = "{preprocess.text}"'
  if side is None:
    raise UserError(
      f"{start} leaves images of various sizes; end it with resize({size}),"
      f" central_crop({size}) or random_crop({size})."
    )
  if side != size:
    raise UserError(
      f"{start} yields images of {side} x {side} pixels, but"
      f" {preprocess.size_key} = {size}; leave the size out of the last op, or"
      " set the image size."
    )
