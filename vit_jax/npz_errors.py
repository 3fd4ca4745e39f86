"""Errors that zipfile, zlib and NumPy raise for a damaged .npz file."""

import struct
import zipfile
import zlib

DAMAGED = (
  zipfile.BadZipFile,
  zlib.error,
  struct.error,
  EOFError,
  KeyError,
  NotImplementedError,
  OverflowError,
  RuntimeError,
  SyntaxError,
  TypeError,
  ValueError,
)
