"""An example in a file of its own."""

import dataclasses
import os

from vit_jax.data.building.contract import Example, UnusableImage


@dataclasses.dataclass(frozen=True)
class ImageFile:
  """A file; see `contract.Place`.

  Attributes:
    path: of the file.
    root: real path of the directory that it must not lead out of.
    name: as in `contract.Example`.
    labels: as in `contract.Example`.
  """

  path: str
  root: str
  name: str
  labels: tuple[int, ...]

  def read(self) -> Example:
    """See `contract.Place.read`."""
    try:
      real = os.path.realpath(self.path)
      if not is_inside(real, self.root):
        reason = f"leads to {real}, outside of {self.root}"
        raise UnusableImage(self.name, reason)
      # Reading from a pipe or a device would never end.
      if os.path.exists(real) and not os.path.isfile(real):
        raise UnusableImage(self.name, "is no file")
      with open(real, "rb", buffering=0) as file:
        return Example(self.name, file.read(), self.labels)
    except (OSError, ValueError) as error:  # Zero bytes, half characters.
      reason = getattr(error, "strerror", None) or str(error)
      raise UnusableImage(self.name, reason) from None


def is_inside(real: str, root: str) -> bool:
  """Whether a real path lies in the directory of that real path."""
  return os.path.commonpath([real, root]) == root
