"""The schema's defaults as a ConfigDict that experiment files build on."""

import dataclasses
from typing import Any

import ml_collections
import pydantic
from ml_collections import config_dict

from vit_jax.config import schema


@dataclasses.dataclass(frozen=True)
class IfInitFrom:
  """A key's value that hangs on whether `config.init_from` is set.

  An experiment file cannot know that, as it may be set on the command line;
  `resolve` decides. An override of the key itself takes its place.
  """

  then: Any
  otherwise: Any


def default_config() -> ml_collections.ConfigDict:
  """Every key at its default, ready to be changed and overridden.

  Keys are stored untyped, so that an override may be any literal
  (`--config.schedule.warmup_steps='5 epochs'`) or a word; whether it fits, is
  for `resolve` to say.
  """
  return _as_config_dict(schema.Config)


def default_eval(**values: Any) -> ml_collections.ConfigDict:
  """An entry of `config.evals`: the defaults of its type, then `values`."""
  entry = _as_config_dict(schema.EVALS[values["type"]])
  for name, value in values.items():
    entry[name] = value
  return entry


def default_fewshot_dataset(**values: Any) -> ml_collections.ConfigDict:
  """An entry of `datasets` of an evaluator on frozen features."""
  entry = _as_config_dict(schema.FewshotDataset)
  for name, value in values.items():
    entry[name] = value
  return entry


def as_config_dict(config: schema.Section) -> ml_collections.ConfigDict:
  """A resolved config, or a section of one, made overridable again."""
  return _as_config_dict(type(config), config)


def _as_config_dict(
  model: type[pydantic.BaseModel], values: schema.Section | None = None
) -> ml_collections.ConfigDict:
  entries = {}
  for name, field in model.model_fields.items():
    value = field.default if values is None else getattr(values, name)
    if isinstance(value, schema.Section):
      entries[name] = as_config_dict(value)
    elif isinstance(value, dict):
      entries[name] = ml_collections.ConfigDict(
        {key: as_config_dict(item) for key, item in value.items()}
      )
    elif values is None and field.is_required():
      entries[name] = config_dict.placeholder(object)
    else:
      entries[name] = config_dict.FieldReference(value, field_type=object)
  return ml_collections.ConfigDict(entries)
