"""Vision Transformers in JAX, from a laptop to a pod."""

from vit_jax import installation as _installation

__version__ = "0.1.0"

_installation.check()
