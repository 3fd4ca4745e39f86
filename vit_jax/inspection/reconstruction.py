"""Images as seen and predicted by a checkpoint's masked autoencoder."""

from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import UInt8

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data import facts
from vit_jax.inspection import network
from vit_jax.objectives import build
from vit_jax.weights import stacking
from vit_jax.weights.contract import Weights

Drawn = tuple[
  UInt8[np.ndarray, "n h w 3"], UInt8[np.ndarray, "n h w 3"], np.ndarray
]


def reconstruct(
  weights: Weights, images: Sequence[UInt8[np.ndarray, "h w 3"]]
) -> Drawn | None:
  """Returns masked images, images with hidden patches predicted, and losses.

  Args:
    weights: Parameters, including those of the objective.
    images: Images of the network's size.

  Returns:
    uint8 [n, h, w, 3] twice and float32 [n]; None if the checkpoint's
    objective predicts no pixels, or it has no decoder.
  """
  if weights.objective is None or not images or not weights.beside:
    return None
  if not registry.OBJECTIVES.get(weights.objective.name).beside:
    return None  # Others compare views of an image or learn from files.
  model = network.unrolled(weights.model).updated(num_classes=None)
  config = schema.Config(
    total_steps=1,
    model=model,
    objective=weights.objective,
    train=schema.Train(preprocess="decode|resize|keep('image')"),
  )
  declared = facts.declare(config, num_classes=None, num_examples=None)
  objective = build.build(config, declared, 1)
  params = stacking.unstack_layers(weights.params)
  for name, tree in weights.beside.items():
    is_tree = isinstance(tree, dict)
    params[name] = stacking.unstack_layers(tree) if is_tree else tree
  batch = {
    "image": np.stack(images),
    "id": np.arange(len(images), dtype=np.int32),
  }
  found = jax.device_get(jax.jit(objective.outputs)(params, batch))
  if "reconstruction" not in found:
    return None
  return (
    found["masked"],
    found["reconstruction"],
    found["reconstruction_loss"],
  )
