"""Names of classes, and the order that determines their labels."""

import collections
from collections.abc import Collection, Sequence

from vit_jax import truncate
from vit_jax.errors import UserError


def read(path: str) -> tuple[str, ...]:
  """Reads the lines of a file: the name of class 0, of class 1, ...

  Raises:
    UserError: It cannot be read, or a name is empty or appears twice.
  """
  start = f"--class_names={path}"
  try:
    with open(path, encoding="utf-8-sig") as file:
      names = tuple(line.strip() for line in file.read().splitlines())
  except (OSError, ValueError) as error:
    reason = getattr(error, "strerror", None) or error
    raise UserError(f"{start} cannot be read ({reason}).") from None
  if "" in names:
    raise UserError(
      f"{start}: line {names.index('') + 1} is empty; write one name in each"
      " line."
    )
  if twice := [n for n, c in collections.Counter(names).items() if c > 1]:
    raise UserError(f"{start} has {twice[0]!r} twice.")
  if len(names) < 2:
    raise UserError(f"{start} has fewer than two names.")
  return names


def order(
  found: Collection[str], names: Sequence[str] | None, where: str
) -> tuple[str, ...]:
  """Returns the names of all classes in the order of their labels.

  Names `found` in the input, called `where` in messages, are sorted, unless
  `names`, those of --class_names, are given.

  Raises:
    UserError: There is only one class, or a class is not among `names` or has
      characters that TFDS cannot store.
  """
  if names is not None:
    unknown = sorted(set(found).difference(names))
    if unknown:
      raise UserError(
        f"{where} has classes that --class_names lacks:"
        f" {truncate.first(unknown, 10)}. Add them there, or remove them here."
      )
    return tuple(names)
  if len(found) < 2:
    raise UserError(
      f"{where} has one class, {next(iter(found), None)!r}; a classifier needs"
      " two or more."
    )
  for name in found:
    # TFDS stores one name per line, in UTF-8.
    if not name or name != name.strip() or not name.isprintable():
      raise UserError(
        f"{where}: the name of class {name!r} is empty, begins or ends with a"
        " space or has characters that cannot be printed; rename it."
      )
  return tuple(sorted(found))
