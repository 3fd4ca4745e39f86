"""Preprocessing ops on labels, in NumPy, for many examples at once.

Labels are int32 [n], or [n, max_labels] padded with -1.
"""

from typing import Annotated, Any, Literal

import numpy as np
import pydantic

from vit_jax.data.registry import register

Label = Annotated[int, pydantic.Field(ge=-1)]


_Feature = Literal["image", "label", "text"]


def _keep_check(keys: tuple[str, ...]) -> str | None:
  return None if "image" in keys else "'image' has to be kept"


@register("label", check=_keep_check)
def keep(labels: np.ndarray | None, /, *keys: _Feature) -> np.ndarray | None:
  """Keeps only the named features: keep('image') drops labels and text."""
  return labels if "label" in keys else None


@register("label", label_space=lambda classes, _, *, size: (classes, size))
def pad_labels(
  labels: np.ndarray, /, size: Annotated[int, pydantic.Field(gt=0)]
) -> np.ndarray:
  """Pads labels to lists of `size` with -1, or keeps the first `size`.

  Lists of size one become labels [n].
  """
  labels = labels.reshape(len(labels), -1)
  missing = size - labels.shape[1]
  if missing < 0:
    # Classes first, in order, as `remap` may leave -1 among them.
    order = np.argsort(labels < 0, axis=1, kind="stable")
    lists = np.take_along_axis(labels, order[:, :size], axis=1)
  else:
    lists = np.pad(labels, ((0, 0), (0, missing)), constant_values=-1)
  return lists[:, 0] if size == 1 else lists


def _remap_space(
  num_classes: int, max_labels: int, *, table: tuple[int, ...]
) -> tuple[int, int]:
  if len(table) != num_classes:
    raise ValueError(
      f"the table has {len(table)} entries, the dataset {num_classes} classes"
    )
  return max(table) + 1, max_labels


def _remap_check(table: Any) -> str | None:
  return None if max(table) >= 0 else "the table leaves no class"


@register("label", label_space=_remap_space, check=_remap_check)
def remap(
  labels: np.ndarray,
  /,
  table: Annotated[
    tuple[Label, ...], pydantic.Field(min_length=1, strict=False)
  ],
) -> np.ndarray:
  """Renumbers the classes: label i becomes table[i] (-1: no label)."""
  # The last entry is for -1, no label.
  return np.asarray((*table, -1), np.int32)[labels]
