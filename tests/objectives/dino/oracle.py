"""The head of DINO and Sinkhorn's iterations in NumPy."""

import jax
import numpy as np
from scipy import special


def similarities(params, features, weight_norm=True):
  """Of features with each prototype, float64."""
  layers = jax.tree.map(np.float64, params)
  x = np.asarray(features, np.float64)
  for name in ("Dense_0", "Dense_1"):
    x = x @ layers[name]["kernel"] + layers[name]["bias"]
    x = x * special.ndtr(x)  # The exact GELU.
  x = x @ layers["Dense_2"]["kernel"] + layers["Dense_2"]["bias"]
  x = x / np.linalg.norm(x, axis=-1, keepdims=True)
  rows = layers["prototypes"]["kernel"]
  if not weight_norm:  # nn.Linear(bottleneck, prototypes, bias=False)
    return x @ rows.T
  rows = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
  if "length" in layers["prototypes"]:
    rows = rows * layers["prototypes"]["length"]
  return x @ rows.T


def sinkhorn(logits, temperature, iterations=3):
  """Columns, then rows, are scaled to a sum of one."""
  scaled = np.exp(logits.astype(np.float64) / temperature)
  for _ in range(iterations):
    scaled = scaled / scaled.sum(axis=0, keepdims=True)
    scaled = scaled / scaled.sum(axis=1, keepdims=True)
  return scaled
