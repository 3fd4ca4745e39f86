"""PyTorch checkpoints (.pth, .pt, .bin, .ckpt), read defensively.

Such a file is a zip archive of a pickle and the numbers it refers to, or has
the form from before PyTorch 1.6, which `torch_legacy` reads. The pickle is read
as data, and memory use is limited to a small multiple of the file's size.
"""

import math
import os
import sys
import zipfile
from collections.abc import Callable
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np
from etils import epath

from vit_jax.errors import UserError
from vit_jax.weights import (
  lfs_pointer,
  path_errors,
  torch_legacy,
  torch_pickle,
)

_KINDS = {
  "torch DoubleStorage": np.dtype(np.float64),
  "torch FloatStorage": np.dtype(np.float32),
  "torch HalfStorage": np.dtype(np.float16),
  "torch BFloat16Storage": np.dtype(ml_dtypes.bfloat16),
  "torch LongStorage": np.dtype(np.int64),
  "torch IntStorage": np.dtype(np.int32),
  "torch ShortStorage": np.dtype(np.int16),
  "torch CharStorage": np.dtype(np.int8),
  "torch ByteStorage": np.dtype(np.uint8),
  "torch BoolStorage": np.dtype(np.bool_),
}
_FLOATS = {kind for kind in _KINDS.values() if kind.kind in "fV"}
_MAX_PICKLE = 2**26
# Key of a program's modules, which are nested dictionaries.
SCRIPT = "TorchScript"
_MAX_DEPTH = 32
# Limit on the total size of all views, per byte of the archive.
_MAX_SHARING = 4


def read(path: epath.PathLike) -> dict[Any, Any]:
  """Reads the dictionaries and tensors of a checkpoint.

  Args:
    path: A file that `torch.save` wrote.

  Returns:
    Nested dictionaries of arrays, with floating point numbers as float32;
    anything else is left out. For TorchScript, the attributes of its modules,
    under `SCRIPT`; the program itself is ignored.

  Raises:
    UserError: The file is damaged, in PyTorch's earliest form (a tar archive),
      or holds anything other than data.
  """
  path = epath.Path(path)
  with path_errors.explained(os.fspath(path)), path.open("rb") as file:
    lfs_pointer.check(path)
    start = file.read(4)
    size = file.seek(0, os.SEEK_END)
    is_tar = torch_legacy.is_tar(file)
    file.seek(0)
    try:
      if start == b"PK\x03\x04":
        with zipfile.ZipFile(file) as archive:
          return _read_zip(archive, size)
      if start.startswith(torch_legacy.START):
        return _read_legacy(file, size)
    except torch_pickle.Unreadable as error:
      raise UserError(
        f"{path} is not read: {error}. Only tensors are read from a pickle,"
        " and nothing in it is run. Where you trust the file, save the"
        " network's parameters alone with PyTorch: `torch.save({name: x for"
        " name, x in STATE_DICT.items() if x.is_floating_point() and not"
        " x.is_sparse}, NEW_FILE)`."
      ) from None
    except (
      zipfile.BadZipFile,
      EOFError,
      KeyError,
      ValueError,
      NotImplementedError,
      RuntimeError,
      MemoryError,
    ) as error:
      reason = (str(error).splitlines() or [type(error).__name__])[0]
      raise UserError(
        f"{path} is damaged or incomplete ({reason[:200]}). Copy or download"
        " it again."
      ) from None
    raise UserError(_about_start(path, is_tar))


def _about_start(path: epath.Path, is_tar: bool) -> str:
  if is_tar:
    return (
      f"{path} is a tar archive, PyTorch's earliest form, which is never"
      " loaded. Where you trust it, write it anew with PyTorch: `torch.save("
      "torch.load(FILE, weights_only=False), NEW_FILE)`."
    )
  return (
    f"{path} is damaged or no checkpoint of PyTorch: it is not a zip archive."
    " Copy or download it again."
  )


def _read_zip(archive: zipfile.ZipFile, size: int) -> dict[Any, Any]:
  entries = archive.infolist()
  names = {entry.filename for entry in entries}
  if any(name.endswith("/model.json") for name in names):
    raise torch_pickle.Unreadable("it is TorchScript from before PyTorch 1.4")
  pickles = [name for name in names if name.endswith("/data.pkl")]
  if len(pickles) != 1:
    raise ValueError("it does not hold one data.pkl")
  root = pickles[0].removesuffix("data.pkl")
  # Without compression no entry is larger than the file. TorchScript's
  # program, which may be compressed, is not read.
  entries = [
    entry
    for entry in entries
    if entry.filename == pickles[0] or entry.filename.startswith(f"{root}data/")
  ]
  if sum(entry.file_size for entry in entries) > size or any(
    entry.compress_type != zipfile.ZIP_STORED for entry in entries
  ):
    raise ValueError("its entries are compressed or larger than the file")
  if archive.getinfo(pickles[0]).file_size > _MAX_PICKLE:
    raise ValueError("its data.pkl is larger than weights need")
  order = "little"
  if f"{root}byteorder" in names:
    order = archive.read(f"{root}byteorder").decode("ascii")
  if order not in ("little", "big"):
    raise ValueError("its byteorder is neither little nor big")
  value = torch_pickle.read(archive.read(pickles[0]))
  numbers = _Numbers(lambda key: archive.read(f"{root}data/{key}"), order, size)
  return numbers.of(value)


def _read_legacy(file: BinaryIO, size: int) -> dict[Any, Any]:
  widths = {kind: dtype.itemsize for kind, dtype in _KINDS.items()}
  value, read_storage = torch_legacy.read(file, _MAX_PICKLE, widths)
  return _Numbers(read_storage, "little", size).of(value)


class _Numbers:
  """Turns the tensors of a pickle into arrays.

  Args:
    read: Reads a storage by its key.
    order: Order of the bytes of a number.
    size: Size of the file, in bytes.
  """

  def __init__(
    self, read: Callable[[str], bytes], order: str, size: int
  ) -> None:
    self.read, self.order, self.size = read, order, size
    self.numbers: dict[str, np.ndarray] = {}
    self.made: dict[int, Any] = {}
    self.shared = 0

  def of(self, value: Any) -> dict[Any, Any]:
    """Returns a pickle's value, with arrays as its tensors."""
    if not isinstance(value, dict):
      raise torch_pickle.Unreadable("it holds no dictionary")
    found = self._dictionary(value, 0)
    return {SCRIPT: found} if isinstance(value, torch_pickle.Module) else found

  def _dictionary(self, value: dict[Any, Any], depth: int) -> dict[Any, Any]:
    if depth > _MAX_DEPTH:
      raise torch_pickle.Unreadable("its dictionaries are nested too deep")
    # A dictionary that is referred to repeatedly is built once.
    if id(value) not in self.made:
      made = {}
      for key, item in value.items():
        if isinstance(item, torch_pickle.Parameter):
          item = item.tensor
        if isinstance(item, dict):
          made[key] = self._dictionary(item, depth + 1)
        elif isinstance(item, torch_pickle.Tensor):
          made[key] = self._array(item)
      self.made[id(value)] = made
    return self.made[id(value)]

  def _array(self, tensor: torch_pickle.Tensor) -> np.ndarray:
    numbers = self._numbers(tensor.storage)
    count = math.prod(tensor.shape)
    last = tensor.offset + sum(
      (size - 1) * stride
      for size, stride in zip(tensor.shape, tensor.strides, strict=True)
    )
    self.shared += count
    if self.shared > _MAX_SHARING * self.size:
      raise ValueError("a tensor is larger than its numbers")
    if count == 0:
      return np.zeros(tensor.shape, numbers.dtype)
    if last >= len(numbers):
      raise ValueError("a tensor ends after its numbers")
    return np.lib.stride_tricks.as_strided(
      numbers[tensor.offset :],
      tensor.shape,
      [stride * numbers.itemsize for stride in tensor.strides],
      writeable=False,
    )

  def _numbers(self, storage: torch_pickle.Storage) -> np.ndarray:
    """Returns the numbers of a storage, read and converted once."""
    if storage.kind not in _KINDS:
      raise torch_pickle.unknown_kind(storage)
    if storage.key not in self.numbers:
      self.numbers[storage.key] = self._converted(storage)
    numbers = self.numbers[storage.key]
    if storage.view is None:
      return numbers
    first, count = storage.view
    if first < 0 or count < 0 or first + count > len(numbers):
      raise ValueError("a view ends after its numbers")
    return numbers[first : first + count]

  def _converted(self, storage: torch_pickle.Storage) -> np.ndarray:
    dtype = _KINDS[storage.kind]
    data = self.read(storage.key)
    if len(data) != storage.size * dtype.itemsize:
      raise ValueError(f"data/{storage.key[:80]} is of another size")
    words = np.frombuffer(data, f"u{dtype.itemsize}")
    if self.order != sys.byteorder:
      words = words.byteswap()
    if dtype == np.bool_:
      return words != 0
    numbers = words.view(dtype)
    if dtype in _FLOATS:
      numbers = numbers.astype(np.float32, copy=False)
    return numbers
