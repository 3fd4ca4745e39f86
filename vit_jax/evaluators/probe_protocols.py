"""Published protocols of linear probes as data; does not import jax."""

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Literal

from vit_jax.config import schema
from vit_jax.data import spec
from vit_jax.errors import UserError
from vit_jax.evaluators import entry_checks
from vit_jax.models import build as models_build

# Learning rates refer to this batch size.
_RATED_BATCH = 256
_LOGISTIC = ("l2_sweep", "held_out", "max_iterations")
_TRAINED = (
  "epochs",
  "warmup_epochs",
  "train_batch_size",
  "learning_rates",
  "blocks",
  "average_patches",
)


@dataclasses.dataclass(frozen=True)
class Setting:
  """One classifier.

  Attributes:
    learning_rate: Learning rate for a batch of 256.
    blocks: Number of last layers whose class tokens it receives; 0 for the
      entry's representation.
    average_patches: True if it also receives the mean of the last layer's
      patches.
  """

  learning_rate: float
  blocks: int
  average_patches: bool

  def __str__(self) -> str:
    """Formats like 'rate 0.1, last 4 layers, with patches'."""
    parts = [f"rate {self.learning_rate:g}"]
    if self.blocks:
      parts.append(f"last {self.blocks} layers")
      parts.append(f"with{'' if self.average_patches else 'out'} patches")
    return ", ".join(parts)


@dataclasses.dataclass(frozen=True)
class Protocol:
  """The training of classifiers; fields named like keys hold their values.

  Attributes:
    optimizer: Optimizer; both have a momentum of 0.9 and no weight decay.
    batch_norm: True if features are normalised, without scale and shift.
    rate_per_epoch: True if the rate is constant within an epoch instead of a
      step.
  """

  optimizer: Literal["sgd", "lars"]
  batch_norm: bool
  rate_per_epoch: bool
  epochs: int
  warmup_epochs: int
  train_batch_size: int
  learning_rates: tuple[float, ...]
  blocks: tuple[int, ...]
  average_patches: tuple[bool, ...]

  @property
  def settings(self) -> tuple[Setting, ...]:
    """Returns a setting for each classifier."""
    return tuple(
      Setting(rate, blocks, average)
      for blocks, average, rate in itertools.product(
        self.blocks or (0,), self.average_patches, self.learning_rates
      )
    )

  @property
  def max_blocks(self) -> int:
    """Returns the number of layers used; 0 for the representation."""
    return max(self.blocks, default=0)

  @property
  def has_patches(self) -> bool:
    """Returns True if a classifier sees the mean of the patches."""
    return any(self.average_patches)

  def batch_size(self, num_examples: int) -> int:
    """Returns the number of examples per step."""
    return min(self.train_batch_size, num_examples)

  def rate_factor(self, batch_size: int) -> float:
    """Returns the factor of the learning rates for this batch size."""
    return batch_size / _RATED_BATCH


# facebookresearch/dino, dinov2 and mae: eval_linear.py, dinov2/eval/linear.py
# and main_linprobe.py.
_PUBLISHED = {
  "dino": Protocol(
    optimizer="sgd",
    batch_norm=False,
    rate_per_epoch=True,
    epochs=100,
    warmup_epochs=0,
    train_batch_size=1024,
    learning_rates=(1e-3,),
    blocks=(4,),
    average_patches=(False,),
  ),
  "dinov2": Protocol(
    optimizer="sgd",
    batch_norm=False,
    rate_per_epoch=False,
    epochs=10,
    warmup_epochs=0,
    train_batch_size=1024,
    learning_rates=(
      *(1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4),
      *(1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1),
    ),
    blocks=(1, 4),
    average_patches=(False, True),
  ),
  "mae": Protocol(
    optimizer="lars",
    batch_norm=True,
    rate_per_epoch=False,
    epochs=90,
    warmup_epochs=10,
    train_batch_size=16384,
    learning_rates=(0.1,),
    blocks=(),
    average_patches=(False,),
  ),
}


def of(entry: schema.LinearProbeEval) -> Protocol | None:
  """Returns the protocol of an entry with its keys; None for 'logistic'."""
  if entry.protocol == "logistic":
    return None
  given = {key: getattr(entry, key) for key in _TRAINED}
  given = {key: value for key, value in given.items() if value is not None}
  if given.get("blocks") == ():  # Then there are no patches either.
    given = {"average_patches": (False,)} | given
  return dataclasses.replace(_PUBLISHED[entry.protocol], **given)


def check(
  name: str, entry: schema.LinearProbeEval, config: schema.Config
) -> None:
  """Checks the keys of `config.evals.<name>` that depend on its protocol.

  Raises:
    UserError: A key is wrong; the message names it.
  """
  key = f"config.evals.{name}"
  protocol = of(entry)
  _check_belonging(key, entry)
  if protocol is None:
    entry_checks.check_different(
      f"{key}.l2_sweep", entry.l2_sweep, "(1e-4, 1e-3, 1e-2)"
    )
    return
  entry_checks.check_different(
    f"{key}.learning_rates", protocol.learning_rates, "(1e-3, 1e-2)"
  )
  if protocol.blocks:
    entry_checks.check_different(f"{key}.blocks", protocol.blocks, "(1, 4)")
  entry_checks.check_different(
    f"{key}.average_patches", protocol.average_patches, "(False, True)"
  )
  if protocol.warmup_epochs >= protocol.epochs:
    raise UserError(
      f"{key}.warmup_epochs = {protocol.warmup_epochs} leaves nothing of"
      f" {key}.epochs = {protocol.epochs}; set it to"
      f" {protocol.epochs - 1} or less."
    )
  _check_features(key, entry, protocol, config)
  if entry.augment:
    size = config.model.image_size
    ops = spec.check(entry.augment, size, where=f"{key}.augment")
    for data in entry.datasets.values():
      spec.check_sides(ops, data.dataset)
    if not ops.has_labels:
      raise UserError(
        f'{key}.augment = "{entry.augment}" drops the labels that a probe'
        " learns; keep them."
      )


def _check_belonging(key: str, entry: schema.LinearProbeEval) -> None:
  """Raises UserError for keys that the protocol does not read."""
  is_logistic = entry.protocol == "logistic"
  others = (*_TRAINED, "augment") if is_logistic else _LOGISTIC
  for one in others:
    default = schema.LinearProbeEval.model_fields[one].default
    if getattr(entry, one) != default:
      raise UserError(
        f"{key}.{one} = {getattr(entry, one)!r} is not read by {key}.protocol ="
        f" {entry.protocol!r}; "
        + (
          f"use protocol {_quoted(_PUBLISHED)}, or leave it out."
          if is_logistic
          else "leave it out, or use protocol 'logistic'."
        )
      )


def _check_features(
  key: str,
  entry: schema.LinearProbeEval,
  protocol: Protocol,
  config: schema.Config,
) -> None:
  if not protocol.blocks:
    if protocol.has_patches:
      raise UserError(
        f"{key}.average_patches = {protocol.average_patches} joins the mean of"
        " patches to class tokens, but there are none; set"
        f" {key}.blocks=(1,)."
      )
    return
  default = schema.LinearProbeEval.model_fields["representation"].default
  if entry.representation != default:
    raise UserError(
      f"{key}.representation = {entry.representation!r} is not read where"
      f" {key}.blocks = {protocol.blocks}; set {key}.blocks=() to use it."
    )
  try:
    models_build.check_last_layers(config.model, protocol.max_blocks)
  except UserError as error:
    raise UserError(
      f"{key}.blocks = {protocol.blocks} takes class tokens of last layers:"
      f" {error} With {key}.blocks=() its representation is probed."
    ) from None


def _quoted(names: Iterable[str]) -> str:
  *most, last = (repr(name) for name in names)
  return f"{', '.join(most)} or {last}"
