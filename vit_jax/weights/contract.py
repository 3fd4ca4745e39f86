"""The record that every reader of checkpoint files returns."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from vit_jax.config import schema

Activation = Literal["softmax", "sigmoid", "none"]


@dataclasses.dataclass(frozen=True)
class Weights:
  """The parameters of one file and the architecture that they belong to.

  Attributes:
    path: Origin of the parameters, for messages.
    model: Architecture that the file tells; `num_classes` is None where there
      is no head.
    params: Nested dict of NumPy arrays, with the names and shapes of our module
      for `model`.
    class_names: Names of the head's outputs; None if the file has none.
    assumed: A sentence for each assumption about facts that the file does not
      tell, such as the number of heads.
    preprocess: Host ops that prepare images; None if the file has none.
    beside: Parameters that are not the network's but belong to what it learnt
      by, such as the decoder of a masked autoencoder: {name: nested dict}, by
      the names that the objective gives them.
    objective: Section `objective` of what the network learnt by; None: it is
      not known, or not one of ours.
    trained: Parameters of the same names as `params` and `beside` together,
      where those are an average or a teacher of what was trained; {}: they are
      what was trained.
    state: What the objective kept beside parameters, such as a centre, by the
      names that it gives them.
    activation: Function that turns logits into probabilities; 'none' if they
      are numbers that are predicted, None if the file does not say.
  """

  path: str
  model: schema.Model
  params: Mapping[str, Any]
  class_names: Sequence[str] | None = None
  assumed: Sequence[str] = ()
  preprocess: str | None = None
  beside: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  objective: schema.Objective | None = None
  trained: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  state: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  activation: Activation | None = None

  @property
  def predicts_numbers(self) -> bool:
    """True if the head predicts numbers, named by `class_names`."""
    return self.activation == "none"
