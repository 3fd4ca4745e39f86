"""The table of parameters that a model and a file do not share, with reasons.

Each row names the key of `config.model` that would make the parameter fit.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vit_jax import registry, text_tables
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.vit import sizes

Shape = tuple[int, ...]
_MAX_ROWS = 40
_BLOCK = re.compile(r"\bencoderblock_(\d+)\b")

# Regex of a parameter -> keys that decide its shape, the likeliest first.
_DECIDING = (
  (r"pre_logits/.*", "representation_size width"),
  (r"head/.*", "num_classes representation_size width"),
  (r"cls", "pool cls_token width"),
  (r"MAPHead_0/.*", "pool mlp_dim num_heads width"),
  (r"(fc_norm|Transformer/encoder_norm)/.*", "norm_after_pool width"),
  (
    r"Transformer/posembed.*",
    "pos_embedding pos_embedding_at cls_token cls_position width num_heads"
    " image_size",
  ),
  (r".*/(query|key|value)/bias", "qkv_bias num_heads width"),
  (r".*/MultiHeadDotProductAttention_0/.*", "num_heads width"),
  (r".*/MlpBlock_0/.*", "mlp_dim width"),
  (r"embedding/.*", "patch_size stem_blocks stem_width width"),
  (r"(conv_root|gn_root|block\d+)/.*", "stem_blocks stem_width"),
  (r".*", "width blocks"),
)
_LAYER = re.compile(r"Transformer/encoderblock(_\d+)?/")
_STACKED = "Transformer/encoderblock/"


@dataclasses.dataclass(frozen=True)
class Misfit:
  """A parameter that differs between a file and a model.

  Attributes:
    parameter: Path of the parameter.
    in_file: Shape in the file; None if the file lacks it.
    wanted: Shape in the model; None if the model lacks it.
    reason: Likely cause and remedy; "" if unknown.
  """

  parameter: str
  in_file: Shape | None
  wanted: Shape | None
  reason: str = ""


class ShapeMismatchError(UserError):
  """A sentence, followed by the table of misfits."""

  def __init__(self, sentence: str, misfits: Sequence[Misfit]):
    super().__init__(f"{sentence}\n{table(misfits)}")
    self.sentence = sentence
    self.misfits = tuple(misfits)

  def respelled(
    self, respell: Callable[[Misfit], Misfit]
  ) -> "ShapeMismatchError":
    """The same error with names and shapes as the file has them."""
    return ShapeMismatchError(
      self.sentence, [respell(misfit) for misfit in self.misfits]
    )


def find(
  found: Mapping[str, Shape], wanted: Mapping[str, Shape]
) -> list[Misfit]:
  """Lists the parameters whose shapes differ or that only one side has."""
  return [
    Misfit(name, found.get(name), wanted.get(name))
    for name in found | wanted
    if found.get(name) != wanted.get(name)
  ]


def check(
  found: Mapping[str, Shape], wanted: Mapping[str, Shape], sentence: str
) -> None:
  """Compares a file's parameters with those of the network they tell.

  Args:
    found: Shapes in the file, by path.
    wanted: Shapes in the network that the main parameters tell, by path.
    sentence: Meaning of a mismatch for the file, without a full stop.

  Raises:
    ShapeMismatchError: Some parameters differ.
  """
  if misfits := find(found, wanted):
    raise ShapeMismatchError(
      f"{sentence}: these do not go with its other parameters.", misfits
    )


def explain(
  misfits: Sequence[Misfit], found: schema.Model, wanted: schema.Model
) -> list[Misfit]:
  """Adds likely reasons to misfits.

  Args:
    misfits: Parameters that differ between two networks.
    found: Section `model` of the file.
    wanted: Section `model` of the network to be initialised from it.
  """
  theirs, ours = _facts(found), _facts(wanted)
  differing = {
    key: (theirs[key], ours[key])
    for key in theirs.keys() & ours.keys()
    if theirs[key] != ours[key]
  }
  return [
    dataclasses.replace(misfit, reason=_reason(misfit, differing))
    for misfit in misfits
  ]


def table(misfits: Sequence[Misfit]) -> str:
  """Aligned rows of parameter, shape in the file, shape wanted and reason.

  Encoder blocks with the same misfit share a row.
  """
  groups: dict[tuple[object, ...], list[int]] = {}
  for misfit in misfits:
    block = _BLOCK.search(misfit.parameter)
    name = _BLOCK.sub("encoderblock_{}", misfit.parameter)
    group = (name, misfit.in_file, misfit.wanted, misfit.reason)
    numbers = groups.setdefault(group, [])
    if block:
      numbers.append(int(block[1]))
  rows = [("parameter", "in the file", "wanted", "likely reason")]
  for (name, in_file, wanted, reason), numbers in groups.items():
    name = str(name).replace("{}", _ranges(numbers))
    rows.append((name, _shown(in_file), _shown(wanted), str(reason)))
  num_more = len(rows) - 1 - _MAX_ROWS
  rows = rows[: _MAX_ROWS + 1]
  if not any(reason for *_, reason in rows[1:]):
    rows[0] = (*rows[0][:3], "")
  lines = text_tables.aligned(rows)
  if num_more > 0:
    lines.append(f"... and {num_more} more")
  return "\n".join(lines)


def _shown(shape: object) -> str:
  return "not there" if shape is None else str(shape)


def _ranges(numbers: Sequence[int]) -> str:
  """'3' for one block, '{0...11}' or '{0,4}' for several."""
  if len(numbers) < 2:
    return "".join(map(str, numbers))
  numbers = sorted(numbers)
  if numbers == list(range(numbers[0], numbers[-1] + 1)):
    return f"{{{numbers[0]}...{numbers[-1]}}}"
  return "{" + ",".join(map(str, numbers)) + "}"


def _facts(model: schema.Model) -> dict[str, Any]:
  """Keys of a section, with the numbers that its variant stands for."""
  facts = model.model_dump()
  family = registry.FAMILIES.get(model.name)
  facts.update(dataclasses.asdict(family.size(model)))
  if family.has_attention:
    facts["representation_size"] = sizes.representation_size(model)
    facts["cls_token"] = sizes.has_cls(model.pool, model.cls_token)
  return facts


def _reason(misfit: Misfit, differing: dict[str, tuple[Any, Any]]) -> str:
  name = misfit.parameter
  if "name" in differing:
    return f"the file is of config.model.name={differing['name'][0]!r}"
  keys = next(k for regex, k in _DECIDING if re.fullmatch(regex, name)).split()
  one_sided = misfit.in_file is None or misfit.wanted is None
  if name.startswith(_STACKED) or (one_sided and _LAYER.match(name)):
    # Depth decides first, but a missing bias is first of all qkv_bias.
    keys = [*keys[: keys[0] == "qkv_bias"], "depth", *keys]
  for key in keys:
    if key in differing:
      return _advice(key, *differing[key])
  return ""


def _advice(key: str, theirs: Any, ours: Any) -> str:
  if key == "representation_size":
    if theirs is None:
      return f"the file has no pre_logits layer; set config.model.{key}=None"
    return (
      f"the file has a pre_logits layer; set config.model.{key}={theirs} or"
      " None"
    )
  if key == "patch_size":
    return (
      f"the file's patches are of {theirs} pixels; set config.model.variant"
    )
  return f"set config.model.{key}={theirs!r} (it is {ours!r})"
