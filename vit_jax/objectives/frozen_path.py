"""Paths of the frozen networks that objectives learn from, without jax."""

import contextlib
import re
from collections.abc import Iterator

from etils import epath

from vit_jax import named_weights
from vit_jax.errors import UserError
from vit_jax.weights import path_errors

# In place of a path: a network like the student, with random parameters of a
# seed, by default 0.
RANDOM = re.compile(r"random(?::(\d{1,9}))?", re.ASCII)


def check(key: str, path: str, without: str = "") -> None:
  """Checks that there is something at a path.

  Args:
    key: Key of the config that holds the path.
    path: A checkpoint of any form, or the name of one.
    without: What else the key may be, for the message.

  Raises:
    UserError: There is nothing, or it cannot be reached.
  """
  if not exists(path):
    raise UserError(
      f"{key} = {path!r} does not exist; give a workdir or a file of"
      f" weights{without}."
    )


def exists(path: str) -> bool:
  """Tells whether there is something at a path.

  Raises:
    UserError: It cannot be reached.
  """
  path = named_weights.local(path)
  with path_errors.explained(path):
    return epath.Path(path).exists()


def check_patches(key: str, path: str) -> None:
  """Checks that there is something at a path, if it is not `RANDOM`.

  Raises:
    UserError: As `check`.
  """
  if not RANDOM.fullmatch(path):
    check(key, path, without=", or 'random'")


@contextlib.contextmanager
def told(key: str) -> Iterator[None]:
  """Names the key of the config that holds a path in errors about its file."""
  try:
    yield
  except UserError as error:
    if str(error).startswith(key):
      raise
    raise UserError(f"{key}: {error}") from None
