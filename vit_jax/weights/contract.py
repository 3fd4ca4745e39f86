"""The record that every reader of checkpoint files returns."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from vit_jax.config import schema

Activation = Literal["softmax", "sigmoid", "none"]


@dataclasses.dataclass(frozen=True)
class Weights:
  """The parameters in one file and the architecture they belong to.

  Attributes:
    path: Where the parameters come from, for messages.
    model: Architecture that the file describes; `num_classes` is None if there
      is no head.
    params: Nested dict of NumPy arrays with the names and shapes of our module
      for `model`.
    class_names: Names of the head's outputs; None if the file has none.
    assumed: One sentence per assumption about facts that the file does not
      state, such as the number of heads.
    preprocess: Host ops that prepare images; None if the file has none.
    beside: Parameters of the training objective rather than the network, such
      as the decoder of a masked autoencoder: {name: nested dict}, with the
      objective's own names.
    about_beside: One sentence for each of these on the runs that use it.
    objective: Section `objective` that the network was trained with; None if it
      is unknown or not one of ours.
    trained: The parameters that were trained, with the names of `params` and
      `beside` together, if those are an average or a teacher; {} if those are
      what was trained.
    state: State of the objective other than parameters, such as a centre, with
      the objective's own names.
    activation: Function that turns logits into probabilities; 'none' if the
      outputs are predicted numbers, None if the file does not say.
    heads_assumed: True if the file does not determine the number of heads, so
      that other networks may split its projections into another number.
  """

  path: str
  model: schema.Model
  params: Mapping[str, Any]
  class_names: Sequence[str] | None = None
  assumed: Sequence[str] = ()
  preprocess: str | None = None
  beside: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  about_beside: Sequence[str] = ()
  objective: schema.Objective | None = None
  trained: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  state: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  activation: Activation | None = None
  heads_assumed: bool = False

  @property
  def predicts_numbers(self) -> bool:
    """Returns True if the head predicts numbers, named by `class_names`."""
    return self.activation == "none"
