"""Mapping of a dataset's labels to a model's classes by name."""

import logging
from collections.abc import Sequence

from vit_jax import truncate
from vit_jax.errors import UserError
from vit_jax.weights import class_names

_logger = logging.getLogger(__name__)


def of_labels(
  key: str,
  data: Sequence[str] | None,
  model: Sequence[str] | None,
  *,
  num_classes: int | None = None,
) -> list[int] | None:
  """Returns the model's class for each label of a dataset, by name.

  Folders number their classes alphabetically, so an additional or missing class
  changes the numbers of others. The numbers are considered different only if a
  name occurs once in both lists, at different positions; otherwise the lists
  are assumed to name the same classes in the same order, with a warning if one
  is longer or no name agrees.

  Args:
    key: Config key of the evaluator, for messages.
    data: Names in the order of the dataset's labels; None if unknown.
    model: Names in the order of the model's classes; None if unknown.
    num_classes: Number of the model's classes; None if unknown.

  Returns:
    A class for each label; None for the class with the same number.

  Raises:
    UserError: Classes have different numbers in the dataset, and some of them
      are not classes of the model.
  """
  if data is None or model is None:
    if data is not None:
      _warn_of_other_number(key, data, num_classes)
    return None
  data, model = list(data), list(model)
  if data == model:
    return None
  once = class_names.unique(data) & class_names.unique(model)
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
    elif not once and len(data) == len(model):
      if (difference := class_names.difference(data, model)) is not None:
        _logger.warning(
          "%s: the model %s, so they are compared by their numbers. Unless they"
          " are numbered alike, the accuracy means nothing.",
          key,
          difference,
        )
    elif not once:
      _warn_of_other_number(key, data, len(model))
    return None
  if missing:
    raise UserError(
      f"{key}: the data has classes that the model lacks"
      f" ({truncate.first(missing)}), and numbers the others differently; use"
      f" data of the model's classes, which are {truncate.first(model)}."
    )
  _logger.info("%s: labels are the model's classes of the same names.", key)
  return [
    label if model[label : label + 1] == data[label : label + 1] else places[n]
    for label, n in enumerate(data)
  ]


def _warn_of_other_number(
  key: str, data: Sequence[str], num_classes: int | None
) -> None:
  if num_classes is not None and num_classes != len(data):
    _logger.warning(
      "%s: the data has %d classes and the model %d, and no name tells which is"
      " which, so that they are compared by their numbers (%s). Unless they are"
      " numbered alike, the accuracy means nothing.",
      key,
      len(data),
      num_classes,
      truncate.first(data, 3),
    )
