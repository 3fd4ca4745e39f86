"""The names of the classes that a run was trained on, kept in its workdir."""

import json
from collections.abc import Sequence

from etils import epath

from vit_jax import records
from vit_jax.errors import UserError

FILE = "classes.json"


def write(workdir: epath.PathLike, names: Sequence[str] | None) -> None:
  """Writes classes.json: a list in the order of the labels, or null."""
  names = None if names is None else list(names)
  records.write_text(epath.Path(workdir) / FILE, json.dumps(names) + "\n")


def read(workdir: epath.PathLike) -> tuple[str, ...] | None:
  """The names, or None if they are not known.

  Raises:
    UserError: if the file is there but holds something else.
  """
  path = epath.Path(workdir) / FILE
  if not path.exists():
    return None
  try:
    names = json.loads(path.read_text())
  except ValueError:
    names = 0
  if names is None:
    return None
  if not (isinstance(names, list) and all(isinstance(n, str) for n in names)):
    raise UserError(
      f"{path} does not hold a list of names; mend it, or remove it to see the"
      " numbers of classes."
    )
  return tuple(names)
