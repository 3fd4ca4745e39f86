"""Big Transfer's published .npz files, by google's names and big_vision's."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from vit_jax.errors import UserError
from vit_jax.weights.spellings.contract import Npz

# Regex of a name in a file -> ours. TensorFlow's modules are counted in some
# files (`standardized_conv2d_12`); big_vision names them as flax does.
_RULES = tuple(
  (re.compile(regex), ours)
  for regex, ours in (
    (
      r"resnet/root_block/standardized_conv2d(?:_\d+)?/kernel",
      r"root_conv/kernel",
    ),
    (
      r"resnet/(block\d+/unit\d+)/([abc])/standardized_conv2d(?:_\d+)?/kernel",
      r"\1/\2/kernel",
    ),
    (
      r"resnet/(block\d+/unit\d+)/a/proj/standardized_conv2d(?:_\d+)?/kernel",
      r"\1/proj/kernel",
    ),
    (
      r"resnet/(block\d+/unit\d+)/([abc])/group_norm(?:_\d+)?/(gamma|beta)",
      r"\1/\2_norm/\3",
    ),
    (r"resnet/group_norm(?:_\d+)?/(gamma|beta)", r"norm/\1"),
    (r"resnet/head/conv2d(?:_\d+)?/(kernel|bias)", r"head/\1"),
    (r"root_block/conv_root/kernel", r"root_conv/kernel"),
    (r"(block\d+/unit\d+)/conv_proj/kernel", r"\1/proj/kernel"),
    (r"(block\d+/unit\d+)/conv([123])/kernel", r"\1/\2/kernel"),
    (r"(block\d+/unit\d+)/gn([123])/(scale|bias)", r"\1/\2_norm/\3"),
    (r"norm-pre-head/(scale|bias)", r"norm/\1"),
  )
)
_OURS = {"gamma": "scale", "beta": "bias", "1": "a", "2": "b", "3": "c"}
_OURS |= {"1_norm": "a_norm", "2_norm": "b_norm", "3_norm": "c_norm"}
_LAYER = re.compile(r"(root_conv|block\d+/unit\d+/([abc](_norm)?|proj))/")
_TF_NAMES = {"scale": "gamma", "bias": "beta"}


def _matches(names: Iterable[str]) -> bool:
  names = list(names)
  # The stem of a hybrid has similar names, below a Transformer.
  return not any(name.startswith("Transformer/") for name in names) and any(
    _LAYER.match(_our_name(name)) for name in names
  )


def _canonical(
  params: Mapping[str, np.ndarray], path: str
) -> dict[str, np.ndarray]:
  """Parameters by our names and in our shapes; others stay as they are.

  Raises:
    UserError: two names mean the same.
  """
  renamed: dict[str, np.ndarray] = {}
  for name, array in params.items():
    new = _our_name(name)
    if new in renamed:
      raise UserError(f"{path} holds {new} twice, in two spellings.")
    # A head is a convolution of 1 x 1, and norms have all four axes.
    if new == "head/kernel" and array.shape[:-2] == (1, 1):
      array = array[0, 0]
    if "norm/" in new and array.shape[:-1] == (1, 1, 1):
      array = array.reshape(-1)
    renamed[new] = array
  return renamed


def _published(params: Mapping[str, Any]) -> dict[str, Any]:
  """Flat parameters by the names of google's own BiT files."""
  return {_their_name(name): _as_theirs(name, x) for name, x in params.items()}


def _our_name(name: str) -> str:
  for regex, ours in _RULES:
    if match := regex.fullmatch(name):
      parts = match.expand(ours).split("/")
      return "/".join(_OURS.get(part, part) for part in parts)
  return name


def _their_name(name: str) -> str:
  *modules, leaf = name.split("/")
  layer = modules.pop()
  parents = "/".join(["resnet", *modules])
  if layer == "head":
    return f"{parents}/head/conv2d/{leaf}"
  if layer == "norm":
    return f"{parents}/group_norm/{_TF_NAMES[leaf]}"
  if layer.endswith("_norm"):
    return f"{parents}/{layer[0]}/group_norm/{_TF_NAMES[leaf]}"
  room = {"root_conv": "root_block", "proj": "a/proj"}.get(layer, layer)
  return f"{parents}/{room}/standardized_conv2d/{leaf}"


def _as_theirs(name: str, leaf: Any) -> np.ndarray:
  array = np.asarray(leaf)
  return array[None, None] if name == "head/kernel" else array


NPZ = Npz(
  matches=_matches,
  canonical=_canonical,
  published=_published,
  unseen=("image_size", "normalize", "standardization"),
)
