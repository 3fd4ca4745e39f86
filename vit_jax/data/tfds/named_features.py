"""Features of a TFDS dataset: the image, the captions and the label."""

from typing import Any

import numpy as np

from vit_jax.data import sources
from vit_jax.data.tfds import computed_labels
from vit_jax.data.tfds.computed_labels import ComputedLabel
from vit_jax.errors import UserError

# Width of the padded lists if the dataset sets no limit. Labels are a few bytes
# compared with an image, so a generous width costs nothing.
_MAX_LABELS = 32
# Features used as captions, in this order, if no other is named.
_CAPTIONS = ("text", "caption", "captions", "captions/text")


def check_image(info: Any, key: str) -> None:
  """Raises UserError if the feature `key` is not an image."""
  import tensorflow_datasets as tfds

  found = {
    name: feature
    for name, (feature, repeats) in _flatten(info.features).items()
    if isinstance(feature, tfds.features.Image) and not repeats
  }
  if key not in found:
    raise UserError(_missing("image_key", key, "image", info, found))


def find_text(info: Any, key: str | None) -> str | None:
  """Returns the feature with captions, found by name without a `key`.

  Raises:
    UserError: The feature `key` does not exist, or is not text.
  """
  found = {
    name: feature
    for name, (feature, repeats) in _flatten(info.features).items()
    if _is_text(feature) and len(repeats) <= 1
  }
  if key is None:
    return next(filter(found.__contains__, _CAPTIONS), None)
  if key not in found:
    raise UserError(_missing("text_key", key, "text", info, found))
  return key


def _is_text(feature: Any) -> bool:
  import tensorflow_datasets as tfds

  # Text is a Tensor too; other shapes would not be a single string.
  return (
    isinstance(feature, tfds.features.Tensor)
    and not isinstance(feature, tfds.features.Image)
    and feature.shape == ()
    and np.dtype(feature.np_dtype).kind in "OSU"
  )


def find_label(
  info: Any, key: str, *, is_optional: bool = False
) -> tuple[sources.Label | None, ComputedLabel | None]:
  """Describes the label `key`, and its computation if it is not a feature.

  Both are None if no feature is a class.

  Raises:
    UserError: There are classes, but `key` does not exist or is not a class.
  """
  import tensorflow_datasets as tfds

  flat = _flatten(info.features)
  stored = {
    name: (feature, repeats)
    for name, (feature, repeats) in flat.items()
    if isinstance(feature, tfds.features.ClassLabel)
    and feature.num_classes
    and len(repeats) <= 1
  }
  computed = {
    name: label
    for name, label in computed_labels.LABELS.items()
    if flat.keys() >= set(label.features)
  }
  if key in stored:
    feature, repeats = stored[key]
    max_labels = (repeats[0] or _MAX_LABELS) if repeats else 1
    names = tuple(feature.names)
    return sources.Label(len(names), names, max_labels), None
  if key in computed:
    names = computed[key].class_names
    return sources.Label(len(names), names), computed[key]
  found = stored | computed
  if is_optional or not found:
    return None, None
  raise UserError(_missing("label_key", key, "class label", info, found))


def _missing(
  option: str, key: str, kind: str, info: Any, found: dict[str, Any]
) -> str:
  choices = ", ".join(repr(name) for name in found) or "none"
  return (
    f"{option} = {key!r}: {info.full_name} has no {kind} of that name. It has:"
    f" {choices}."
  )


def _flatten(
  feature: Any, name: str = "", repeats: tuple[int | None, ...] = ()
) -> dict[str, tuple[Any, tuple[int | None, ...]]]:
  """Maps names in the records to (feature, lengths of enclosing lists).

  A length is None if it differs between examples.
  """
  import tensorflow_datasets as tfds

  if isinstance(feature, tfds.features.Sequence):
    length = feature._length or -1  # TFDS has no public name for it.
    length = length if length > 0 else None
    return _flatten(feature.feature, name, (*repeats, length))
  if isinstance(feature, tfds.features.FeaturesDict):
    flat = {}
    for inner, value in feature.items():
      flat |= _flatten(value, f"{name}/{inner}".lstrip("/"), repeats)
    return flat
  return {name: (feature, repeats)}
