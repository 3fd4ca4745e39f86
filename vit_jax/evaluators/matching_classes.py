"""The classes of a model that the labels of a dataset stand for, by name."""

import collections
import logging
from collections.abc import Sequence

from vit_jax import truncate
from vit_jax.errors import UserError

_logger = logging.getLogger(__name__)


def of_labels(
  key: str, data: Sequence[str] | None, model: Sequence[str] | None
) -> list[int] | None:
  """The model's class of each label of a dataset; None: its labels as they are.

  Folders number their classes by the alphabet, so that one more or one less
  gives the others other numbers. Names that both lists have decide; lists that
  have none in common, or the same ones at the same places, name the same
  classes in other words.

  Args:
    key: Config key of the evaluator, for messages.
    data: Names in the order of the dataset's labels; None: not known.
    model: Names in the order of the model's classes; None: not known.

  Raises:
    UserError: Classes have other numbers in the dataset, and some of its
      classes are none of the model's.
  """
  if data is None or model is None:
    return None
  data, model = list(data), list(model)
  if data == model:
    return None
  once = _once(data) & _once(model)
  places = {name: place for place, name in enumerate(model)}
  is_moved = any(
    name in once and places[name] != label for label, name in enumerate(data)
  )
  missing = [name for name in data if name not in places]
  if not is_moved:
    if once and missing:
      _logger.warning(
        "%s: classes are compared by their numbers, as the model does not name"
        " %s.",
        key,
        truncate.first(missing),
      )
    return None
  if missing:
    raise UserError(
      f"{key}: {truncate.first(missing)} of the data is no class of the model,"
      f" which has {truncate.first(model)}, others of them under other numbers;"
      " give data of the model's classes."
    )
  _logger.info("%s: labels are the model's classes of the same names.", key)
  return [
    label if model[label : label + 1] == data[label : label + 1] else places[n]
    for label, n in enumerate(data)
  ]


def _once(names: Sequence[str]) -> set[str]:
  counts = collections.Counter(names)
  return {name for name, count in counts.items() if count == 1}
