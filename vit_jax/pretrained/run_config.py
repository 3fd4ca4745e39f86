"""The config that a run left in its workdir."""

from etils import epath

from vit_jax.config import resolve, schema
from vit_jax.errors import UserError

FILE = "config.json"


def read(workdir: epath.PathLike) -> schema.Config:
  """The config of the run in a workdir.

  Raises:
    UserError: the file is missing, damaged or of another version's schema.
  """
  path = epath.Path(workdir) / FILE
  try:
    text = path.read_text()
  except (OSError, UnicodeDecodeError) as error:
    raise UserError(
      f"{path}, which says what the checkpoints are of, cannot be read"
      f" ({getattr(error, 'strerror', None) or error}); restore that file."
    ) from None
  try:
    return resolve.load(text)
  except UserError as error:
    raise UserError(f"{path} cannot be used: {error}") from None
