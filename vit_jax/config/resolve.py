"""Conversion of a ConfigDict to frozen, checked models; done only here."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

import ml_collections
import pydantic

from vit_jax import registry
from vit_jax.config import conflicts, key_suggestions, named_sections, schema
from vit_jax.config.defaults import UNSET, IfInitFrom
from vit_jax.errors import UserError

# Where pydantic's paths to values hold the name that selects a section.
_TAGS = {"model": 1, "objective": 1, "evals": 2}
_WANTED = {
  "int_type": "a whole number",
  "int_from_float": "a whole number",
  "float_type": "a number",
  "string_type": "text",
  "bool_type": "true or false",
  "tuple_type": "a tuple, such as ('a', 'b') or (1, 2)",
  "dict_type": "a group of keys",
  "model_type": "a group of keys",
  "model_attributes_type": "a group of keys",
}


def resolve(
  config: ml_collections.ConfigDict | Mapping[str, Any],
) -> schema.Config:
  """Checks every key, and every rule between keys that needs no data.

  Args:
    config: Config of an experiment file, with overrides applied.

  Raises:
    UserError: One line for each problem: the key, its value and the remedy.
  """
  if isinstance(config, ml_collections.ConfigDict):
    config = config.to_dict()
  config = _decided(config, config.get("init_from") is not None)
  _import_extensions(config)
  resolved = _validated(_with_own_keys(config))
  problems = [*_empty("config", resolved), *conflicts.find(resolved)]
  if problems:
    raise UserError("\n".join(problems))
  return resolved


def load(text: str) -> schema.Config:
  """Reads a resolved config back from the JSON of `dump`.

  Raises:
    UserError: The file does not fit this version's schema.
  """
  try:
    config = json.loads(text)
  except ValueError:
    config = None  # pydantic reports where the JSON is wrong.
  if not isinstance(config, Mapping):
    return _validated(text)
  _import_extensions(config)
  config = _with_own_keys(config)
  for group in ("model", "objective"):
    # A run of an older version may have set keys that had no effect.
    if isinstance(config.get(group), Mapping):
      config[group] = {
        key: value
        for key, value in config[group].items()
        if not _owners(group, config[group], key)
      }
  return _validated(json.dumps(config))


def dump(config: schema.Config) -> str:
  """Returns the config as indented JSON, which `load` reads back."""
  return config.model_dump_json(indent=2)


def _validated(config: Mapping[str, Any] | str) -> schema.Config:
  """The checked config, from a mapping of Python values or from JSON."""
  section = named_sections.validated_class()
  try:
    if isinstance(config, str):
      valid = section.model_validate_json(config)
    else:
      valid = section.model_validate(config)
  except pydantic.ValidationError as error:
    raise UserError("\n".join(_sentences(error))) from None
  return schema.Config.model_construct(
    valid.model_fields_set,
    **{name: getattr(valid, name) for name in schema.Config.model_fields},
  )


def _import_extensions(config: Mapping[str, Any]) -> None:
  """Imports the modules of `extensions`, before its sections are looked up.

  Raises:
    UserError: It is not a tuple of names, or one cannot be imported.
  """
  modules = config.get("extensions") or ()
  if isinstance(modules, str) or not (
    isinstance(modules, Sequence)
    and all(isinstance(module, str) for module in modules)
  ):
    raise UserError(
      f"config.extensions = {modules!r} must be a tuple of modules, such as"
      " ('my_package.my_objective',)."
    )
  registry.import_extensions(modules)


def _with_own_keys(config: Mapping[str, Any]) -> dict[str, Any]:
  """Returns `config` without unset keys that belong to other sections."""
  config = dict(config)
  for group in ("model", "objective"):
    if isinstance(config.get(group), Mapping):
      keys = _without_unset(config[group])
      config[group] = named_sections.own_keys(group, keys)
  if isinstance(config.get("evals"), Mapping):
    config["evals"] = {
      name: named_sections.own_keys("evals", entry)
      if isinstance(entry, Mapping) and isinstance(entry.get("type"), str)
      else entry
      for name, entry in config["evals"].items()
    }
  return config


def _without_unset(keys: Mapping[str, Any]) -> dict[str, Any]:
  """Returns `keys`, and those of parts, without unset ones."""
  return {
    name: _without_unset(value) if isinstance(value, Mapping) else value
    for name, value in keys.items()
    if value is not UNSET
  }


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
  """{'model': {'pool': 'cls'}} -> {'model.pool': 'cls'}."""
  flat = {}
  for name, value in config.items():
    if isinstance(value, Mapping) and value:
      flat.update(flatten(value, f"{prefix}{name}."))
    else:
      flat[f"{prefix}{name}"] = value
  return flat


def _decided(value: Any, is_init: bool) -> Any:
  """Returns `value` with the defaults that depend on `init_from` resolved."""
  if isinstance(value, Mapping):
    return {name: _decided(item, is_init) for name, item in value.items()}
  if isinstance(value, IfInitFrom):
    return value.then if is_init else value.otherwise
  return value


def _sentences(error: pydantic.ValidationError) -> Iterator[str]:
  """Yields a sentence for each problem, in the order of the keys."""
  seen = set()
  for item in error.errors():
    loc = _location(item["loc"])
    name = ".".join(("config", *loc))
    if name in seen:  # The other arm of a union reports the same key again.
      continue
    seen.add(name)
    value, kind = item["input"], item["type"]
    if kind == "json_invalid":
      yield f"The config is not complete JSON: {item['ctx']['error']}."
    elif kind == "extra_forbidden":
      yield _foreign_key(item["loc"], value) or key_suggestions.unknown(
        name, value, _known_keys(item["loc"][:-1])
      )
    elif kind == "union_tag_not_found" and not isinstance(value, Mapping):
      yield f"{name} = {value!r} must be {_WANTED['dict_type']}."
    elif (
      kind == "union_tag_not_found" and named_sections.NAMED[loc[0]][1] in value
    ):
      known, tag, _ = named_sections.NAMED[loc[0]]
      yield known.unknown(value[tag], f"{name}.{tag}")
    elif kind == "missing" and isinstance(value, Sequence):
      group = ".".join(("config", *loc[:-1]))
      if group not in seen:
        # Each absent value is an error of its own.
        absent = [other["loc"][:-1] for other in error.errors()]
        wanted = len(value) + absent.count(item["loc"][:-1])
        yield f"{group} = {value!r} must have {wanted} values."
      seen.add(group)
    elif kind == "union_tag_not_found" or kind == "missing":
      yield f'{name} needs a "type": {_eval_types()}.'
    elif kind == "union_tag_invalid":
      known, tag, _ = named_sections.NAMED[item["loc"][0]]
      yield known.unknown(item["ctx"]["tag"], f"{name}.{tag}")
    elif kind == "value_error" and isinstance(
      item["ctx"]["error"], named_sections.PartError
    ):
      yield from _of_part(name, item["ctx"]["error"])
    else:
      yield _about_value(name, item)


def _of_part(part: str, error: named_sections.PartError) -> Iterator[str]:
  """Yields a sentence for each problem in a part of the network."""
  known, tag, _ = named_sections.NAMED["model"]
  for item in error.errors:
    name = ".".join((part, *filter(_is_key, map(str, item["loc"]))))
    if error.section is None:
      yield known.unknown(item["input"], f"{part}.{tag}")
    elif item["type"] == "extra_forbidden":
      keys = [f"{part}.{key}" for key in error.section.model_fields]
      yield key_suggestions.unknown(name, item["input"], keys)
    else:
      yield _about_value(name, item)


def _about_value(name: str, item: Mapping[str, Any]) -> str:
  """Returns the sentence about a value of the wrong type or range."""
  value, kind = item["input"], item["type"]
  if kind == "literal_error":
    return f"{name} = {value!r} is not one of {item['ctx']['expected']}."
  if kind == "value_error":
    return f"{name}: {item['ctx']['error']}."
  if kind == "too_long":
    return f"{name} = {value!r} must have {item['ctx']['max_length']} values."
  if kind in _WANTED:
    is_whole = kind == "int_type" and isinstance(value, float)
    is_whole = is_whole and value.is_integer()  # Of 1e3.
    hint = f"; write {int(value)}" if is_whole else ""
    if name == "config.total_steps" and "epoch" in str(value):
      hint = "; epochs are a number of config.total_epochs"
    return f"{name} = {value!r} must be {_WANTED[kind]}{hint}."
  wanted = item["msg"].removeprefix("Input should be ")
  return f"{name} = {value!r} must be {wanted}."


def _eval_types() -> str:
  """'"a", "b" or "c"'."""
  *most, last = (f'"{name}"' for name in registry.EVALUATORS.names())
  return f"{', '.join(most)} or {last}"


def _location(loc: tuple[int | str, ...]) -> tuple[str, ...]:
  """Drops what pydantic adds to a path for unions, tags and wrappers."""
  parts = [str(part) for part in loc]
  kept: list[str] = []
  for index, part in enumerate(parts):
    is_tag = index == _TAGS.get(parts[0]) and part in (
      named_sections.sections(parts[0])
    )
    if not is_tag and _is_key(part):
      kept.append(part)
  return tuple(kept)


def _is_key(part: str) -> bool:
  """False for a type, which pydantic adds to the path of a union."""
  return "[" not in part and part not in (
    "int",
    "str",
    "float",
    "constrained-int",
  )


def _foreign_key(loc: tuple[int | str, ...], value: Any) -> str | None:
  """Returns the sentence about a key that other sections have, if any."""
  if len(loc) != 3 or loc[0] not in ("model", "objective"):
    return None
  group, chosen, key = loc
  tag = named_sections.NAMED[group][1]
  names = _owners(group, {tag: chosen}, key)
  if not names:
    return None
  default = named_sections.sections(group)[names[0]].model_fields[key].default
  if isinstance(default, schema.Section) and isinstance(value, Mapping):
    sections = [type(default)]
    if isinstance(default, schema.Model):  # Of any family.
      sections = named_sections.sections("model").values()
    for inner, one in value.items():
      if not any(named_sections.is_default(inner, one, s) for s in sections):
        return (
          f"config.{group}.{key}.{inner} = {one!r} is a key of"
          f" config.{group}.{tag} = {' or '.join(map(repr, names))}, which"
          f" {chosen!r} lacks; leave it unset."
        )
  fields = named_sections.sections(group)[chosen].model_fields
  parts = (name for name, field in fields.items() if _has(field.default, key))
  advice = f"leave it at {default!r}" + "".join(
    f", or set config.{group}.{part}.{key}" for part in parts
  )
  return (
    f"config.{group}.{key} = {value!r} is a key of config.{group}.{tag} ="
    f" {' or '.join(map(repr, names))}, which {chosen!r} lacks; {advice}."
  )


def _has(part: Any, key: str) -> bool:
  """True for a section with that key."""
  return isinstance(part, schema.Section) and key in type(part).model_fields


def _owners(group: str, keys: Mapping[str, Any], key: str) -> list[str]:
  """Names of `config.<group>` that have a key which the named one lacks."""
  sections = named_sections.sections(group)
  chosen = keys.get(named_sections.NAMED[group][1])
  if not isinstance(chosen, str) or chosen not in sections:
    return []
  if key in sections[chosen].model_fields:
    return []
  return [name for name, one in sections.items() if key in one.model_fields]


def _known_keys(loc: tuple[int | str, ...]) -> list[str]:
  """Full names of the keys of the section at `loc`, then of all sections."""
  prefix = ".".join(("config", *_location(loc)))
  tagged = loc and len(loc) > _TAGS.get(str(loc[0]), len(loc))
  if tagged and loc[_TAGS[loc[0]]] in named_sections.sections(loc[0]):
    section = named_sections.sections(loc[0])[loc[_TAGS[loc[0]]]]
    if "datasets" in loc[3:]:
      _, section = get_args(section.model_fields["datasets"].annotation)
    return [f"{prefix}.{name}" for name in section.model_fields]
  flat = flatten(schema.Config().model_dump(), "config.")
  return sorted(flat, key=lambda name: not name.startswith(prefix + "."))


def _empty(name: str, value: Any) -> Iterator[str]:
  """Yields sentences about keys set to empty text, as by a shell variable."""
  if isinstance(value, Mapping):
    for key, entry in value.items():
      yield from _empty(f"{name}.{key}", entry)
  elif isinstance(value, schema.Section):
    for key, field in type(value).model_fields.items():
      entry = getattr(value, key)
      if entry == "" and field.default != "":
        none = ", or None for none" if field.default is None else ""
        yield f"{name}.{key} is empty; give a value{none}."
      yield from _empty(f"{name}.{key}", entry)
