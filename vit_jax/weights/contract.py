"""The record that every reader of checkpoint files returns."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from vit_jax.config import schema


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
    activation: Function that turns logits into probabilities; None if the file
      has none.
  """

  path: str
  model: schema.Model
  params: Mapping[str, Any]
  class_names: Sequence[str] | None = None
  assumed: Sequence[str] = ()
  preprocess: str | None = None
  activation: Literal["softmax", "sigmoid"] | None = None
