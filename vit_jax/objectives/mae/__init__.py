"""Masked autoencoders."""


def __getattr__(name: str):
  # It needs jax, which importing the package must not load.
  if name != "reconstruct":
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  from vit_jax.objectives.mae import reconstruction

  return reconstruction.reconstruct
