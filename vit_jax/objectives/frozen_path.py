"""Paths of frozen networks that objectives learn from, without jax."""

import contextlib
import re
from collections.abc import Iterator

from vit_jax.errors import UserError
from vit_jax.weights import files

# Instead of a path: a network like the student, with random parameters from a
# seed, by default 0.
RANDOM = re.compile(r"random(?::(\d{1,9}))?", re.ASCII)


def check(key: str, path: str, without: str = "") -> None:
  """Checks that a path exists.

  Args:
    key: Key of the config that holds the path.
    path: A checkpoint in any format, or the name of one.
    without: Alternatives to the key, for the message.

  Raises:
    UserError: The path does not exist or cannot be accessed.
  """
  if not files.exists(path):
    raise UserError(
      f"{key} = {path!r} does not exist; give a workdir or a file of"
      f" weights{without}."
    )


@contextlib.contextmanager
def told(key: str) -> Iterator[None]:
  """Names the config key that holds a path in errors about its file."""
  try:
    yield
  except UserError as error:
    if str(error).startswith(key):
      raise
    raise UserError(f"{key}: {error}") from None
