"""Weights of any published form of file."""

from etils import epath

from vit_jax.errors import UserError
from vit_jax.weights import archive, huggingface, npz
from vit_jax.weights.contract import Weights


def is_published(path: str) -> bool:
  """Whether a path, by its name or by what is there, is one that `read` takes.

  A directory of a run, which holds `checkpoints/`, is not.
  """
  where = epath.Path(path)
  if where.suffix in (".npz", ".safetensors"):
    return True
  return (where / "model.safetensors").exists() or (
    where / "model.safetensors.index.json"
  ).exists()


def read(path: str) -> Weights:
  """Reads a published file.

  Args:
    path: an .npz of google-research, a .safetensors, or a directory of
      Hugging Face or timm; a local one or a bucket's.

  Raises:
    UserError: it is not there, is damaged or is not all understood.
  """
  where = epath.Path(path)
  try:
    if not where.exists():
      raise UserError(f"The file {path} does not exist.")
    if where.suffix == ".npz" and where.is_dir():
      raise UserError(f"{path} is a directory, not a file of weights.")
  except UserError:
    raise
  except Exception as error:
    if "://" not in path:
      raise
    raise UserError(archive.unreachable(path, error)) from None
  if where.suffix == ".npz":
    return npz.read(where)
  return huggingface.read(where)
