"""Sentences that the name of a class is put into: 'a photo of a {}.'."""

import os
from collections.abc import Iterable

from vit_jax.errors import UserError
from vit_jax.prompts import lines

# CLIP's 80 of ImageNet, the 7 of them that do about as well together, and its
# 18 of CIFAR-10 and CIFAR-100.
NAMED = ("clip80", "clip7", "cifar18")


def read(sources: Iterable[str], *, key: str) -> list[str]:
  """The templates of several sources, in their order.

  Args:
    sources: Each one of `NAMED`, a template itself ('{}' is the name alone),
      or a file with one in each line.
    key: Config key or flag that says so, for messages.

  Raises:
    UserError: There is none, a file is missing, or a template has no {}.
  """
  found: list[str] = []
  for source in sources:
    if source in NAMED:
      found += lines.named(source)
    elif "{" in source or (" " in source and not os.path.exists(source)):
      found.append(_checked(source, key))
    else:
      read_lines = lines.read_file(source, key=key, holds="templates")
      found += [_checked(line, f"{key}: {source}") for line in read_lines]
  if not found:
    raise UserError(f"{key} is empty; use ('clip80',) or ('{{}}',).")
  return found


def _checked(template: object, where: str) -> str:
  if not isinstance(template, str) or template.count("{}") != 1:
    raise UserError(
      f"{where}: the template {template!r} must have one {{}}, where the name"
      " of a class goes, as in 'a photo of a {}.'."
    )
  return template
