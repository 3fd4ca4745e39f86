"""The images in a folder, and how to tell that one has changed."""

import os

from vit_jax.data import image_files
from vit_jax.errors import UserError
from vit_jax.searching.shards import Stamp

# Of a link that leads nowhere; reading it says so.
_ABSENT = Stamp(-1, -1)


def scan(folder: str) -> dict[str, Stamp]:
  """Maps the images of a folder and all folders below to their stamps.

  No file is opened.

  Args:
    folder: Directory on this machine.

  Returns:
    Paths below the folder, in order.

  Raises:
    UserError: There is no such folder, or it holds no images.
  """
  if os.path.isfile(folder):
    raise UserError(
      f"--images={folder} is a file; give the folder of the images."
    )
  paths = image_files.find([folder])
  return {os.path.relpath(path, folder): _stamp(path) for path in paths}


def _stamp(path: str) -> Stamp:
  try:
    status = os.stat(path)
  except OSError:
    return _ABSENT
  return Stamp(status.st_size, status.st_mtime_ns)
