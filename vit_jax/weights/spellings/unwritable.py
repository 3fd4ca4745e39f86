"""The error that a form of file cannot hold a network."""

from collections.abc import Iterable

from vit_jax.errors import UserError


class Unwritable(UserError):
  """A form cannot hold the network; another one may.

  Attributes:
    reason: What cannot be held, a sentence without its full stop.
  """

  def __init__(
    self,
    reason: str,
    advice: str = "A NAME.npz or a workdir can hold this network.",
  ) -> None:
    super().__init__(f"{reason}. {advice}")
    self.reason = reason


def check_names(names: Iterable[str], form: str) -> None:
  """Checks that all parameters have names in a form of PyTorch's.

  Args:
    names: Of the tensors as they would be written; ours alone have slashes.
    form: The form, as the subject of a sentence.

  Raises:
    Unwritable: One has no name there.
  """
  for name in names:
    if "/" in name:
      raise Unwritable(f"{form} has no tensor for the parameter '{name}'")
