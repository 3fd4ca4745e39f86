"""The architecture of a run, taken from its initial checkpoint."""

import logging

from etils import epy

from vit_jax.checkpoint import resume
from vit_jax.config import named_sections, schema
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
  part. A resumed run keeps the architecture it started with, so `init_from` may
  no longer exist. The result has `model_from_init` off.

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
  names = (*config.keep_model_keys, "attention", "remat")
  return config.model_copy(
    update={
      "model": _taken_over(config.model, found, set(names)),
      "model_from_init": False,
    }
  )


def merge(config: schema.Config, found: schema.Model) -> schema.Model:
  """Returns `found` with the keys of `config.model` that take precedence."""
  kept = set(config.keep_model_keys).union(function_keys.OF_TRAINING)
  if "variant" in kept:
    kept.update(function_keys.OF_VARIANT)
  return _taken_over(config.model, found, kept)


def _taken_over(
  given: schema.Model, found: schema.Model, kept: set[str]
) -> schema.Model:
  """Returns `found` with the keys `kept` of `given`.

  Raises:
    UserError: A key is set that the family does not have.
  """
  if "name" in kept and given.name != found.name:
    left = found.model_dump(exclude=kept)
    return given.updated(**left)
  keys = given.model_dump(include=kept)
  for name in sorted(keys.keys() - type(found).model_fields):
    value = keys[name]
    usual = (type(given).model_fields[name].default, found.implied.get(name))
    if value not in usual:
      raise UserError(
        f"config.model.{name} = {value!r} is a key of config.model.name ="
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


def _check_names(names: tuple[str, ...], part: str | None = None) -> None:
  sections = named_sections.sections("model").values()
  known = list({name: None for one in sections for name in one.model_fields})
  for name in names:
    if part is not None and name.startswith(f"{part}."):
      raise UserError(
        f"config.model.{name} is that of config.init_from; leave it unset, or"
        " set config.model_from_init=False and describe the whole of"
        f" config.model.{part}."
      )
    if name not in known and not (part and name.partition(".")[0] in known):
      raise UserError(
        f"config.keep_model_keys: {name!r} is not a key of config.model; did"
        f" you mean {did_you_mean(name, known, cutoff=0.0)!r}?"
      )
