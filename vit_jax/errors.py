"""The one exception that commands turn into a sentence and exit code 1."""

from vit_jax import installation

# Here as well as in `__init__.py`, since that may be the other package's.
installation.check()


class UserError(Exception):
  """Something the user can mend; the message says what, where and how."""


class DivergedError(UserError):
  """Loss or gradient are not finite: the settings, not the surroundings."""
