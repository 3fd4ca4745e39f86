"""Tensors of safetensors files, read defensively as float32.

The library checks a file's header and bounds. This module handles shards,
dtypes and buckets; pickles are left to `torch_file`, which runs no code.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy
from etils import epath

from vit_jax.errors import UserError
from vit_jax.weight_paths import PICKLES, SAFETENSORS
from vit_jax.weights import lfs_pointer, path_errors, state_dict, torch_file
from vit_jax.weights.fields import Fields

FILE = "model.safetensors"
INDEX = "model.safetensors.index.json"
# Names of a directory's files from before safetensors.
PICKLE = "pytorch_model.bin"
PICKLE_INDEX = f"{PICKLE}.index.json"
FILES = (FILE, INDEX, PICKLE, PICKLE_INDEX)

# Whole numbers that follow from the network: Swin's table of indices, and the
# places of tokens in older files of CLIP.
_INDICES = ("relative_position_index", "position_ids")
# A counter that PyTorch keeps for every batch norm.
_BATCH_NORM = ".num_batches_tracked"
_FLOATS = {
  "F64": np.dtype(np.float64),
  "F32": np.dtype(np.float32),
  "F16": np.dtype(np.float16),
  "BF16": np.dtype(ml_dtypes.bfloat16),
}


def read(
  path: epath.Path, notes: list[str] | None = None, part: str | None = None
) -> dict[str, np.ndarray]:
  """Reads all tensors of a file, or of the file or shards in a directory.

  Args:
    path: A .safetensors file or one that PyTorch pickled; or a directory with
      `model.safetensors`, `model.safetensors.index.json` and the shards named
      there, or `pytorch_model.bin` or its index and shards. The first one found
      is read.
    notes: Extended by a note on which of several state dicts of a pickle is
      used.
    part: Name of the state dict of a pickle to read; None for the best known
      one.

  Raises:
    UserError: The file is missing or damaged, or holds anything other than
      floating point numbers.
  """
  notes = [] if notes is None else notes
  where = os.fspath(path)
  with path_errors.explained(where):
    if path.is_dir():
      name = next((name for name in FILES if (path / name).exists()), None)
      if name is None:
        raise UserError(f"{path} holds no weights: none of {', '.join(FILES)}.")
      if name in (INDEX, PICKLE_INDEX):
        return state_dict.arrays(_read_shards(path, name), where)
      path /= name
    if path.name.endswith(PICKLES):
      return _read_pickle(path, notes, part)
    return state_dict.arrays(_read_file(path), where)


def write(
  path: epath.Path,
  tensors: Mapping[str, np.ndarray],
  metadata: Mapping[str, str] | None = None,
) -> None:
  """Writes float32 tensors as PyTorch's own writer would.

  Args:
    path: Path of the file.
    tensors: Tensors by name.
    metadata: Strings for the file's header, which other readers ignore.
  """
  contiguous = {
    name: np.asarray(tensor, np.float32, order="C")
    for name, tensor in tensors.items()
  }
  header = {"format": "pt", **(metadata or {})}
  path.write_bytes(safetensors.numpy.save(contiguous, header))


def _read_shards(directory: epath.Path, name: str) -> dict[str, np.ndarray]:
  index = Fields.read(directory / name)
  read, suffixes = _read_file, (SAFETENSORS,)
  if name == PICKLE_INDEX:
    read, suffixes = _read_pickled_shard, PICKLES
  places = index.mapping("weight_map").values
  shards = sorted({str(shard) for shard in places.values()})
  tensors: dict[str, np.ndarray] = {}
  for shard in shards:
    # A name with a slash could be any file on the machine.
    if os.path.basename(shard) != shard or not shard.endswith(suffixes):
      raise UserError(f"{index.path}: '{shard}' is not the name of a shard.")
    found = read(directory / shard)
    expected = {
      key
      for key, place in places.items()
      if place == shard and not key.endswith(_INDICES)
    }
    if found.keys() != expected:
      odd = sorted(found.keys() ^ expected)
      raise UserError(
        f"{directory / shard} does not hold what {name} says: '{odd[0]}'"
        f" {'is' if odd[0] in found else 'is not'} there. Copy or download"
        " the directory again."
      )
    tensors.update(found)
  return tensors


def _read_file(path: epath.Path) -> dict[str, np.ndarray]:
  if not path.exists():
    raise UserError(f"{path} does not exist.")
  lfs_pointer.check(path)
  with _local(path) as local:
    try:
      with safetensors.safe_open(local, framework="np") as file:
        kinds = {
          name: file.get_slice(name).get_dtype()
          for name in file.keys()
          if not name.endswith(_INDICES)
        }
        _check_kinds(path, kinds)
        return {
          name: np.asarray(file.get_tensor(name)).astype(np.float32, copy=False)
          for name in kinds
        }
    except (safetensors.SafetensorError, ValueError, MemoryError) as error:
      reason = (str(error).splitlines() or [type(error).__name__])[0]
      raise UserError(
        f"{path} is damaged, incomplete or no safetensors file"
        f" ({reason[:200]}). Copy or download it again."
      ) from None


def _read_pickle(
  path: epath.Path, notes: list[str], part: str | None
) -> dict[str, np.ndarray]:
  """Reads the tensors of a state dict, without counters and index tables."""
  contents = torch_file.read(path)
  if torch_file.SCRIPT in contents:
    raise UserError(
      f"{path} is TorchScript, which is read without a config.json in its"
      " folder: copy it to a folder of its own."
    )
  found = state_dict.chosen(contents, os.fspath(path), notes, part)
  for name in found:
    _check_batch_norm(path, name)
  return {n: x for n, x in found.items() if x.dtype == np.float32}


def _read_pickled_shard(path: epath.Path) -> dict[str, np.ndarray]:
  found = {
    name: tensor
    for name, tensor in torch_file.read(path).items()
    if isinstance(tensor, np.ndarray)
    and isinstance(name, str)
    and not name.endswith(_INDICES)
  }
  for name, tensor in found.items():
    _check_batch_norm(path, name)
    if tensor.dtype != np.float32:
      raise UserError(
        f"{path}: '{name}' holds {tensor.dtype}, but parameters are floating"
        " point numbers."
      )
  return found


def _check_kinds(path: epath.Path, kinds: Mapping[str, str]) -> None:
  for name, kind in kinds.items():
    _check_batch_norm(path, name)
    if kind not in _FLOATS:
      raise UserError(
        f"{path}: '{name}' holds {kind}, but parameters are float64, float32,"
        " float16 or bfloat16. Quantised weights have to be turned into one of"
        " these first."
      )


def _check_batch_norm(path: epath.Path, name: str) -> None:
  if name.endswith(_BATCH_NORM):
    raise UserError(
      f"{path} has batch norm ('{name}'), which our networks do not have, so"
      " it cannot be loaded."
    )


@contextlib.contextmanager
def _local(path: epath.Path) -> Iterator[str]:
  """Yields a local name of a file, for the library to map into memory."""
  if "://" not in os.fspath(path):
    yield os.fspath(path)
    return
  with tempfile.TemporaryDirectory() as directory:
    copy = epath.Path(directory) / path.name
    path.copy(copy)
    yield os.fspath(copy)
