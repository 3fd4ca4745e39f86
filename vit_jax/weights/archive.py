"""Arrays of an .npz file, read defensively and written all or nothing.

`np.load` alone does not detect arrays longer than their header says or
duplicate names, and its errors for damaged files come from five libraries.
"""

import dataclasses
import io
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from etils import epath

from vit_jax import npz_errors, records
from vit_jax.errors import UserError
from vit_jax.weights import lfs_pointer, path_errors

_SUFFIX = ".npy"


@dataclasses.dataclass(frozen=True)
class Contents:
  """Contents of a file.

  Attributes:
    names: Names of all its arrays.
    arrays: The arrays that were read, as float32.
    comment: Comment of the archive; b"" if there is none.
  """

  names: Sequence[str]
  arrays: Mapping[str, np.ndarray]
  comment: bytes = b""


def read(
  path: epath.Path, select: Callable[[list[str]], Iterable[str]]
) -> Contents:
  """Reads some arrays of a file.

  Nothing in the file is ever unpickled.

  Args:
    path: Path of the .npz file.
    select: Maps all names in the file to those to read.

  Raises:
    UserError: The file cannot be read, is damaged, or holds anything other than
      arrays of floating point numbers.
  """
  with path_errors.explained(os.fspath(path)), path.open("rb") as file:
    lfs_pointer.check(path)
    try:
      archive = zipfile.ZipFile(file)
    except npz_errors.DAMAGED:
      raise UserError(_not_an_archive(path, file)) from None
    with archive:
      members = _members(archive, path)
      names = list(members)
      arrays = {
        name: _array(archive, members[name], name, path)
        for name in select(names)
      }
      return Contents(names, arrays, archive.comment)


def write(
  path: epath.Path, arrays: Mapping[str, np.ndarray], comment: bytes
) -> None:
  """Writes arrays; `path` is replaced only once all are on disk.

  The same arrays always produce the same bytes.

  Raises:
    UserError: The file cannot be written.
  """
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    with records.replacing(path) as partial, partial.open("wb") as file:
      with zipfile.ZipFile(file, "w") as archive:
        archive.comment = comment
        for name, array in arrays.items():
          # ZipInfo's default date is fixed: 1980.
          member = zipfile.ZipInfo(name + _SUFFIX)
          with archive.open(member, "w", force_zip64=True) as stream:
            np.lib.format.write_array(stream, array, allow_pickle=False)
  except OSError as error:
    raise UserError(
      f"{path} cannot be written ({error.strerror or error})."
    ) from None


def _not_an_archive(path: epath.Path, file: io.BufferedIOBase) -> str:
  file.seek(0)
  start = file.read(8)
  if not start:
    return f"{path} is empty; copy or download it again."
  if start[:2] == b"PK":
    return (
      f"{path} is damaged or incomplete: its table of contents, at the end"
      " of the file, cannot be read. Copy or download it again."
    )
  if start[:1] == b"\x80":
    return f"{path} is a pickle, not an .npz file; pickles are never loaded."
  return f"{path} is not an .npz file (a zip archive of NumPy arrays)."


def _members(
  archive: zipfile.ZipFile, path: epath.Path
) -> dict[str, zipfile.ZipInfo]:
  members: dict[str, zipfile.ZipInfo] = {}
  for info in archive.infolist():
    if not info.filename.endswith(_SUFFIX):
      raise UserError(
        f"{path} holds '{info.filename}', which is not a NumPy array; it is not"
        " an .npz file of weights."
      )
    name = info.filename.removesuffix(_SUFFIX)
    if name in members:
      raise UserError(f"{path} holds '{name}' twice.")
    members[name] = info
  return members


def _array(
  archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, path: epath.Path
) -> np.ndarray:
  try:
    stream = io.BytesIO(archive.read(info))  # Checks the CRC at the end.
    array = np.lib.format.read_array(stream, allow_pickle=False)
    rest = stream.read(1)
  except (*npz_errors.DAMAGED, MemoryError) as error:
    if "allow_pickle" in str(error):
      raise UserError(
        f"{path} holds '{name}' as Python objects (a pickle), which are never"
        " loaded; weights are plain arrays."
      ) from None
    raise UserError(
      f"{path} is damaged: '{name}' cannot be read"
      f" ({str(error) or type(error).__name__}). Copy or download it again."
    ) from None
  if rest:
    raise UserError(
      f"{path} is damaged: '{name}' is longer than its shape says."
    )
  return _as_float32(array, name, path)


def _as_float32(array: np.ndarray, name: str, path: epath.Path) -> np.ndarray:
  """Converts floats to float32; NumPy stores bfloat16 as two untyped bytes."""
  if array.dtype.kind == "V" and array.dtype.itemsize == 2:
    bits = np.ascontiguousarray(array).view(np.uint16).astype(np.uint32) << 16
    return bits.view(np.float32)
  if array.dtype.kind != "f":
    raise UserError(
      f"{path}: '{name}' holds {array.dtype}, not floating point numbers;"
      " parameters are float32, float16 or bfloat16."
    )
  return array.astype(np.float32, copy=False)
