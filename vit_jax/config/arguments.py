"""Argument strings of experiment files: `configs/x.py:model=L/16,smoke`."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from vit_jax.errors import UserError
from vit_jax.suggestions import did_you_mean


def parse(text: str | None, **defaults: Any) -> SimpleNamespace:
  """Reads 'name=value,flag' into a namespace.

  Every experiment file also knows the flag `smoke`.

  Args:
    text: Text after the colon of `--config=FILE:...`, or None.
    **defaults: Known names; a value takes the type of its default.

  Raises:
    UserError: A name is unknown or given twice, or a value has the wrong type.
  """
  values = {"smoke": False, **defaults}
  given = set()
  for item in filter(None, (text or "").split(",")):
    name, has_value, value = item.partition("=")
    name = name.strip()
    if name not in values:
      near = did_you_mean(name, values, cutoff=0.6)
      hint = f'did you mean "{near}"?' if near else "known are"
      known = "" if near else " " + ", ".join(sorted(values)) + "."
      raise UserError(f'Unknown config argument "{name}"; {hint}{known}')
    if name in given:
      raise UserError(f'Config argument "{name}" is given twice; give it once.')
    given.add(name)
    values[name] = _convert(name, value if has_value else "true", values[name])
  return SimpleNamespace(**values)


def check_choice(name: str, value: str, known: Iterable[str]) -> None:
  """Raises UserError if an argument's value is not among those known."""
  known = list(known)
  if value in known:
    return
  near = did_you_mean(value, known, cutoff=0.6)
  hint = f' Did you mean "{near}"?' if near else ""
  shown = ", ".join(choice for choice in known if choice)
  raise UserError(
    f'Config argument {name} = "{value}" is not known.{hint} Known: {shown}.'
  )


def check_used(name: str, value: str, is_used: bool, where: str) -> None:
  """Raises UserError if an argument is given that would change nothing.

  Args:
    name: Name of the argument.
    value: Its value; '' if it is not given.
    is_used: True if the other arguments leave it an effect.
    where: Arguments that it belongs to, such as 'phase=pretrain'.
  """
  if value and not is_used:
    raise UserError(
      f"Config argument {name} = {value!r} is of {where} and changes nothing"
      " here; leave it out."
    )


def _convert(name: str, value: str, default: Any) -> Any:
  if isinstance(default, bool):
    if value.lower() in ("true", "1"):
      return True
    if value.lower() in ("false", "0"):
      return False
    raise UserError(
      f'Config argument {name} = "{value}" must be true or false.'
    )
  try:
    return value if default is None else type(default)(value)
  except ValueError:
    raise UserError(
      f'Config argument {name} = "{value}" must be a number like {default!r}.'
    ) from None
