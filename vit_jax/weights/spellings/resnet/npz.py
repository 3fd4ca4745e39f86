"""Big Transfer's published .npz files, with Google's and big_vision's names."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from vit_jax.errors import UserError
from vit_jax.weights.spellings import names
from vit_jax.weights.spellings.contract import Npz


def _rows() -> list[tuple[str, str]]:
  """Pairs our modules with Google's, which are written, and big_vision's."""
  unit = "block{1}/unit{01}"
  rows = [
    ("root_conv", "resnet/root_block/standardized_conv2d"),
    ("root_conv", "root_block/conv_root"),
    ("norm", "resnet/group_norm"),
    ("norm", "norm-pre-head"),
    ("head", "resnet/head/conv2d"),
    (f"{unit}/proj", f"resnet/{unit}/a/proj/standardized_conv2d"),
    (f"{unit}/proj", f"{unit}/conv_proj"),
  ]
  for number, letter in enumerate("abc", 1):
    conv, norm = f"{unit}/{letter}", f"{unit}/{letter}_norm"
    rows += [
      (conv, f"resnet/{unit}/{letter}/standardized_conv2d"),
      (conv, f"{unit}/conv{number}"),
      (norm, f"resnet/{unit}/{letter}/group_norm"),
      (norm, f"{unit}/gn{number}"),
    ]
  return rows


_ROWS = _rows()
_OURS = {"gamma": "scale", "beta": "bias"}
_THEIRS = {"scale": "gamma", "bias": "beta"}
# Some files number TensorFlow's modules: `standardized_conv2d_12`.
_COUNTED = re.compile(r"(conv2d|group_norm)_\d+(?=/)")
_LAYER = re.compile(r"(root_conv|block\d+/unit\d+/([abc](_norm)?|proj))/")


def _matches(arrays: Iterable[str]) -> bool:
  arrays = list(arrays)
  # The stem of a hybrid has similar names, below a Transformer.
  return not any(name.startswith("Transformer/") for name in arrays) and any(
    _LAYER.match(_our_name(name)) for name in arrays
  )


def _canonical(
  params: Mapping[str, np.ndarray], path: str
) -> dict[str, np.ndarray]:
  """Converts parameters to our names and shapes; others are unchanged.

  Raises:
    UserError: Two names mean the same.
  """
  renamed: dict[str, np.ndarray] = {}
  for name, array in params.items():
    new = _our_name(name)
    if new in renamed:
      raise UserError(f"{path} holds {new} twice, in two spellings.")
    # A head is a 1 x 1 convolution, and norms have all four axes.
    if new == "head/kernel" and array.shape[:-2] == (1, 1):
      array = array[0, 0]
    if "norm/" in new and array.shape[:-1] == (1, 1, 1):
      array = array.reshape(-1)
    renamed[new] = array
  return renamed


def _published(params: Mapping[str, Any]) -> dict[str, Any]:
  """Returns flat parameters by the names in Google's own BiT files."""
  return {_their_name(name): _as_theirs(name, x) for name, x in params.items()}


def _our_name(name: str) -> str:
  module, _, leaf = _COUNTED.sub(r"\1", name).rpartition("/")
  for ours, theirs in _ROWS:
    if (found := names.renumbered(module, theirs, ours)) is not None:
      return f"{found}/{_OURS.get(leaf, leaf)}"
  return name


def _their_name(path: str) -> str:
  module, _, leaf = path.rpartition("/")
  found = next(
    found
    for ours, theirs in _ROWS
    if (found := names.renumbered(module, ours, theirs)) is not None
  )
  is_norm = found.endswith("group_norm")
  return f"{found}/{_THEIRS[leaf] if is_norm else leaf}"


def _as_theirs(name: str, leaf: Any) -> np.ndarray:
  array = np.asarray(leaf)
  return array[None, None] if name == "head/kernel" else array


NPZ = Npz(
  matches=_matches,
  canonical=_canonical,
  published=_published,
  unseen=("image_size", "normalize", "standardization"),
)
