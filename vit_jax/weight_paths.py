"""Paths of PyTorch weights: FILE, or FILE/NAME for a state dict in it."""

from etils import epath

SAFETENSORS = ".safetensors"
# Suffixes of files that PyTorch pickles; timm's training writes the last.
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pth.tar")


def parted(path: epath.PathLike) -> tuple[epath.Path, str | None]:
  """Splits FILE/NAME into the file and the state dict in it, if one is named.

  A directory may have the name of a file.
  """
  where = epath.Path(path)
  if where.parent.name.endswith(PICKLES) and not where.parent.is_dir():
    return where.parent, where.name
  return where, None


def folder(path: epath.PathLike) -> epath.Path | None:
  """Returns the folder of weights, where files that describe them lie.

  Args:
    path: A directory, FILE or FILE/NAME.

  Returns:
    The directory itself or that of the file; None for a path to anything else.
  """
  where, _ = parted(path)
  if where.is_dir():
    return where
  is_weights = where.name.endswith((SAFETENSORS, *PICKLES))
  return where.parent if is_weights and where.exists() else None
