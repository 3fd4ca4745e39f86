"""Fills in the templates of scripts and manifests.

Values go through `shell`, `yaml` or `argument` in the templates, so that any
text arrives unchanged.
"""

import pathlib
import shlex
from collections.abc import Sequence

import jinja2

from vit_jax.errors import UserError

TEMPLATES = pathlib.Path(__file__).parent / "templates"


def render(template: str, **values: object) -> str:
  """A template's text with the values filled in.

  Args:
    template: Name of a file in templates/.
    values: Values of all its placeholders.

  Raises:
    UserError: A value has a character that a script cannot contain.
  """
  environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,  # Shell and YAML are no HTML; see `shell` and `yaml`.
  )
  environment.filters |= {
    "shell": _shell,
    "yaml": _yaml,
    "argument": _argument,
  }
  return environment.get_template(template).render(values)


def _shell(value: str | Sequence[str]) -> str:
  """One word of a shell for a text, several for a list of texts."""
  words = [value] if isinstance(value, str) else value
  return " ".join(shlex.quote(_without_nul(word)) for word in words)


def _yaml(value: str | Sequence[int]) -> str:
  """A text, or a list of numbers, as YAML has it on one line."""
  if not isinstance(value, str):
    return f"[{', '.join(map(str, value))}]"
  return f'"{"".join(map(_escaped, value))}"'


def _argument(value: str) -> str:
  """A word of a container's command, where Kubernetes expands $(NAME)."""
  return _yaml(_without_nul(value).replace("$", "$$"))


def _escaped(character: str) -> str:
  if character in '"\\':
    return "\\" + character
  # Among these are line ends and what YAML does not allow.
  if not character.isprintable():
    return f"\\U{ord(character):08x}"
  return character


def _without_nul(word: str) -> str:
  if "\0" in word:
    raise UserError(f"{word!r} has a NUL character, which no command takes.")
  return word
