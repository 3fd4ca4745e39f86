"""Vision Transformers in JAX, from a laptop to a pod."""

__version__ = "0.1.0"
