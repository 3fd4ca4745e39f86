"""timm's config, from the header of a .safetensors file or config.json.

`vit_jax.save` writes the header into a standalone file; it takes precedence, as
a config.json in the same folder may belong to another file.
"""

import json
import os

from etils import epath

from vit_jax.weights.fields import Fields

NAME = "config.json"
_SUFFIX = ".safetensors"
_LONGEST = 16 * 2**20


def found(path: epath.Path) -> Fields | None:
  """Finds the config of a file or directory of weights; None if none.

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
  """Returns the `pretrained_cfg` of a config; None if it is not timm's.

  Older configs have its keys at the level of the network's name.
  """
  if "pretrained_cfg" in config:
    return config.mapping("pretrained_cfg")
  return config if "architecture" in config else None


def _header(path: epath.Path) -> Fields | None:
  """Reads the config in a file's header, which is JSON after its length."""
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
