"""Detects google-research's package, which has the same import name.

google-research/vision_transformer also installs a package called `vit_jax`. In
the same environment the two overwrite each other's files, or the other one is
found first.
"""

import os
import sys

DISTRIBUTION = "vit-jax-framework"
# Files that only the other package has.
_FOREIGN = ("input_pipeline.py", "models_mixer.py", "models_vit.py")


def check() -> None:
  """Raises ImportError if the two packages are mixed up."""
  package = sys.modules["vit_jax"]
  here = os.path.dirname(os.path.abspath(__file__))
  foreign = [n for n in _FOREIGN if os.path.exists(os.path.join(here, n))]
  if hasattr(package, "__version__") and not foreign:
    return
  raise ImportError(
    f"The package vit_jax found at {os.path.dirname(package.__file__)} is"
    " google-research/vision_transformer's, or mixed with it; the two share a"
    " name and cannot share an environment. Run `pip uninstall vit_jax"
    f" {DISTRIBUTION}` and install {DISTRIBUTION} again."
  )
