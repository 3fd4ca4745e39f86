"""Contrastive learning of images and texts: CLIP, SigLIP and LiT."""


def __getattr__(name: str):
  # The losses need jax, which importing the package must not load.
  if name not in ("softmax_loss", "sigmoid_loss"):
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  from vit_jax.objectives.contrastive import losses

  return getattr(losses, name)
