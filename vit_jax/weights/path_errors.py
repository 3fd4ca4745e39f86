"""Error messages for paths that cannot be read."""

import contextlib
from collections.abc import Iterator

from vit_jax import buckets
from vit_jax.errors import UserError


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
  """Turns errors about a path, on disk or in a bucket, into a UserError.

  Args:
    path: Path that is looked up or read inside the `with` block.

  Raises:
    UserError: The path cannot be read, or needs a package that is not
      installed.
  """
  buckets.check(path)
  try:
    yield
  except UserError:
    raise
  except FileNotFoundError:
    raise UserError(f"The file {path} does not exist.") from None
  except OSError as error:
    raise UserError(
      f"{path} cannot be read ({error.strerror or error})."
    ) from None
  except Exception as error:
    # Each library behind bucket paths raises its own errors.
    if not buckets.is_bucket(path):
      raise
    lines = str(error).splitlines() or [type(error).__name__]
    raise UserError(
      f"{path} cannot be reached ({lines[0][:200]}). A bucket needs a network"
      " and credentials: run `gcloud auth application-default login`, or copy"
      " the file and give the copy's path."
    ) from None
