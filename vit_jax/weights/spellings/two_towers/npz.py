"""big_vision's two towers: `img/...`, `txt/...`, `t` and `b`.

The Transformers of both towers are named like its ViTs, in all their naming
schemes.
"""

import re
from collections.abc import Mapping

import numpy as np

from vit_jax.models.text import sizes
from vit_jax.models.two_towers.section import SHARED
from vit_jax.models.two_towers.shapes import IMAGE, TEXT
from vit_jax.models.vit.shapes import TABLE
from vit_jax.weights.spellings.contract import Npz
from vit_jax.weights.spellings.npz_parameters import IMAGE_TOWER, TEXT_TOWER
from vit_jax.weights.spellings.vit.npz import NPZ as VIT

# Prefixes of names in the file and of ours.
_TEXT_ROWS = (
  ("Embed_0/embedding", sizes.TOKENS),
  ("Encoder_0/", "Transformer/"),
)
_SCALARS = {"t": "logit_scale", "b": "logit_bias"}
_HEADS = {IMAGE_TOWER: "image_projection/", TEXT_TOWER: "text_projection/"}


def _canonical(
  params: Mapping[str, np.ndarray], path: str
) -> dict[str, np.ndarray]:
  """Converts parameters to our names, unstacked; raises as for a ViT."""
  towers: dict[str, dict[str, np.ndarray]] = {IMAGE_TOWER: {}, TEXT_TOWER: {}}
  found: dict[str, np.ndarray] = {}
  for name, array in params.items():
    prefix = name[: len(IMAGE_TOWER)]
    if prefix in towers:
      towers[prefix][name.removeprefix(prefix)] = array
    elif name in _SCALARS and array.size == 1:
      found[_SCALARS[name]] = array.reshape(())
    else:
      found[name] = array
  towers[TEXT_TOWER] = {
    _respelled(name, _TEXT_ROWS): array
    for name, array in towers[TEXT_TOWER].items()
  }
  for prefix, ours in ((IMAGE_TOWER, IMAGE), (TEXT_TOWER, TEXT)):
    of_tower = VIT.canonical(towers[prefix], f"{path}: {prefix}")
    for name, array in of_tower.items():
      if name.startswith("head/"):
        name = _HEADS[prefix] + name.removeprefix("head/")
      elif prefix == TEXT_TOWER and name == TABLE:
        name = ours + sizes.POSITIONS
      else:
        name = ours + name
      found[name] = array
  return found


def _published(params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
  found: dict[str, np.ndarray] = {}
  back = [(ours, theirs) for theirs, ours in _TEXT_ROWS]
  scalars = {ours: theirs for theirs, ours in _SCALARS.items()}
  heads = {ours: f"{tower}head/" for tower, ours in _HEADS.items()}
  for name, array in params.items():
    start = re.match(r"\w+/|", name)[0]
    if name in scalars:
      found[scalars[name]] = array.reshape(1)
    elif start in heads:
      found[heads[start] + name.removeprefix(start)] = array
    elif start == IMAGE:
      rest = name.removeprefix(IMAGE)
      found[IMAGE_TOWER + ("pos_embedding" if rest == TABLE else rest)] = array
    else:
      rest = _respelled(name.removeprefix(TEXT), back)
      found[TEXT_TOWER + rest] = array
  return found


def _respelled(name: str, rows: tuple | list) -> str:
  for source, target in rows:
    if name.startswith(source):
      return target + name.removeprefix(source)
  return name


NPZ = Npz(
  matches=lambda names: any(name.startswith(TEXT_TOWER) for name in names),
  canonical=_canonical,
  published=_published,
  unseen=(
    "image_size",
    "normalize",
    "pos_embedding_resize",
    "scale_init",
    *(f"image.{key}" for key in VIT.unseen if key not in SHARED),
    "text.pool",
    "text.causal",
    "text.eot_token",
    "text.gelu",
    "text.layer_norm_eps",
  ),
  parts=("image",),
)
