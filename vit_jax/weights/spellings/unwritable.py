"""The error that a form of file cannot hold a network."""

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
