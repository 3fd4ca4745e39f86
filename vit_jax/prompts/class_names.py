"""Names of classes: those of well-known datasets, and a user's.

A class has one name or several, all of which mean it. In a file of lines every
line is a class; in a JSON list a class is a string or a list of strings.
"""

from collections.abc import Sequence
from typing import Any

from vit_jax.errors import UserError
from vit_jax.prompts import lines

# In the order of the labels of TFDS. ImageNet's are those that CLIP was
# measured with, as open_clip has them; of ImageNet-21k it is WordNet's first
# name of each synset, synsets in the order of their numbers.
NAMED = ("imagenet", "imagenet21k", "imagenet22k", "cifar10", "cifar100")
# Google's ImageNet-21k has 21,843 classes. The heads of 22k that Microsoft and
# Facebook published have none for n03931044 and n09859684.
_NOT_IN_22K = (9205, 15027)

Names = tuple[str, ...]


def read(source: str, *, key: str) -> list[Names]:
  """The names of each class, in the order of the labels.

  Args:
    source: One of `NAMED`, or a file.
    key: Config key or flag that says so, for messages.

  Raises:
    UserError: There is no such file, or a class has no name; names it.
  """
  if source in NAMED:
    return of(_named(source), key=key)
  return of(lines.read_file(source, key=key, holds="names of classes"), key=key)


def _named(name: str) -> list[str]:
  if name != "imagenet22k":
    return lines.named(name)
  names = enumerate(lines.named("imagenet21k"))
  return [one for number, one in names if number not in _NOT_IN_22K]


def of(classes: Sequence[Any], *, key: str) -> list[Names]:
  """The names of each class of a list.

  Args:
    classes: Of each class, its name or its names.
    key: Config key or flag that they come from, for messages.

  Raises:
    UserError: A class has no name, or one that is no text; gives its number.
  """
  found = []
  for number, one in enumerate(classes):
    names = [one] if isinstance(one, str) else one
    if not isinstance(names, Sequence) or not all(
      isinstance(name, str) for name in names
    ):
      raise UserError(
        f"{key}: class {number} is {one!r}; write its name, or a list of its"
        " names."
      )
    names = tuple(name.strip() for name in names if name.strip())
    if not names:
      raise UserError(f"{key}: class {number} has no name; write one.")
    found.append(names)
  return found


def of_dataset(names: Sequence[str]) -> list[Names]:
  """Returns a dataset's class names, with spaces for underscores."""
  return [(name.replace("_", " "),) for name in names]
