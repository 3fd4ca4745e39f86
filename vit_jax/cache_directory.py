"""The directory of what can be computed or fetched again."""

import os
import pathlib


def path() -> pathlib.Path:
  """$XDG_CACHE_HOME/vit_jax, or ~/.cache/vit_jax; it need not exist."""
  home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
  return pathlib.Path(home) / "vit_jax"
