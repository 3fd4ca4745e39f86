"""State dicts in PyTorch's checkpoints, and the names of their tensors."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from vit_jax import truncate
from vit_jax.errors import UserError
from vit_jax.weight_paths import PICKLES

TEACHER, STUDENT = "teacher", "student"
# Networks of which one is taken if a state dict holds several: MoCo v3's
# evaluations take the one that is trained.
_TAKEN = (TEACHER, "base_encoder")
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
# Attributes of modules that are trained, next to the network.
_LOSSES = ("criterion", "loss", "loss_fn")
# Buffers, such as masks and states of random generators, have other names.
_PARAMETERS = ("weight", "bias")
# Attributes of Lightning modules that average the network.
_AVERAGES = ("ema_model", "model_ema", "ema")
_QUANTISED = ("int8", "uint8")
_STUDENT_ALONE = "The file holds a student without its teacher: it is taken."


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
    part: Name of the state dict to read, or of one of several networks in the
      best known one, with which the names of its tensors begin; None for the
      best known one.

  Raises:
    UserError: There is no such part, the tensors are in a dictionary of an
      unknown name, or two arrays have the same name.
  """
  outer, file = file, _unwrapped(file)
  for level in (file, outer):
    if part is not None and isinstance(level.get(part), dict):
      return chosen(level[part], path, notes, None)
  if part is not None:
    whole = chosen(file, path, [], None)
    network = _networks(whole).get(part)
    if not network:
      raise UserError(
        f"{path} has no dictionary '{part}' of tensors{_offered(file, path)}."
      )
    return arrays(network, path)
  there = containers(file)
  full = _dictionaries(file)
  # Others may have settings under such a name.
  there.sort(key=lambda name: name not in full)
  if len(there) > 1:
    notes.append(
      f"The file holds {' and '.join(there)}: '{there[0]}' is taken. To read"
      f" another one, add its name to the path, as in {path}/{there[1]}."
    )
  elif there == [STUDENT]:
    notes.append(_STUDENT_ALONE)
  found = arrays(file[there[0]] if there else file, path)
  has_floats = any(array.dtype == np.float32 for array in found.values())
  if full and not has_floats:
    raise UserError(
      f"{path} holds its tensors in a dictionary of an unknown name"
      f"{_offered(file, path)}."
    )
  return found


def _unwrapped(file: Mapping[Any, Any]) -> Mapping[Any, Any]:
  """Returns what a state dict's only container holds, if it is containers."""
  while len(there := containers(file)) == 1:
    inner = file[there[0]]
    is_state = any(isinstance(item, np.ndarray) for item in inner.values())
    if is_state or not containers(inner):
      break
    file = inner
  return file


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
    UserError: Two arrays have the same name, or one is quantised.
  """
  found: dict[str, np.ndarray] = {}
  for key, array in state.items():
    if not isinstance(key, str) or not isinstance(array, np.ndarray):
      continue
    name = _bare_name(key)
    if name in found:
      raise UserError(f"{path} holds '{name}' twice, as '{key}' too.")
    found[name] = array
    kind = array.dtype.name
    if kind in _QUANTISED and name.endswith(_PARAMETERS):
      raise UserError(
        f"{path}: '{name}' holds {kind}, but parameters are floating point"
        " numbers. Quantised weights have to be turned into these first."
      )
  return found


def _bare_name(name: str) -> str:
  for prefix in _PREFIXES:
    name = name.removeprefix(prefix)
  return name


def bare(
  found: Mapping[str, np.ndarray],
  path: str,
  marks: Collection[str],
  notes: list[str],
) -> Mapping[str, np.ndarray]:
  """Removes the name of the attribute that holds the network, as in Lightning.

  Of a teacher and a student, the teacher is taken, and of MoCo v3's encoders
  the one that is trained. A known network does not change.

  Args:
    found: Arrays, as returned by `arrays`.
    path: Path of the file, for messages.
    marks: Names any of which identifies a known network.
    notes: Extended by a note on tensors that are left out.

  Raises:
    UserError: Two arrays have the same name, there are several networks, or
      there is a loss alone.
  """
  losses = [name for name in found if name.partition(".")[0] in _LOSSES]
  if losses and len(losses) == len(found):
    raise UserError(
      f"{path} holds no network, only tensors of a loss:"
      f" {truncate.first(losses, 3)}. Take the file that has the network's"
      " parameters."
    )
  if losses:
    notes.append(f"Left out, of a loss: {truncate.first(losses, 3)}.")
    found = {name: x for name, x in found.items() if name not in losses}
  networks = _networks(found)
  if any(mark in found for mark in marks):
    averages = [name for name in _AVERAGES if name in networks]
    if not averages:
      return found
    note = f"Left out, an average of the network: {averages[0]}."
    if path.endswith(PICKLES):
      note += f" To read it, add its name: {path}/{averages[0]}."
    notes.append(note)
    return {
      name: x
      for name, x in found.items()
      if name.partition(".")[0] not in averages
    }
  known = [
    name
    for name, network in networks.items()
    if len(networks) == 1 or {*map(_bare_name, network)} & {*marks}
  ]
  if not known or "" in networks and len(networks) == 1:
    return found
  taken = next((name for name in _TAKEN if name in known), known[0])
  if len(known) > 1 and taken not in _TAKEN:
    raise UserError(
      f"{path} holds several networks, by the beginnings of their tensors'"
      f" names: {', '.join(known)}. "
      + (
        f"Add one to the path, as in {path}/{known[0]}."
        if path.endswith(PICKLES)
        else "Save the tensors of one of them alone."
      )
    )
  others = [name for name in networks if name != taken]
  if others:
    names = [name or truncate.first(list(networks[""]), 3) for name in others]
    notes.append(
      f"Only the tensors whose names begin with '{taken}.' are taken, without"
      f" {truncate.first(names, 5)}."
    )
  if taken == STUDENT:
    notes.append(_STUDENT_ALONE)
  return arrays(networks[taken], path)


def _networks(
  found: Mapping[str, np.ndarray],
) -> dict[str, dict[str, np.ndarray]]:
  """Groups arrays by the first part of their names; "" if it is all of it."""
  groups: dict[str, dict[str, np.ndarray]] = {}
  for name, array in found.items():
    first, dot, rest = name.partition(".")
    group, inner = (first, rest) if dot and rest else ("", name)
    groups.setdefault(group, {})[inner] = array
  return groups
