"""State dicts in PyTorch's checkpoints, and the names of their tensors."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from vit_jax.errors import UserError

TEACHER, STUDENT = "teacher", "student"
# Keys under which a checkpoint keeps its state dict; the first present is used.
_CONTAINERS = (
  "model",
  "state_dict",
  "model_state_dict",
  "net",
  "module",
  "model_ema",
  "state_dict_ema",
  TEACHER,
  STUDENT,
)
# Prefixes of networks that are attributes of a Lightning module, that are
# trained in parallel or compiled, in either order, and of those stored with
# their heads.
_PREFIXES = ("model.", "_orig_mod.", "module.", "_orig_mod.", "backbone.")


def containers(file: Mapping[Any, Any]) -> list[str]:
  """Names of the known state dicts that a checkpoint holds, best first."""
  return [key for key in _CONTAINERS if isinstance(file.get(key), dict)]


def chosen(
  file: Mapping[Any, Any], path: str, notes: list[str], part: str | None
) -> dict[str, np.ndarray]:
  """Reads a checkpoint's state dict, which may be the checkpoint itself.

  Args:
    file: Result of `torch_file.read`.
    path: Path of the file, for messages.
    notes: Extended by a note on which of several state dicts is used.
    part: Name of the state dict to read; None for the best known one.

  Raises:
    UserError: There is no such part, the tensors are in a dictionary of an
      unknown name, or two arrays have the same name.
  """
  if part is not None:
    if not isinstance(file.get(part), dict):
      raise UserError(
        f"{path} has no dictionary '{part}' of tensors{_offered(file, path)}."
      )
    return arrays(file[part], path)
  there = containers(file)
  full = _dictionaries(file)
  # Others may have settings under such a name.
  there.sort(key=lambda name: name not in full)
  if len(there) > 1:
    notes.append(
      f"The file holds {' and '.join(there)}: '{there[0]}' is taken. To read"
      f" another one, add its name to the path, as in {path}/{there[1]}."
    )
  found = arrays(file[there[0]] if there else file, path)
  if not found and full:
    raise UserError(
      f"{path} holds its tensors in a dictionary of an unknown name"
      f"{_offered(file, path)}."
    )
  return found


def _dictionaries(file: Mapping[Any, Any]) -> list[str]:
  """Names of the dictionaries that hold arrays."""
  return [
    name
    for name, value in file.items()
    if isinstance(name, str) and isinstance(value, dict)
    if any(isinstance(item, np.ndarray) for item in value.values())
  ]


def _offered(file: Mapping[Any, Any], path: str) -> str:
  """Returns a clause on the dictionaries that a path may name."""
  names = _dictionaries(file)
  return (
    f"; name one of these: {path}/" + f", {path}/".join(names) if names else ""
  )


def arrays(state: Mapping[Any, Any], path: str) -> dict[str, np.ndarray]:
  """Returns a state dict's arrays by their names in the bare network.

  Raises:
    UserError: Two arrays have the same name.
  """
  found: dict[str, np.ndarray] = {}
  for key, array in state.items():
    if not isinstance(key, str) or not isinstance(array, np.ndarray):
      continue
    name = key
    for prefix in _PREFIXES:
      name = name.removeprefix(prefix)
    if name in found:
      raise UserError(f"{path} holds '{name}' twice, as '{key}' too.")
    found[name] = array
  return found


def bare(
  found: Mapping[str, np.ndarray], path: str, marks: Collection[str]
) -> Mapping[str, np.ndarray]:
  """Removes the name of the attribute that holds the network, as in Lightning.

  All names must begin with it; a known network does not change.

  Args:
    found: Arrays, as returned by `arrays`.
    path: Path of the file, for messages.
    marks: Names any of which identifies a known network.

  Raises:
    UserError: Two arrays have the same name.
  """
  split = {name: name.partition(".") for name in found}
  attributes = {attribute for attribute, _, _ in split.values()}
  is_nested = len(attributes) == 1 and all(
    rest for _, _, rest in split.values()
  )
  if not is_nested or any(mark in found for mark in marks):
    return found
  inner = {split[name][2]: array for name, array in found.items()}
  return arrays(inner, path)
