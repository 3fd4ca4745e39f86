"""The directory for files that can be recomputed or downloaded again."""

import os
import pathlib


def path() -> pathlib.Path:
  """Returns $XDG_CACHE_HOME/vit_jax or ~/.cache/vit_jax; it may not exist."""
  home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
  return pathlib.Path(home) / "vit_jax"
