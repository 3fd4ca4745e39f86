"""The one exception that commands turn into a sentence and exit code 1."""


class UserError(Exception):
  """Something the user can mend; the message says what, where and how."""
