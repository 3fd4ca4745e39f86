"""Names after 'datasets:', and the library that reads such datasets.

No library is imported here, so that checking a config is fast.
"""

import dataclasses
import logging
import re

from vit_jax import buckets
from vit_jax.errors import UserError

_NAME = re.compile(
  r"(?P<name>\w[\w.-]*(?:/\w[\w.-]*)?)"
  r"(?:@(?P<revision>\w[\w./-]*))?(?::(?P<config>\w[\w.+-]*))?",
  re.ASCII,
)
_CONFIG_FIRST = re.compile(
  r"(?P<name>\w[\w.-]*(?:/\w[\w.-]*)?)"
  r":(?P<config>\w[\w.+-]*)@(?P<revision>\w[\w./-]*)",
  re.ASCII,
)


@dataclasses.dataclass(frozen=True)
class Name:
  """A dataset on the hub."""

  name: str
  revision: str | None = None
  config: str | None = None


def parse(arguments: str) -> Name | None:
  """Parses the name of a dataset on the hub; None for a directory's path.

  Raises:
    UserError: It is neither of them, or it is in a bucket.
  """
  shown = f"datasets:{arguments}"
  if not arguments:
    raise UserError(
      f"{shown} names no dataset; write one of the hub, as in"
      " 'datasets:ylecun/mnist', or a directory, 'datasets:/data/photos'."
    )
  if buckets.is_bucket(arguments):
    raise UserError(
      f"{shown} is in a bucket, where files cannot be mapped; copy it to a"
      " disk, and name that directory."
    )
  match = _NAME.fullmatch(arguments) or _CONFIG_FIRST.fullmatch(arguments)
  return Name(**match.groupdict()) if match else None


def require_library() -> None:
  """Raises UserError if the package is not installed."""
  # The library logs the frameworks that it finds.
  logging.getLogger("datasets").setLevel(logging.WARNING)
  try:
    import datasets  # noqa: F401
    import pyarrow  # noqa: F401
  except ImportError as error:
    raise UserError(
      f"'datasets:...' needs the package datasets ({error}); install it with:"
      " pip install datasets"
    ) from None
