"""The experiment file behind `--config=RUN/config.json`."""

import ml_collections
from etils import epath

from vit_jax.config import resolve
from vit_jax.config.defaults import as_config_dict
from vit_jax.errors import UserError


def get_config(path: str) -> ml_collections.ConfigDict:
  """Returns the config written by a run, ready to be overridden.

  Args:
    path: JSON file.

  Raises:
    UserError: The file is missing or does not fit the schema of this version.
  """
  try:
    text = epath.Path(path).read_text()
  except (OSError, UnicodeDecodeError) as error:
    reason = getattr(error, "strerror", None) or error
    raise UserError(
      f"The config file {path} cannot be read: {reason}."
    ) from None
  try:
    return as_config_dict(resolve.load(text.removeprefix("\ufeff")))
  except UserError as error:
    raise UserError(f"{path}: {error}") from None
