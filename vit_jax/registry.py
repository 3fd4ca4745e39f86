"""Registries of architectures, objectives, evaluators and trackers by name.

An entry is a frozen record that implements an interface: a `Family`
(`vit_jax.models.family`), an `ObjectiveKind` (`vit_jax.objectives.kind`), an
`EvaluatorKind` (`vit_jax.evaluators.kind`) or a `TrackerKind`
(`vit_jax.rundir.trackers.contract`). Entries are written as "module:ATTRIBUTE"
and imported on first use, so that low-level modules know the names without
importing the modules above them. Code outside the package adds its own entries:

  from vit_jax import registry
  registry.OBJECTIVES.register("rotation", "my_package.rotation:KIND")

A run imports such modules automatically if its config names them in
`config.extensions`, also when it is resumed, evaluated or loaded.
"""

import importlib
from collections.abc import Iterable
from typing import Any

from vit_jax.errors import UserError
from vit_jax.suggestions import did_you_mean


class Registry:
  """Records by name, imported on demand.

  Args:
    key: Config key that names an entry, for error messages.
    entries: "module:ATTRIBUTE" of each record, by name.
  """

  def __init__(self, key: str, entries: dict[str, str]):
    self._key = key
    self._entries: dict[str, Any] = dict(entries)

  def names(self) -> tuple[str, ...]:
    """Names accepted by `get`, in order of registration."""
    return tuple(self._entries)

  def get(self, name: str, key: str | None = None) -> Any:
    """Returns the record with this name.

    Args:
      name: One of `names()`.
      key: Config key that has the name; None for that of the registry.

    Raises:
      UserError: The name is not registered.
    """
    if name not in self._entries:
      raise UserError(self.unknown(name, key))
    entry = self._entries[name]
    if isinstance(entry, str):
      module, _, attribute = entry.partition(":")
      entry = getattr(importlib.import_module(module), attribute)
      self._entries[name] = entry
    return entry

  def unknown(self, name: object, key: str | None = None) -> str:
    """Returns the message about a name that is not registered."""
    near = did_you_mean(str(name), self._entries)
    hint = f" Did you mean {near!r}?" if near else ""
    return (
      f"{key or self._key} = {name!r} is not known.{hint} Known:"
      f" {', '.join(self._entries)}."
    )

  def register(self, name: str, entry: Any) -> None:
    """Adds an entry; registering the same one again changes nothing.

    Args:
      name: Name of the entry in configs.
      entry: The record, or "module:ATTRIBUTE" where it is defined.

    Raises:
      ValueError: Another entry has this name.
    """
    if self._entries.setdefault(name, entry) is not entry:
      if self._entries[name] != entry and self.get(name) != entry:
        raise ValueError(f"{self._key} = {name!r} is registered already.")


FAMILIES = Registry(
  "config.model.name",
  {
    "vit": "vit_jax.models.vit.family:FAMILY",
    "resnet": "vit_jax.models.resnet.family:FAMILY",
    "convnext": "vit_jax.models.convnext.family:FAMILY",
    "swin": "vit_jax.models.swin.family:FAMILY",
    "pvt": "vit_jax.models.pvt.family:FAMILY",
    "two_towers": "vit_jax.models.two_towers.family:FAMILY",
  },
)
OBJECTIVES = Registry(
  "config.objective.name",
  {
    "supervised": "vit_jax.objectives.supervised.kind:KIND",
    "masked_patch": "vit_jax.objectives.masked_patch.kind:KIND",
    "mae": "vit_jax.objectives.mae.kind:KIND",
    "fcmae": "vit_jax.objectives.fcmae.kind:KIND",
    "beit": "vit_jax.objectives.beit.kind:KIND",
    "vqkd": "vit_jax.objectives.vqkd.kind:KIND",
    "dino": "vit_jax.objectives.dino.kind:KIND",
    "dinov2": "vit_jax.objectives.dinov2.kind:KIND",
    "feature_prediction": "vit_jax.objectives.feature_prediction.kind:KIND",
    "contrastive": "vit_jax.objectives.contrastive.kind:KIND",
  },
)
EVALUATORS = Registry(
  "config.evals.NAME.type",
  {
    "classification": "vit_jax.evaluators.kinds.classification:KIND",
    "regression": "vit_jax.evaluators.kinds.regression:KIND",
    "fewshot": "vit_jax.evaluators.kinds.fewshot:KIND",
    "knn": "vit_jax.evaluators.kinds.knn:KIND",
    "linear_probe": "vit_jax.evaluators.kinds.linear_probe:KIND",
    "linear_segmentation": "vit_jax.evaluators.kinds.linear_segmentation:KIND",
    "reconstruction": "vit_jax.evaluators.kinds.reconstruction:KIND",
    "zeroshot": "vit_jax.evaluators.kinds.zeroshot:KIND",
    "retrieval": "vit_jax.evaluators.kinds.retrieval:KIND",
  },
)
TRACKERS = Registry(
  "config.log.to",
  {
    "wandb": "vit_jax.rundir.trackers.wandb:KIND",
    "mlflow": "vit_jax.rundir.trackers.mlflow:KIND",
    "trackio": "vit_jax.rundir.trackers.trackio:KIND",
  },
)


def import_extensions(modules: Iterable[str]) -> None:
  """Imports the modules of `config.extensions`, which register their entries.

  Raises:
    UserError: A module is not found, or its import fails.
  """
  for module in modules:
    try:
      importlib.import_module(module)
    except Exception as error:
      raise UserError(
        f"config.extensions: {module!r} cannot be imported"
        f" ({type(error).__name__}: {error}); install it, or add its directory"
        " to PYTHONPATH."
      ) from error
