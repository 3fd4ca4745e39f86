"""The exceptions that commands turn into a sentence and an exit code."""

from vit_jax import installation

# Here as well as in `__init__.py`, since that may be the other package's.
installation.check()


class UserError(Exception):
  """Something the user can mend; the message says what, where and how.

  Attributes:
    exit_code: of the command that it ends.
  """

  exit_code = 1


class LostError(UserError):
  """Other processes of the run are not there: all are to be started again."""

  exit_code = 134


class DivergedError(UserError):
  """Loss or gradient are not finite: the settings, not the surroundings."""
