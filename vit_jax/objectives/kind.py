"""The declaration of an objective: all that is known of it without jax."""

import dataclasses
from collections.abc import Callable

from vit_jax.config import schema


@dataclasses.dataclass(frozen=True)
class ObjectiveKind:
  """One kind of objective, as `registry.OBJECTIVES` holds it.

  Attributes:
    section: Class of `config.objective` under this name.
    check: Raises UserError for a config that it cannot train.
  """

  section: type[schema.Objective]
  check: Callable[[schema.Config], None]
