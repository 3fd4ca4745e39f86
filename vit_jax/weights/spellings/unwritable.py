"""The error that a file format cannot hold a network."""

from collections.abc import Iterable

from vit_jax.errors import UserError


class Unwritable(UserError):
  """A format cannot hold the network; another one may.

  Attributes:
    reason: Sentence about what cannot be held, without its full stop.
  """

  def __init__(
    self,
    reason: str,
    advice: str = "A NAME.npz or a workdir can hold this network.",
  ) -> None:
    super().__init__(f"{reason}. {advice}")
    self.reason = reason


def check_names(names: Iterable[str], form: str) -> None:
  """Checks that all parameters have names in a PyTorch format.

  Args:
    names: Names of the tensors as they would be written; only ours have
      slashes.
    form: The format, as the subject of a sentence.

  Raises:
    Unwritable: A parameter has no name there.
  """
  for name in names:
    if "/" in name:
      raise Unwritable(f"{form} has no tensor for the parameter '{name}'")
