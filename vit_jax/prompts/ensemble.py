"""All prompts of each class, as CLIP and as SigLIP make them.

'clip'    Names as they are written, in every template.
'siglip'  A name is split at commas into aliases, each of which is put into
          every template; prompts are lower-cased, ASCII punctuation is removed,
          '_' is a space and white space is collapsed.
"""

import string
from collections.abc import Sequence

from vit_jax.errors import UserError
from vit_jax.prompts.class_names import Names

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def prompts(
  classes: Sequence[Names], templates: Sequence[str], *, style: str, key: str
) -> list[list[str]]:
  """The prompts of each class; a class has at least one.

  Args:
    classes: Names of each class.
    templates: Sentences with one {}.
    style: 'clip' or 'siglip'.
    key: Config key or flag that the names come from, for messages.

  Raises:
    UserError: Nothing is left of the name of a class, which is named.
  """
  return [
    [
      _prompt(template, name, style)
      for name in _aliases(names, number, style, key)
      for template in templates
    ]
    for number, names in enumerate(classes)
  ]


def _aliases(names: Names, number: int, style: str, key: str) -> list[str]:
  if style != "siglip":
    return list(names)
  aliases = [alias for name in names for alias in name.split(",")]
  aliases = [found for alias in aliases if (found := canonicalize(alias))]
  if not aliases:
    raise UserError(
      f"{key}: class {number} is called {', '.join(names)!r}, of which nothing"
      " is left without punctuation; give it a name in words."
    )
  return aliases


def _prompt(template: str, name: str, style: str) -> str:
  prompt = template.replace("{}", name)
  return canonicalize(prompt) if style == "siglip" else prompt


def canonicalize(text: str) -> str:
  """Lower case, without ASCII punctuation, words divided by single spaces."""
  text = text.replace("_", " ").translate(_NO_PUNCTUATION).lower()
  return " ".join(text.split())
