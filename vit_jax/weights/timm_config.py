"""timm's config: in the header of a .safetensors, or in config.json beside it.

The header is what `vit_jax.save` writes into a file that stands alone; it wins,
as a config.json of the same folder may be another file's.
"""

import json
import os

from etils import epath

from vit_jax.weights.fields import Fields

NAME = "config.json"
_SUFFIX = ".safetensors"
_LONGEST = 16 * 2**20


def found(path: epath.Path) -> Fields | None:
  """The config of a file or directory of weights; None: it has none.

  Args:
    path: A file, or the directory that holds it.

  Raises:
    UserError: A config.json is damaged; a damaged header is left to the
      reader of tensors.
  """
  directory = path
  if not path.is_dir():
    header = _header(path) if path.suffix == _SUFFIX else None
    if header is not None:
      return header
    directory = path.parent
  file = directory / NAME
  return Fields.read(file) if file.exists() else None


def settings(config: Fields) -> Fields | None:
  """The `pretrained_cfg` of a config; None: it is not timm's.

  Older configs have its keys beside the name of the network.
  """
  if "pretrained_cfg" in config:
    return config.mapping("pretrained_cfg")
  return config if "architecture" in config else None


def _header(path: epath.Path) -> Fields | None:
  """The config in the header of a file, which is JSON after its length."""
  try:
    with path.open("rb") as file:
      length = int.from_bytes(file.read(8), "little")
      if length > _LONGEST:
        return None
      header = json.loads(file.read(length))
    config = json.loads(header["__metadata__"][NAME])
  except (OSError, ValueError, KeyError, TypeError, RecursionError):
    return None
  if not isinstance(config, dict):
    return None
  return Fields(f"{os.fspath(path)}: {NAME}", config)
