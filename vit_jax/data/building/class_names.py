"""Names of classes, and the order that gives them their labels."""

import collections
from collections.abc import Collection, Sequence

from vit_jax import truncate
from vit_jax.errors import UserError


def read(path: str) -> tuple[str, ...]:
  """The lines of a file: the name of class 0, of class 1, ...

  Raises:
    UserError: it cannot be read, or a name is empty or there twice.
  """
  try:
    with open(path, encoding="utf-8-sig") as file:
      names = tuple(line.strip() for line in file.read().splitlines())
  except (OSError, ValueError) as error:
    reason = getattr(error, "strerror", None) or error
    raise UserError(
      f"--class_names={path} cannot be read ({reason})."
    ) from None
  for number, name in enumerate(names):
    if not name:
      raise UserError(
        f"--class_names={path}: line {number + 1} is empty; write one name in"
        " each line."
      )
  (twice, count), *_ = collections.Counter(names).most_common(1) or [("", 0)]
  if count > 1:
    raise UserError(f"--class_names={path} has {twice!r} twice.")
  if len(names) < 2:
    raise UserError(f"--class_names={path} has fewer than two names.")
  return names


def order(
  found: Collection[str], names: Sequence[str] | None, where: str
) -> tuple[str, ...]:
  """The names of all classes in the order of their labels.

  Args:
    found: those that the input has.
    names: those of --class_names, if it was given.
    where: the input, for messages.

  Raises:
    UserError: there is only one, one is not among `names`, or has characters
      that TFDS cannot store.
  """
  if names is not None:
    unknown = sorted(set(found).difference(names))
    if unknown:
      raise UserError(
        f"{where} has classes that --class_names has not:"
        f" {truncate.first(unknown, 10)}. Add them there, or remove them here."
      )
    return tuple(names)
  if len(found) < 2:
    raise UserError(
      f"{where} has one class, {next(iter(found), None)!r}; a classifier needs"
      " two or more."
    )
  for name in found:
    # One name a line, in UTF-8.
    if name != name.strip() or not name.isprintable():
      raise UserError(
        f"{where}: the name of class {name!r} begins or ends with a space or"
        " has characters that cannot be printed; rename it."
      )
  return tuple(sorted(found))
