"""The parameters that a run starts with, from `config.init_from`."""

import dataclasses
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import PyTree

from vit_jax import registry, truncate
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.pretrained import fitting, reading, text_tokenizer
from vit_jax.weights import class_names, flat, surgery
from vit_jax.weights.contract import Weights

_HEAD = "head/kernel"
_TOKENS = "text/token_embedding/embedding"
_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Start:
  """Parameters that a checkpoint provides for a run.

  Attributes:
    exported: Parameters that the checkpoint exports, such as a teacher's.
    trained: Parameters that were trained, if the run continues with the same
      objective and they differ; None for `exported`.
    state: The part of the objective's state that is carried over, if the run
      continues with the same objective and all of its parameters: {name:
      array}; empty unless all of it fits.
  """

  exported: surgery.Fitted
  trained: surgery.Fitted | None = None
  state: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)


def find(
  config: schema.Config,
  wanted: PyTree,
  objective_state: Any = None,
  names: Sequence[str] | None = None,
) -> Start | None:
  """Reads and fits `init_from`; None if it is not set.

  All processes of a run must call it. Logs a warning if the head is kept for
  classes with other names, or the text tower for another tokenizer with fewer
  tokens.

  Args:
    config: The experiment.
    wanted: ShapeDtypeStructs of all its parameters.
    objective_state: ShapeDtypeStructs of the objective's state; None if none of
      it is carried over.
    names: Names of the classes or numbers of the data; None if unknown.

  Raises:
    UserError: The checkpoint cannot be read or does not fit, or its head is
      kept for numbers with other names.
  """
  if config.init_from is None:
    return None
  weights, _ = reading.read_with_step(config.init_from, agreed=True)

  def fit(weights: Weights) -> surgery.Fitted:
    return fitting.fit(
      wanted,
      weights,
      config.model,
      config.init_without,
      config.allow_change,
      config.init_classes,
      config.init_part,
    )

  exported = fit(weights)
  kept = flat.flatten(exported.params)
  if config.init_classes is None and _HEAD in kept:
    _check_names(config, weights, names)
  if config.train.tokenizer is not None and _TOKENS in kept:
    text = config.model.text
    text_tokenizer.warn_of_another(
      config.train.tokenizer,
      config.init_from,
      length=text.length,
      num_tokens=text.vocab_size,
    )
  found = weights.objective
  if found is None or found.name != config.objective.name:
    return Start(exported)
  trained = None
  if weights.trained:
    student = {
      field: {name: weights.trained[name] for name in getattr(weights, field)}
      for field in ("params", "beside")
    }
    trained = fit(dataclasses.replace(weights, **student))
  state: dict[str, np.ndarray] = {}
  kind = registry.OBJECTIVES.get(found.name)
  if objective_state:
    beside = set(kind.whole(wanted, objective_state)) - set(
      kind.exported(wanted, objective_state)
    )
    if beside == set(weights.beside) and not _is_new(beside, exported.fresh):
      # All or nothing, as one may say what another holds.
      carried = kind.carried(objective_state)
      if all(
        np.shape(weights.state.get(name)) == leaf.shape
        for name, leaf in carried.items()
      ):
        state = {name: weights.state[name] for name in carried}
  return Start(exported, trained, state)


def _check_names(
  config: schema.Config, weights: Weights, names: Sequence[str] | None
) -> None:
  """Compares what a head was trained to predict with the data."""
  path, found = config.init_from, weights.class_names
  if names is None or found is None:
    return
  anew = "set config.init_without=('head/.*',) to start with a new head"
  if weights.predicts_numbers and config.objective.predicts_numbers:
    if tuple(names) != tuple(found):
      raise UserError(
        f"config.init_from = {path!r} predicts the numbers"
        f" {truncate.first(found)}, and the data have {truncate.first(names)};"
        f" name the same columns in the same order, or {anew}."
      )
  elif other := class_names.difference(names, found):
    _logger.warning(
      "config.init_from = %r %s, and its head is kept. Unless the classes are"
      " numbered alike, %s.",
      path,
      other,
      anew,
    )


def _is_new(beside: Collection[str], fresh: Collection[str]) -> bool:
  """Tells whether any of the objective's parameters are initialised anew."""
  return any(path.partition("/")[0] in beside for path in fresh)
