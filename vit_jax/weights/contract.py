"""What every reader of checkpoint files returns, and every writer takes."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from vit_jax.config import schema


@dataclasses.dataclass(frozen=True)
class Weights:
  """The parameters of one file and the architecture that they are of.

  Attributes:
    path: where they are from, for messages.
    model: the architecture as the file says it; `num_classes` is None where
      there is no head.
    params: nested dict of NumPy arrays, with the names and shapes of our
      module for `model`.
    class_names: of the head's outputs, if the file has them.
    assumed: a sentence for each thing that the file does not say and that was
      taken to be so, such as the size of the heads.
    preprocess: host ops that prepare images for it, if the file says so.
    activation: what makes probabilities of its logits, if the file says so.
  """

  path: str
  model: schema.Model
  params: Mapping[str, Any]
  class_names: Sequence[str] | None = None
  assumed: Sequence[str] = ()
  preprocess: str | None = None
  activation: Literal["softmax", "sigmoid"] | None = None
