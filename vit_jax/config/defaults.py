"""The schema's defaults as a ConfigDict that experiment files build on."""

from typing import Any

import ml_collections
import pydantic
from ml_collections import config_dict

from vit_jax.config import schema


def default_config() -> ml_collections.ConfigDict:
  """Every key at its default, ready to be changed and overridden.

  Numbers, optional and tuple keys are stored untyped, so that an override may
  be any literal (`--config.schedule.warmup_steps='5 epochs'`); whether it fits
  is for `resolve` to say.
  """
  return _as_config_dict(schema.Config)


def default_eval(**values: Any) -> ml_collections.ConfigDict:
  """An entry of `config.evals`: the defaults of its type, then `values`."""
  models = {
    "classification": schema.ClassificationEval,
    "fewshot": schema.FewshotEval,
  }
  entry = _as_config_dict(models[values["type"]])
  for name, value in values.items():
    entry[name] = value
  return entry


def default_fewshot_dataset(**values: Any) -> ml_collections.ConfigDict:
  """An entry of a few-shot evaluator's `datasets`."""
  entry = _as_config_dict(schema.FewshotDataset)
  for name, value in values.items():
    entry[name] = value
  return entry


def _as_config_dict(
  model: type[pydantic.BaseModel],
) -> ml_collections.ConfigDict:
  entries = {}
  for name, field in model.model_fields.items():
    default = field.default
    if isinstance(default, schema.Section):
      entries[name] = _as_config_dict(type(default))
    elif isinstance(default, dict):
      entries[name] = ml_collections.ConfigDict()
    elif isinstance(default, str) and field.annotation is str:
      entries[name] = default
    elif field.is_required():
      entries[name] = config_dict.placeholder(object)
    else:
      entries[name] = config_dict.FieldReference(default, field_type=object)
  return ml_collections.ConfigDict(entries)
