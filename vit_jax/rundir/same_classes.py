"""Check that the classes of a run's data match its head."""

import itertools
from collections.abc import Sequence

from etils import epath

from vit_jax.errors import UserError
from vit_jax.pretrained import run_files


def check(workdir: epath.PathLike, names: Sequence[str] | None) -> None:
  """Checks the names of the data's classes against classes.json of the run.

  Args:
    workdir: Directory of a run that resumes.
    names: Names in the order of the labels; None if unknown.

  Raises:
    UserError: The names differ, so the meaning of the head's outputs would
      change.
  """
  before = run_files.read_class_names(workdir)
  if before is None or names is None or list(before) == list(names):
    return
  label, (old, new) = next(
    (label, pair)
    for label, pair in enumerate(itertools.zip_longest(before, names))
    if pair[0] != pair[1]
  )
  raise UserError(
    f"The classes of the data are not those that {workdir} was trained on:"
    f" class {label} was {_shown(old)} and is {_shown(new)}. Give the"
    " data of the run, or begin another with a new --workdir and"
    f" --config.init_from={workdir}; if classes were only renamed, write their"
    f" new names into {epath.Path(workdir) / run_files.CLASSES}."
  )


def _shown(name: str | None) -> str:
  return "not there" if name is None else repr(name)
