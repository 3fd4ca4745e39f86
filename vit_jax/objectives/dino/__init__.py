"""Self-distillation without labels: DINO."""


def __getattr__(name: str):
  # It needs jax, which importing the package must not load.
  if name != "sinkhorn":
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  from vit_jax.objectives.dino import prototypes

  return prototypes.sinkhorn
