"""Self-distillation of images and patches without labels: DINOv2."""


def __getattr__(name: str):
  # It needs jax, which importing the package must not load.
  if name != "koleo":
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  from vit_jax.objectives.dinov2 import spreading

  return spreading.koleo
