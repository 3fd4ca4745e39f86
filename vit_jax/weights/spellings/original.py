"""PyTorch checkpoints published by a family's authors."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from etils import epath

from vit_jax.errors import UserError
from vit_jax.weight_paths import SAFETENSORS
from vit_jax.weights import state_dict, tensors, torch_file
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import names
from vit_jax.weights.spellings.contract import SCRIPT_NOTE, Assumed, Original
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.registry import ORIGINAL

# Weights in an open_clip directory; the first one present is used.
OPEN_CLIP_FILES = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")


def read(path: epath.PathLike, part: str | None = None) -> Weights:
  """Reads the parameters in a checkpoint and detects their network.

  Args:
    path: A .pth, .pt, .bin or .ckpt file, or an open_clip directory or a
      .safetensors file in it.
    part: As for `tensors.read`.

  Raises:
    UserError: The file is damaged, or its network is not one of ours.
  """
  where = str(path)
  notes: list[str] = []
  file = _file(epath.Path(path))
  contents: Mapping[Any, Any] = {}
  if file.suffix == SAFETENSORS:
    found = tensors.read(file)
  else:
    contents = torch_file.read(file)
    if (modules := contents.get(torch_file.SCRIPT)) is not None:
      notes.append(SCRIPT_NOTE)
      contents = dict(_joined(modules))
    found = _parameters(state_dict.chosen(contents, str(file), notes, part))
  found = state_dict.bare(found, where, _all_marks(), notes)
  family = _family(found, where)
  weights = _weights(family, found, where, notes)
  both = [state_dict.TEACHER, state_dict.STUDENT]
  has_both = state_dict.containers(contents)[:2] == both
  if weights.objective is None or not has_both or part is not None:
    return weights
  return _with_student(weights, family, contents, found)


def _weights(
  family: Original, found: Tensors, where: str, notes: list[str]
) -> Weights:
  """Builds the network of a state dict and its training objective."""
  beside, objective = family.beside(found, where)
  told = family.told(found, where)
  found = family.prepare(found, where, notes)
  said = {"normalize": "imagenet", **family.said(found, where, notes), **told}
  model, params, assumed = names.read(where, found, family.names, said)
  return Weights(
    path=where,
    model=model,
    params=params,
    class_names=None,
    assumed=(*notes, *assumed),
    beside=beside,
    objective=objective,
    heads_assumed=isinstance(said.get("num_heads"), Assumed),
  )


def _with_student(
  teacher: Weights,
  family: Original,
  contents: Mapping[Any, Any],
  of_teacher: Tensors,
) -> Weights:
  """Adds to a teacher the student that it is an average of.

  An incomplete student, as in a file reduced to what is evaluated, is left out.
  """
  arrays = state_dict.arrays(contents[state_dict.STUDENT], teacher.path)
  found = _parameters(arrays)
  shapes, wanted = (
    {name: np.shape(x) for name, x in one.items()}
    for one in (found, of_teacher)
  )
  if shapes != wanted:
    return teacher
  weights = _weights(family, found, teacher.path, [])
  return dataclasses.replace(
    teacher,
    trained={**weights.params, **weights.beside},
    state=family.state(contents),
    assumed=(
      *teacher.assumed,
      f"Runs of objective {teacher.objective.name!r} that start from it"
      " continue with the student too, and with the heads if they fit.",
    ),
  )


def _joined(
  modules: Mapping[Any, Any], prefix: str = ""
) -> Iterator[tuple[str, np.ndarray]]:
  """Yields arrays by state dict name from the attributes of modules."""
  for name, value in modules.items():
    if isinstance(value, dict):
      yield from _joined(value, f"{prefix}{name}.")
    else:
      yield f"{prefix}{name}", value


def _file(path: epath.Path) -> epath.Path:
  """Returns the weights file in an open_clip directory; a file is unchanged."""
  if not path.is_dir():
    return path
  for name in OPEN_CLIP_FILES:
    if (path / name).exists():
      return path / name
  raise UserError(
    f"{path} holds no weights: there is none of {', '.join(OPEN_CLIP_FILES)}."
  )


def _parameters(arrays: Tensors) -> dict[str, np.ndarray]:
  """Drops counters and index tables, which follow from shapes."""
  return {n: x for n, x in arrays.items() if x.dtype == np.float32}


def _family(found: Tensors, path: str) -> Original:
  """Returns the family of a state dict, which has a mark of it."""
  families = [ORIGINAL.get(name) for name in ORIGINAL.names()]
  for family in families:
    if any(mark in found for mark in _marks(family)):
      return family
  some = ", ".join(sorted(found)[:4]) or "none"
  raise UserError(
    f"{path} is not a checkpoint of"
    f" {', '.join(family.label for family in families)}: it has none of"
    f" {', '.join(_all_marks())}. Its tensors: {some}"
    f"{', ...' if len(found) > 4 else ''}."
  )


def _all_marks() -> list[str]:
  families = [ORIGINAL.get(name) for name in ORIGINAL.names()]
  marks = dict.fromkeys(mark for one in families for mark in _marks(one))
  return list(marks)


def _marks(family: Original) -> tuple[str, ...]:
  return family.marks or family.names.required[:1]
