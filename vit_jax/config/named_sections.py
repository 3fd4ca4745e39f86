"""The sections that a registered name selects: `model`, `objective`, `evals`.

Each registered family, objective and evaluator declares the class of its
section; a config holds the keys of the one that it names.
"""

import functools
import json
from collections.abc import Mapping
from typing import Annotated, Any

import pydantic

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError

# Sections that are discriminated by the name of a registered record, with the
# key that holds the name and its default.
NAMED = {
  "model": (registry.FAMILIES, "name", "vit"),
  "objective": (registry.OBJECTIVES, "name", "supervised"),
  "evals": (registry.EVALUATORS, "type", None),
}


def sections(group: str) -> dict[str, type[schema.Section]]:
  """Returns the sections of `config.<group>` by the names that select them."""
  known, _, _ = NAMED[group]
  return {name: known.get(name).section for name in known.names()}


def section(group: str, **keys: Any) -> schema.Section:
  """Builds a section of `config.<group>` of the class that its name selects.

  Raises:
    UserError: The name is not registered.
    pydantic.ValidationError: A key does not exist or has a bad value.
  """
  known, tag, default = NAMED[group]
  name = keys.get(tag, default)
  classes = sections(group)
  if name not in classes:
    raise UserError(known.unknown(name))
  return classes[name](**own_keys(group, keys))


def own_keys(group: str, keys: Mapping[str, Any]) -> dict[str, Any]:
  """`keys` of `config.<group>` without the unset keys of other names.

  An experiment file has the keys of all names; keys that belong to another name
  and have their default value are dropped.
  """
  _, tag, default = NAMED[group]
  keys = {tag: default, **keys}
  classes = sections(group)
  own = classes.get(keys[tag]) if isinstance(keys[tag], str) else None
  if own is None:
    return keys
  return {
    name: value
    for name, value in keys.items()
    if name in own.model_fields
    or not (
      own.implied.get(name, ...) == value
      or any(is_default(name, value, one) for one in classes.values())
    )
  }


def is_default(name: str, value: Any, section: type[schema.Section]) -> bool:
  """True if a section has this key and this default, in Python or in JSON."""
  if name not in section.model_fields:
    return False
  default = section.model_fields[name].default
  if isinstance(default, schema.Section) and isinstance(value, Mapping):
    try:
      return getattr(section(**{name: value}), name) == default
    except pydantic.ValidationError:
      return False
  return default == (tuple(value) if isinstance(value, list) else value)


def default_section(group: str) -> schema.Section:
  """Returns the section of `config.<group>` if no name is given."""
  return sections(group)[NAMED[group][2]]()


def validated_class() -> type[schema.Config]:
  """Returns `Config` with the named sections that are registered now."""
  return _validated_class(*(known.names() for known, _, _ in NAMED.values()))


@functools.cache
def _validated_class(*names: tuple[str, ...]) -> type[schema.Config]:
  """`validated_class`, made once for each set of registered names."""

  def any_of(group: str) -> Any:
    _, tag, _ = NAMED[group]

    def name_in(value: Any) -> Any:
      if isinstance(value, schema.Section):
        return getattr(value, tag)
      name = value.get(tag) if isinstance(value, Mapping) else None
      return name if isinstance(name, str) else None

    kinds = (
      Annotated[section, pydantic.Tag(name)]
      for name, section in sections(group).items()
    )
    return Annotated[
      functools.reduce(lambda one, other: one | other, kinds),
      pydantic.Discriminator(name_in),
    ]

  model, objective = (
    pydantic.Field(default_factory=lambda group=group: default_section(group))
    for group in ("model", "objective")
  )
  return pydantic.create_model(
    "Config",
    __base__=schema.Config,
    model=(any_of("model"), model),
    objective=(any_of("objective"), objective),
    evals=(dict[str, any_of("evals")], {}),
  )


class PartError(ValueError):
  """A part of a network, itself a network, has a bad name or bad keys.

  Attributes:
    section: Class of the part's section; None: its name is unknown.
    errors: Errors as in pydantic.
  """

  def __init__(
    self, section: type[schema.Model] | None, errors: list[Mapping[str, Any]]
  ):
    super().__init__("; ".join(str(item["msg"]) for item in errors))
    self.section = section
    self.errors = errors


def _model(value: Any, info: Any) -> schema.Model:
  """A section of `config.model`, of the class that its name selects.

  Raises:
    ValueError: It is no group of keys.
    PartError: The name or a key is unknown, or a value is wrong.
  """
  if isinstance(value, schema.Model):
    return value
  if not isinstance(value, Mapping):
    raise ValueError(f"{value!r} must be a group of keys")
  known, tag, default = NAMED["model"]
  name = value.get(tag, default)
  if not isinstance(name, str) or name not in sections("model"):
    unknown = {"loc": (tag,), "type": "unknown", "input": name}
    raise PartError(None, [{**unknown, "msg": known.unknown(name, tag)}])
  section, keys = sections("model")[name], own_keys("model", value)
  try:
    if info.mode == "json":  # In which a tuple that was saved is a list.
      return section.model_validate_json(json.dumps(keys))
    return section.model_validate(keys)
  except pydantic.ValidationError as error:
    raise PartError(section, error.errors()) from None


# A part of a network that is itself a network, of any family.
AnyModel = Annotated[
  pydantic.SerializeAsAny[schema.Model], pydantic.BeforeValidator(_model)
]
