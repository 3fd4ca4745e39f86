"""PyTorch checkpoints from before 1.6, which are not zip archives.

Five pickles follow each other: a magic number, a protocol, facts about the
computer, the value, and a list of storages. The numbers of each storage come
last, little-endian on every computer, after how many they are.
"""

import io
import os
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from vit_jax.weights import torch_pickle

START = b"\x80"
_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
# Place and mark of a tar archive, PyTorch's earliest form.
_TAR_PLACE, _TAR = 257, b"ustar"


def is_tar(file: BinaryIO) -> bool:
  """Returns True for PyTorch's oldest form; moves the file's position."""
  file.seek(_TAR_PLACE)
  return file.read(len(_TAR)) == _TAR


def read(
  file: BinaryIO, max_pickle: int, widths: Mapping[str, int]
) -> tuple[Any, Callable[[str], bytes]]:
  """Reads a checkpoint's value, and where its numbers are.

  Args:
    file: The file, at its start.
    max_pickle: Limit on the pickles together, in bytes.
    widths: Bytes of a number, by kind of storage.

  Returns:
    The value, and a function that reads a storage by its key.

  Raises:
    torch_pickle.Unreadable: It is not PyTorch's, or holds more than data.
    ValueError: The file is damaged.
  """
  pickles = io.BytesIO(file.read(max_pickle))
  if torch_pickle.read(pickles) != _MAGIC:
    raise torch_pickle.Unreadable("it is a pickle that PyTorch did not write")
  if torch_pickle.read(pickles) != _PROTOCOL:
    raise torch_pickle.Unreadable(f"its protocol is not {_PROTOCOL}")
  torch_pickle.read(pickles)
  storages: dict[str, torch_pickle.Storage] = {}
  value = torch_pickle.read(pickles, storages)
  keys = torch_pickle.read(pickles)
  if (
    not isinstance(keys, list)
    # Other keys may be slow to hash.
    or not all(isinstance(key, str) for key in keys)
    or {*keys} != storages.keys()
  ):
    raise ValueError("its list of numbers is not that of its tensors")
  places: dict[str, tuple[int, int]] = {}
  end = file.seek(0, os.SEEK_END)
  place = pickles.tell()
  for key in keys:
    storage = storages[key]
    if storage.kind not in widths:
      raise torch_pickle.unknown_kind(storage)
    file.seek(place)
    count = int.from_bytes(file.read(8), "little", signed=True)
    if count != storage.size:
      raise ValueError(f"the numbers of storage {key[:80]} are {count}")
    places[key] = place + 8, count * widths[storage.kind]
    place += 8 + count * widths[storage.kind]
    if count < 0 or place > end:
      raise ValueError("it ends before its numbers do")

  def numbers(key: str) -> bytes:
    place, length = places[key]
    file.seek(place)
    return file.read(length)

  return value, numbers
