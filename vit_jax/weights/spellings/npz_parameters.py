"""The network's parameters among the arrays of a published .npz file."""

from collections.abc import Iterable

from vit_jax.errors import UserError

# Prefix of a checkpoint's parameters (the first one present is used), and the
# other contents of such a checkpoint. [VT] [BV]
_TRAINING = {
  "opt/": "the optimizer's state",
  "extra/": "the trainer's counters",
}
_ROOTS = (("opt/target/", _TRAINING), ("params/", _TRAINING), ("", {}))
# An image-text model has its parts side by side. Its image tower alone is a
# network too.
IMAGE_TOWER, TEXT_TOWER = "img/", "txt/"


def find(names: Iterable[str], path: str) -> tuple[dict[str, str], list[str]]:
  """Finds the network's parameters among the arrays of a file.

  Args:
    names: Names of all arrays.
    path: Path of the file, for messages.

  Returns:
    {name in the file: name without its prefix}, and a sentence for each kind
    of array that is left out.

  Raises:
    UserError: There are no parameters.
  """
  names = list(names)
  root, others = next(
    (root, others)
    for root, others in _ROOTS
    if any(name.startswith(root) for name in names) or not root
  )
  left_out: dict[str, int] = {}
  found: dict[str, str] = {}
  for name in names:
    kind = next(
      (k for start, k in others.items() if name.startswith(start)), ""
    )
    if root and name.startswith(root):
      found[name] = name.removeprefix(root)
    elif kind:
      left_out[kind] = left_out.get(kind, 0) + 1
    else:
      found[name] = name
  if not any(short.startswith(TEXT_TOWER) for short in found.values()):
    found = {n: short.removeprefix(IMAGE_TOWER) for n, short in found.items()}
  if not found:
    raise UserError(f"{path} holds no parameters: {_some(names)}.")
  sentences = [
    f"Left out: {kind} ({count} arrays)." for kind, count in left_out.items()
  ]
  return found, sentences


def _some(names: list[str]) -> str:
  if not names:
    return "it is empty"
  more = ", ..." if len(names) > 5 else ""
  return f"its arrays are {', '.join(names[:5])}{more}"
