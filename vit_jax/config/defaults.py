"""The schema's defaults as a ConfigDict that experiment files build on."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import ml_collections
from ml_collections import config_dict

from vit_jax import registry
from vit_jax.config import named_sections, schema


@dataclasses.dataclass(frozen=True)
class IfInitFrom:
  """A key's default that depends on `config.init_from` being set.

  `resolve` chooses; an override of the key itself replaces both values. The
  command line sets `init_from` after the experiment file has run, so the file
  cannot choose; a second experiment file would ask users for one more argument,
  and the lazy references of ml_collections support only arithmetic.

  Attributes:
    then: Value if `init_from` is set.
    otherwise: Value if it is not.
  """

  then: Any
  otherwise: Any


class _Unset:
  """Marks a key whose default depends on the name of its section."""

  def __repr__(self) -> str:
    return "(by name)"


UNSET = _Unset()


def default_config(*extensions: str) -> ml_collections.ConfigDict:
  """Returns every key at its default, ready to be changed and overridden.

  Keys are stored untyped, so that an override may be any literal
  (`--config.schedule.warmup_steps='5 epochs'`) or a word; `resolve` checks
  them. `model` and `objective` have the keys of every registered family and
  objective; `resolve` keeps those of the one that is named.

  Args:
    *extensions: Modules that register families, objectives or evaluators;
      they are imported here, and by every run from `config.extensions`.

  Raises:
    UserError: An extension cannot be imported.
  """
  registry.import_extensions(extensions)
  return as_config_dict(schema.Config(extensions=extensions))


def default_eval(**values: Any) -> ml_collections.ConfigDict:
  """Returns an entry of `config.evals`: its type's defaults, then `values`."""
  return _filled(registry.EVALUATORS.get(values["type"]).section, values)


def default_fewshot_dataset(**values: Any) -> ml_collections.ConfigDict:
  """Returns an entry of `datasets` of an evaluator on frozen features."""
  return _filled(schema.FewshotDataset, values)


def default_segmentation_dataset(**values: Any) -> ml_collections.ConfigDict:
  """Returns an entry of `datasets` of a linear segmentation."""
  return _filled(schema.SegmentationDataset, values)


def default_zeroshot_dataset(**values: Any) -> ml_collections.ConfigDict:
  """Returns an entry of `datasets` of a zero-shot evaluator."""
  return _filled(schema.ZeroShotDataset, values)


def default_retrieval_dataset(**values: Any) -> ml_collections.ConfigDict:
  """Returns an entry of `datasets` of a retrieval evaluator."""
  return _filled(schema.RetrievalDataset, values)


def default_view(**values: Any) -> ml_collections.ConfigDict:
  """Returns an entry of `config.train.views`: the defaults, then `values`."""
  return _filled(schema.View, values)


def as_config_dict(
  section: schema.Section | type[schema.Section],
) -> ml_collections.ConfigDict:
  """Makes a section, or the defaults of a section class, overridable again."""
  is_class = isinstance(section, type)
  entries = {}
  for name, field in (
    section if is_class else type(section)
  ).model_fields.items():
    value = field.default if is_class else getattr(section, name)
    if isinstance(section, schema.Config) and name in ("model", "objective"):
      entries[name] = _of_any_name(name, value)
    elif isinstance(value, schema.Section):
      entries[name] = as_config_dict(value)
    elif isinstance(value, dict):
      entries[name] = ml_collections.ConfigDict(
        {key: as_config_dict(item) for key, item in value.items()}
      )
    elif is_class and field.is_required():
      entries[name] = config_dict.placeholder(object)
    else:
      entries[name] = config_dict.FieldReference(value, field_type=object)
  return ml_collections.ConfigDict(entries)


def _filled(
  section: type[schema.Section], values: Mapping[str, Any]
) -> ml_collections.ConfigDict:
  entry = as_config_dict(section)
  for name, value in values.items():
    entry[name] = value
  return entry


def _of_any_name(
  group: str, chosen: schema.Section, *, in_model: bool = False
) -> ml_collections.ConfigDict:
  """`chosen` with the keys that `config.<group>` has under other names.

  Args:
    group: 'model' or 'objective'.
    chosen: The section.
    in_model: True if it is a part of another model, whose name it cannot have.
  """
  _, tag, _ = named_sections.NAMED[group]
  entries: dict[str, Any] = {}
  for section in named_sections.sections(group).values():
    fields = section.model_fields
    if in_model and any(
      isinstance(field.default, schema.Section) for field in fields.values()
    ):
      continue
    for name, field in fields.items():
      agrees = name not in entries or entries[name] == field.default
      entries[name] = field.default if agrees else UNSET
  for name, field in type(chosen).model_fields.items():
    value = getattr(chosen, name)
    if name == tag or value != field.default:
      entries[name] = value
  return ml_collections.ConfigDict(
    {name: _overridable(value) for name, value in entries.items()}
  )


def _overridable(value: Any) -> Any:
  """Converts a key's value to the form that a ConfigDict holds."""
  if isinstance(value, schema.Model):  # A part that is of any family too.
    return _of_any_name("model", value, in_model=True)
  if isinstance(value, schema.Section):
    return as_config_dict(value)
  return config_dict.FieldReference(value, field_type=object)
