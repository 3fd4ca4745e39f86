"""Fills in the templates of scripts and manifests.

Values go through `shell` or `yaml` in the templates, so that any text arrives
as it is.
"""

import json
import pathlib
import shlex
from collections.abc import Sequence

import jinja2

from vit_jax.errors import UserError

TEMPLATES = pathlib.Path(__file__).parent / "templates"


def render(template: str, **values: object) -> str:
  """A template's text with the values filled in.

  Args:
    template: a file of templates/.
    values: all that it names.

  Raises:
    UserError: a value has a character that no script can hold.
  """
  environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,  # Shell and YAML are no HTML; see `shell` and `yaml`.
  )
  environment.filters |= {"shell": _shell, "yaml": json.dumps}
  return environment.get_template(template).render(values)


def _shell(value: str | int | float | Sequence[str]) -> str:
  """One word of a shell for a text or number, several for a list of texts."""
  if isinstance(value, int | float):
    return str(value)
  words = [value] if isinstance(value, str) else value
  for word in words:
    if "\0" in word:
      raise UserError(f"{word!r} has a NUL character, which no command takes.")
  return " ".join(map(shlex.quote, words))
