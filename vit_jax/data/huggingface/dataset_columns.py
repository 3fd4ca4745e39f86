"""The columns of a Hugging Face dataset with images, labels and captions.

`train.image_key`, `label_key` and `text_key` name them. If there is no column
with the default name, it is guessed from the features: the only image, the
class label with the most common name, the text with a caption's name.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

from vit_jax.errors import UserError

# Default names, which a dataset may lack.
_IMAGE, LABEL = "image", "label"
# Preferred in this order if there are several, then in stored order.
_IMAGES = (_IMAGE, "img", "jpg", "png", "webp", "picture", "photo")
_LABELS = (LABEL, "labels", "class", "cls", "fine_label", "category", "target")
_NUMBERS = ("target", LABEL, "value")
_TEXTS = ("text", "caption", "captions", "txt", "sentence", "title")

LabelKind = Literal["classes", "integers", "names", "numbers"]


@dataclasses.dataclass(frozen=True)
class Columns:
  """The columns of a dataset to read.

  Attributes:
    image: Name of the column of images.
    label: Name of the column of labels; None if there is none.
    text: Name of the column of captions; None if there is none.
    kind: Kind of labels: numbers of declared classes, integers of undeclared
      classes, names of classes, or numbers to predict.
    is_list: True if a record has a list of labels.
    num_classes: Number of declared classes, or None.
    class_names: Names of declared classes, if any.
  """

  image: str
  label: str | None = None
  text: str | None = None
  kind: LabelKind = "classes"
  is_list: bool = False
  num_classes: int | None = None
  class_names: tuple[str, ...] | None = None

  @property
  def names(self) -> list[str]:
    """The columns of bytes or texts."""
    return [self.image] + ([self.text] if self.text else [])


def find(
  features: Mapping[str, Any],
  *,
  dataset: str,
  image_key: str,
  label_key: str,
  text_key: str | None,
  numbers: bool,
) -> Columns:
  """Finds the columns in the features of a dataset.

  Args:
    features: Features declared by `datasets.Features`.
    dataset: Name of the dataset, for messages.
    image_key, label_key, text_key: As in `sources.open_source`.
    numbers: True if the labels are numbers to predict.

  Raises:
    UserError: There is no image, or a column named by a key is missing or has
      another type.
  """

  def fail(key: str, name: str, what: str, fits: Callable[[Any], bool]):
    found = ", ".join(repr(n) for n, f in features.items() if fits(f)) or "none"
    there = (
      f"holds {_described(features[name])}, no {what}"
      if name in features
      else f"is not a column of {dataset}"
    )
    return UserError(
      f"{key} = {name!r} {there}. Columns of {dataset} that could be: {found}."
    )

  image = image_key if _is_image(features.get(image_key)) else None
  if image is None and image_key == _IMAGE:
    image = _first(features, _IMAGES, _is_image)
  if image is None:
    raise fail("image_key", image_key, "image", _is_image)
  text = text_key
  if text is None:
    text = next((n for n in _TEXTS if _is_text(features.get(n))), None)
  elif not _is_text(features.get(text)):
    raise fail("text_key", text, "text", _is_text)
  is_label, wanted, what = (
    (_is_number, _NUMBERS, "number")
    if numbers
    else (_may_be_class, _LABELS, "class label")
  )
  label = label_key if is_label(features.get(label_key)) else None
  if label is None and label_key == LABEL:
    declared = _is_number if numbers else _is_declared
    label = _first(features, wanted, declared)
    if label is None:
      guessed = _is_number if numbers else _is_class
      label = next((n for n in wanted if guessed(features.get(n))), None)
  if label is None and label_key != LABEL:
    fits = _is_number if numbers else _is_class
    raise fail("label_key", label_key, what, fits)
  if label is None:
    return Columns(image, text=text)
  if numbers:
    return Columns(image, label, text, kind="numbers")
  element = _element(features[label])
  is_list = element is not features[label]
  if type(element).__name__ == "ClassLabel":
    names = tuple(element.names) if element.names else None
    return Columns(
      image, label, text, "classes", is_list, element.num_classes, names
    )
  kind = "names" if element.dtype in _STRINGS else "integers"
  num_classes = 2 if element.dtype == "bool" else None
  return Columns(image, label, text, kind, is_list, num_classes)


def shown(columns: Columns, features: Mapping[str, Any], dataset: str) -> str:
  """One line that describes the columns chosen for a dataset."""
  kinds = {
    "classes": "classes",
    "integers": "numbers of classes",
    "names": "names of classes",
    "numbers": "numbers to predict",
  }
  parts = [f"images in {columns.image!r}"]
  if columns.label:
    parts.append(f"{kinds[columns.kind]} in {columns.label!r}")
  elif LABEL in features:
    held = _described(features[LABEL])
    parts.append(f"no classes in {LABEL!r}, which holds {held}")
  if columns.text:
    parts.append(f"captions in {columns.text!r}")
  return (
    f"{dataset}: {', '.join(parts)}; image_key, label_key and text_key name"
    " others."
  )


_STRINGS = ("string", "large_string")


def _first(
  features: Mapping[str, Any],
  preferred: tuple[str, ...],
  fits: Callable[[Any], bool],
) -> str | None:
  for name in (*preferred, *features):
    if fits(features.get(name)):
      return name
  return None


def _element(feature: Any) -> Any:
  """The element's feature for a list, otherwise the feature itself."""
  return getattr(feature, "feature", feature)


def _dtype(feature: Any) -> str:
  """Type of a plain value, "" for anything else."""
  return feature.dtype if type(feature).__name__ == "Value" else ""


def _is_image(feature: Any) -> bool:
  if isinstance(feature, Mapping):  # Stored by other libraries.
    return _dtype(feature.get("bytes")) in ("binary", "large_binary")
  is_image = type(feature).__name__ == "Image"
  return is_image or _dtype(feature) in ("binary", "large_binary")


def _is_declared(feature: Any) -> bool:
  return type(_element(feature)).__name__ == "ClassLabel"


def _is_class(feature: Any) -> bool:
  dtype = _dtype(_element(feature))
  is_integer = dtype.startswith(("int", "uint"))
  is_name_or_bool = dtype in _STRINGS or _dtype(feature) == "bool"
  return _is_declared(feature) or is_integer or is_name_or_bool


def _may_be_class(feature: Any) -> bool:
  """Includes class numbers that other libraries store as floats."""
  return _is_class(feature) or _dtype(feature).startswith("float")


def _is_number(feature: Any) -> bool:
  return _dtype(feature).startswith(("float", "int", "uint"))


def _is_text(feature: Any) -> bool:
  return _dtype(_element(feature)) in _STRINGS


def _described(feature: Any) -> str:
  inner = _element(feature)
  plain = _dtype(inner) or type(inner).__name__
  return plain if inner is feature else f"lists of {plain}"
