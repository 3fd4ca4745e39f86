"""PyTorch checkpoints of those who published a family."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from etils import epath

from vit_jax.errors import UserError
from vit_jax.weights import state_dict, tensors, torch_file
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import names
from vit_jax.weights.spellings.contract import SCRIPT_NOTE, Original
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.registry import ORIGINAL

# Weights in a directory of open_clip's, the first that is there is taken.
OPEN_CLIP_FILES = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")


def read(path: epath.PathLike) -> Weights:
  """Reads the parameters of a checkpoint, and the network that they make up.

  Args:
    path: A .pth, .pt, .bin or .ckpt file; or a directory of open_clip's or a
      .safetensors in it.

  Raises:
    UserError: The file is damaged, or its network is not one of ours.
  """
  where = str(path)
  notes: list[str] = []
  file = _file(epath.Path(path))
  contents: Mapping[Any, Any] = {}
  if file.suffix == tensors.SUFFIX:
    found = tensors.read(file)
  else:
    contents = torch_file.read(file)
    if (modules := contents.get(torch_file.SCRIPT)) is not None:
      notes.append(SCRIPT_NOTE)
      contents = dict(_joined(modules))
    found = _parameters(state_dict.chosen(contents, where, notes))
  family = _family(found, where)
  weights = _weights(family, found, where, notes)
  both = [state_dict.TEACHER, state_dict.STUDENT]
  has_both = state_dict.containers(contents)[:2] == both
  if weights.objective is None or not has_both:
    return weights
  return _with_student(weights, family, contents, found)


def _weights(
  family: Original, found: Tensors, where: str, notes: list[str]
) -> Weights:
  """The network of a state dict and what it learned by."""
  beside, objective = family.beside(found)
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
  )


def _with_student(
  teacher: Weights,
  family: Original,
  contents: Mapping[Any, Any],
  of_teacher: Tensors,
) -> Weights:
  """A teacher with the student that it is an average of.

  A student that is not whole, as in a file that was cut to what is evaluated,
  is left out.
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
      " continue with the student and the heads too.",
    ),
  )


def _joined(
  modules: Mapping[Any, Any], prefix: str = ""
) -> Iterator[tuple[str, np.ndarray]]:
  """Arrays by the names of a state dict, of the attributes of modules."""
  for name, value in modules.items():
    if isinstance(value, dict):
      yield from _joined(value, f"{prefix}{name}.")
    else:
      yield f"{prefix}{name}", value


def _file(path: epath.Path) -> epath.Path:
  """The file of weights in a directory of open_clip's; a file is itself."""
  if not path.is_dir():
    return path
  for name in OPEN_CLIP_FILES:
    if (path / name).exists():
      return path / name
  raise UserError(
    f"{path} holds no weights: there is none of {', '.join(OPEN_CLIP_FILES)}."
  )


def _parameters(arrays: Tensors) -> dict[str, np.ndarray]:
  """Those without counts and tables of indices, which follow from shapes."""
  return {n: x for n, x in arrays.items() if x.dtype == np.float32}


def _family(found: Tensors, path: str) -> Original:
  families = [ORIGINAL.get(name) for name in ORIGINAL.names()]
  for family in families:
    if any(name in found for name in _marks(family)):
      return family
  some = ", ".join(sorted(found)[:4]) or "none"
  marks = dict.fromkeys(mark for one in families for mark in _marks(one))
  raise UserError(
    f"{path} is not a checkpoint of"
    f" {', '.join(family.label for family in families)}: it has none of"
    f" {', '.join(marks)}. Its tensors: {some}"
    f"{', ...' if len(found) > 4 else ''}."
  )


def _marks(family: Original) -> tuple[str, ...]:
  return family.marks or family.names.required[:1]
