"""Class names in third-party formats, which number unnamed classes."""

from collections.abc import Sequence


def named(class_names: Sequence[str] | None, num_classes: int) -> list[str]:
  """Returns a name for each class; 'LABEL_0' and so on if there are none."""
  return list(class_names or map(_numbered, range(num_classes)))


def names(labels: Sequence[str]) -> tuple[str, ...] | None:
  """Returns the names given to classes; None if they are only numbered."""
  if all(label == _numbered(i) for i, label in enumerate(labels)):
    return None
  return tuple(labels)


def _numbered(number: int) -> str:
  return f"LABEL_{number}"
