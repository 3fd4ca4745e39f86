"""State dicts of timm in PyTorch checkpoints without a config.

Only for families whose authors' files have other names than timm's.
"""

from collections.abc import Sequence
from typing import Any

from vit_jax.weights.fields import Fields
from vit_jax.weights.spellings.contract import Original, Timm
from vit_jax.weights.spellings.convnext import timm as convnext
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.resnet import timm as resnet
from vit_jax.weights.spellings.swin import timm as swin


def _pickled(timm: Timm, marks: Sequence[str], normalize: str) -> Original:
  """Returns the record of a family whose timm files have any of the names."""

  def said(tensors: Tensors, path: str, notes: list[str]) -> dict[str, Any]:
    notes.append(
      "No config.json says how pixels are normalised: they are taken to be as"
      f" in most of timm's {timm.label} (model.normalize='{normalize}')."
    )
    found = timm.said(Fields(path, {}), tensors, path, notes)
    return {**found, "normalize": normalize}

  return Original(
    label=f"timm's {timm.label}",
    names=timm.names,
    said=said,
    prepare=timm.prepare,
    marks=tuple(marks),
  )


SWIN = _pickled(swin.TIMM, swin.TIMM.names.required[:1], "imagenet")
CONVNEXT = _pickled(convnext.TIMM, ["stem.0.weight"], "imagenet")
RESNET = _pickled(resnet.TIMM, ["stem.conv.weight"], "minus_one_to_one")
