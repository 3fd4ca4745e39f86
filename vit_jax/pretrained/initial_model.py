"""The architecture of a run, taken from its initial checkpoint."""

import logging
from collections.abc import Collection
from typing import Any

from etils import epy

from vit_jax import registry
from vit_jax.checkpoint import resume
from vit_jax.config import named_sections, schema
from vit_jax.data.features import TEXT
from vit_jax.errors import UserError
from vit_jax.models import attention_key
from vit_jax.pretrained import function_keys, run_files
from vit_jax.suggestions import did_you_mean

with epy.lazy_imports():  # A config without init_from must not wait for jax.
  from vit_jax.pretrained import parts, reading

_logger = logging.getLogger(__name__)


def resolve_architecture(
  config: schema.Config, workdir: str | None = None
) -> schema.Config:
  """Resolves the architecture of a config.

  With `model_from_init` it is that of `init_from` or, with `init_part`, of that
  part; an objective without texts takes the image tower of a checkpoint with
  two towers, unless `config.model` has two as well. A resumed run keeps the
  architecture it started with, so `init_from` may no longer exist. The result
  has `model_from_init` off.

  Args:
    config: Resolved config.
    workdir: Directory of the run, with or without checkpoints, or None.

  Raises:
    UserError: `init_from` or the config in `workdir` cannot be read, or
      `keep_model_keys` has an unknown key.
  """
  if not (config.model_from_init and config.init_from):
    return config
  _check_names(config.keep_model_keys, config.init_part)
  found = _begun_with(workdir) if workdir else None
  if found is None:
    run = reading.run_config(config.init_from)
    found = reading.read(config.init_from).model if run is None else run.model
    _logger.info("The architecture is that of %s.", config.init_from)
    if config.init_part is not None:
      found = parts.section(config.model, config.init_part, found)
    elif TEXT not in registry.OBJECTIVES.get(config.objective.name).needs:
      found = parts.image_section(found, config.model)
  return config.model_copy(
    update={"model": merge(config, found), "model_from_init": False}
  )


def keep_attention(config: schema.Config, workdir: str | None) -> schema.Config:
  """Resolves `attention='auto'` to the choice of the run in `workdir`.

  It stays 'auto' if there is no checkpoint to resume from, or if `allow_change`
  names the key.

  Args:
    config: Resolved config.
    workdir: Directory of the run, or None.
  """
  if workdir is None or attention_key.value(config.model) != "auto":
    return config
  key = attention_key.name(config.model)
  if resume.is_allowed(key, config.allow_change):
    return config
  try:
    begun = _begun_with(workdir)
  except UserError:
    return config  # Resuming reports that the run is a different one.
  attention = begun and attention_key.value(begun)
  return attention_key.changed(config, attention) if attention else config


def of_checkpoint(config: schema.Config, found: schema.Model) -> schema.Config:
  """Resolves the architecture of a config that evaluates a checkpoint.

  With `model_from_init` it is the checkpoint's, head included, except for
  `keep_model_keys` and the keys that depend on the machine.

  Args:
    config: Resolved config.
    found: Section `model` of the checkpoint.

  Raises:
    UserError: `keep_model_keys` has an unknown key.
  """
  if not config.model_from_init:
    return config
  _check_names(config.keep_model_keys)
  if TEXT not in registry.OBJECTIVES.get(config.objective.name).needs:
    found = parts.image_section(found, config.model)
  names = (*config.keep_model_keys, "attention", "depthwise", "remat")
  return config.model_copy(
    update={
      "model": _taken_over(config.model, found, set(names)),
      "model_from_init": False,
    }
  )


def merge(config: schema.Config, found: schema.Model) -> schema.Model:
  """Returns `found` with the keys of `config.model` that take precedence."""
  kept = set(config.keep_model_keys).union(function_keys.OF_TRAINING)
  for name in config.keep_model_keys:
    section, dot, leaf = name.rpartition(".")
    if leaf == "variant":
      kept.update(f"{section}{dot}{key}" for key in function_keys.OF_VARIANT)
  return _taken_over(config.model, found, kept)


def _taken_over(
  given: schema.Model,
  found: schema.Model,
  kept: set[str],
  group: str = "config.model",
) -> schema.Model:
  """Returns `found` with the keys `kept` of `given`.

  Args:
    given: Section `model` of the config, or of a tower in it.
    found: The same section of the checkpoint.
    kept: Keys such as 'pool' and, for those of a tower, 'image.pool'.
    group: Name of the section in messages.

  Raises:
    UserError: A key is set that the family does not have.
  """
  taken = _with_own(given, found, kept, group)
  towers: dict[str, set[str]] = {}
  for tower, dot, name in (key.partition(".") for key in kept):
    if dot and hasattr(given, tower):
      towers.setdefault(tower, set()).add(name)
  for tower, names in towers.items():
    here, there = getattr(given, tower), getattr(taken, tower, None)
    if there is None:
      raise UserError(
        f"{group}.{tower}.{min(names)} is a key of {group}.name ="
        f" {given.name!r}, but config.init_from is a {found.name!r}; leave it"
        " unset."
      )
    if isinstance(here, schema.Model):
      there = _taken_over(here, there, names, f"{group}.{tower}")
    else:
      there = there.model_copy(update=_values(here, names))
    taken = taken.model_copy(update={tower: there})
  return taken


def _values(section: schema.Section, names: Collection[str]) -> dict[str, Any]:
  """Returns the values of those keys that a section has."""
  fields = type(section).model_fields
  return {name: getattr(section, name) for name in fields if name in names}


def _with_own(
  given: schema.Model, found: schema.Model, kept: set[str], group: str
) -> schema.Model:
  """Returns `found` with the keys `kept` of `given` that are not a tower's."""
  if "name" in kept and given.name != found.name:
    left = set(type(found).model_fields) - kept
    return given.updated(**_values(found, left))
  keys = _values(given, kept)
  for name in sorted(keys.keys() - type(found).model_fields):
    value = keys[name]
    usual = (type(given).model_fields[name].default, found.implied.get(name))
    if value not in usual:
      raise UserError(
        f"{group}.{name} = {value!r} is a key of {group}.name ="
        f" {given.name!r}, but config.init_from is a {found.name!r}; leave it"
        " unset."
      )
  return found.updated(**keys)


def _begun_with(workdir: str) -> schema.Model | None:
  """Returns the model of the run in `workdir`, if it has a checkpoint."""
  try:
    directory, _ = reading.locate(workdir)
  except UserError:
    return None
  return run_files.read_config(directory).model


def _known() -> list[str]:
  """Returns the keys of all families, and those of towers as 'text.length'."""
  sections = named_sections.sections("model").values()
  own = [name for section in sections for name in section.model_fields]
  towers = {
    f"{tower}.{name}"
    for section in sections
    for tower, field in section.model_fields.items()
    if isinstance(field.default, schema.Section)
    for name in (
      own
      if isinstance(field.default, schema.Model)
      else type(field.default).model_fields
    )
  }
  return [*dict.fromkeys(own), *sorted(towers)]


def _check_names(names: tuple[str, ...], part: str | None = None) -> None:
  known = _known()
  for name in names:
    if part is not None and name.startswith(f"{part}."):
      raise UserError(
        f"config.model.{name} is that of config.init_from; leave it unset, or"
        " set config.model_from_init=False and describe the whole of"
        f" config.model.{part}."
      )
    if name not in known:
      raise UserError(
        f"config.keep_model_keys: {name!r} is not a key of config.model; did"
        f" you mean {did_you_mean(name, known, cutoff=0.0)!r}?"
      )
