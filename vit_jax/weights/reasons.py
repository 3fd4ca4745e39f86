"""Why a parameter of a file does not fit: the key of `config.model` to set."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from vit_jax.config import schema, sizes
from vit_jax.weights.shape_mismatches import Misfit

# Regex of a parameter -> keys that decide on it, the likeliest first.
_DECIDING = (
  (r"pre_logits/.*", ("representation_size", "width")),
  (r"head/.*", ("num_classes", "representation_size", "width")),
  (r"cls", ("pool", "cls_token", "width")),
  (r"MAPHead_0/.*", ("pool", "mlp_dim", "num_heads", "width")),
  (r"(fc_norm|Transformer/encoder_norm)/.*", ("norm_after_pool", "width")),
  (
    r"Transformer/posembed.*",
    (
      "pos_embedding",
      "pos_embedding_at",
      "cls_token",
      "width",
      "num_heads",
      "image_size",
    ),
  ),
  (r".*/(query|key|value)/bias", ("qkv_bias", "num_heads", "width")),
  (r".*/MultiHeadDotProductAttention_0/.*", ("num_heads", "width")),
  (r".*/MlpBlock_0/.*", ("mlp_dim", "width")),
  (r"embedding/.*", ("patch_size", "stem_blocks", "stem_width", "width")),
  (r"(conv_root|gn_root|block\d+)/.*", ("stem_blocks", "stem_width")),
  (r".*", ("width", "blocks")),
)
_LAYER = re.compile(r"Transformer/encoderblock(_\d+)?/")
_STACKED = "Transformer/encoderblock/"


def explain(
  misfits: Sequence[Misfit], found: schema.Model, wanted: schema.Model
) -> list[Misfit]:
  """Misfits with their likely reason.

  Args:
    misfits: parameters that are not the same in both networks.
    found: of the file.
    wanted: of the network that is to start from it.
  """
  theirs, ours = _facts(found), _facts(wanted)
  differing = {
    key: (theirs[key], ours[key])
    for key in theirs
    if key in ours and theirs[key] != ours[key]
  }
  return [
    dataclasses.replace(misfit, reason=_reason(misfit, differing))
    for misfit in misfits
  ]


def _facts(model: schema.Model) -> dict[str, Any]:
  """Keys of a section with the variant's numbers put in."""
  facts = model.model_dump()
  facts.update(dataclasses.asdict(sizes.resolve(model)))
  if model.name == "vit":
    facts["representation_size"] = sizes.representation_size(model)
    facts["cls_token"] = sizes.has_cls(model.pool, model.cls_token)
  return facts


def _reason(misfit: Misfit, differing: dict[str, tuple[Any, Any]]) -> str:
  name = misfit.parameter
  if "name" in differing:
    return f"the file is of config.model.name={differing['name'][0]!r}"
  keys = next(keys for regex, keys in _DECIDING if re.fullmatch(regex, name))
  one_sided = misfit.in_file is None or misfit.wanted is None
  if name.startswith(_STACKED) or (one_sided and _LAYER.match(name)):
    # The first key of a bias is the one about its being there.
    keys = (*keys[: keys[0] == "qkv_bias"], "depth", *keys)
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
