"""Reading published files in any format."""

import types

import numpy as np
from etils import epath

from vit_jax import named_weights
from vit_jax.errors import UserError
from vit_jax.weight_paths import PICKLES, SAFETENSORS, parted
from vit_jax.weights import flat, path_errors, tensors, timm_config
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import huggingface, npz, original, timm
from vit_jax.weights.spellings.two_towers.open_clip import CONFIG as OPEN_CLIP

# model_type of timm's networks that transformers saves, with timm's config.
_TIMM_IN_HUGGING_FACE = "timm_wrapper"


def is_published(path: str) -> bool:
  """Tells a published file or directory from a workdir.

  Raises:
    UserError: A bucket cannot be reached.
  """
  path = named_weights.local(path)
  with path_errors.explained(path):
    where, _ = parted(path)
    if where.name.endswith((".npz", SAFETENSORS, *PICKLES)):
      return True
    names = (*tensors.FILES, OPEN_CLIP)
    return any((where / name).exists() for name in names)


def exists(path: str) -> bool:
  """Returns True if there is a file or directory at a path, as for `read`.

  Raises:
    UserError: It cannot be accessed.
  """
  path = named_weights.local(path)
  with path_errors.explained(path):
    return parted(path)[0].exists()


def require(path: str) -> None:
  """Raises UserError if nothing exists at the path."""
  if not exists(path):
    raise UserError(f"The file {named_weights.local(path)} does not exist.")


def read(path: str) -> Weights:
  """Reads a published file.

  Args:
    path: An .npz file from google-research, a .safetensors file, a PyTorch
      checkpoint, or a Hugging Face or timm directory, on disk or in a bucket.
      FILE/NAME is the state dict NAME of a PyTorch checkpoint with several,
      such as last.pth.tar/state_dict_ema.

  Raises:
    UserError: The file is missing, damaged or not fully understood, or some of
      its parameters are not finite.
  """
  weights = _read(path)
  check_finite(weights)
  return weights


def check_finite(weights: Weights) -> None:
  """Raises UserError if a parameter of the network holds NaN or infinity."""
  leaves = flat.flatten(weights.params)
  wrong = [name for name, x in leaves.items() if not np.isfinite(x).all()]
  if not wrong:
    return
  first = leaves[wrong[0]]
  others = f" ({len(wrong) - 1} other parameters do too)"
  raise UserError(
    f"{weights.path} holds NaN or infinity: {np.sum(~np.isfinite(first))} of"
    f" the {np.size(first)} numbers of {wrong[0]}"
    f"{others if len(wrong) > 1 else ''}. Take a checkpoint from before its"
    " training diverged; if it did not, copy or download the file again."
  )


def _read(path: str) -> Weights:
  require(path)
  with path_errors.explained(path):
    where, part = parted(path)
    if where.suffix == ".npz":
      if where.is_dir():
        raise UserError(f"{path} is a directory, not an .npz file.")
      return npz.read(where)
    return _library(where).read(where, part)


def _library(path: epath.Path) -> types.ModuleType:
  """Picks the reader of PyTorch weights from their config."""
  directory = path if path.is_dir() else path.parent
  config = timm_config.found(path)
  if config is None and (directory / OPEN_CLIP).exists():
    return original
  kind = None if config is None else config.values.get("model_type")
  if kind not in (None, _TIMM_IN_HUGGING_FACE):
    return huggingface
  is_timms = config is not None and "architecture" in config
  # timm's files can be read without a config.
  if path.name.endswith(PICKLES) and not is_timms:
    return original
  return timm
