"""Exceptions that commands convert to a message and an exit code."""

from vit_jax import installation

# Checked here too, since `__init__.py` may be that of another package.
installation.check()


class UserError(Exception):
  """A problem the user can fix; the message has the key, value and fix.

  Attributes:
    exit_code: Exit code of the command that it ends.
  """

  exit_code = 1


class LostError(UserError):
  """Other processes of the run were lost; all must be started again."""

  exit_code = 134


class DivergedError(UserError):
  """The loss or gradient is not finite, because of the settings."""
