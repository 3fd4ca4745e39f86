"""Pointers that a clone without Git LFS has instead of large files."""

from etils import epath

from vit_jax.errors import UserError

_START = b"version https://git-lfs.github.com/spec/"


def check(path: epath.Path) -> None:
  """Raises UserError if a file is a pointer."""
  with path.open("rb") as file:
    start = file.read(len(_START))
  if start == _START:
    raise UserError(
      f"{path} is a pointer of Git LFS, not the weights themselves: run"
      " `git lfs pull` in its repository, or download the file."
    )
