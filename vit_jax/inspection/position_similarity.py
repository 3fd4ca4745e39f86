"""Similarity of the position embeddings of patches.

Figure 7, centre, of arXiv 2010.11929.
"""

import numpy as np
from jaxtyping import Float

from vit_jax.inspection.network import Network
from vit_jax.models.layers.embeddings import PositionEmbedding


def has_table(network: Network) -> bool:
  """Returns True if tokens get an embedding of their position."""
  return network.has_attention and network.module.pos_embedding not in (
    "none",
    "relative",
    "relative_bias",
  )


def table(network: Network) -> Float[np.ndarray, "rows columns d"]:
  """Returns the embeddings added to the patches before the first layer."""
  module = network.module
  kind = module.pos_embedding
  num_tables = module.depth if module.pos_embedding_at == "every_layer" else 1
  params = network.params["Transformer"].get("posembed_input", {})
  num_rows = network.num_extra_tokens - module.registers
  num_rows = num_rows if module.cls_position else 0
  tables = PositionEmbedding(kind, num_tables).apply(
    {"params": params}, network.grid, module.width, num_rows
  )
  patches = np.asarray(tables[0][num_rows:], np.float32)
  return patches.reshape(*network.grid, -1)


def similarity(
  embeddings: Float[np.ndarray, "rows columns d"],
) -> Float[np.ndarray, "rows columns rows columns"]:
  """Computes cosine similarities of all pairs; 0 for zero embeddings."""
  rows, columns, width = embeddings.shape
  flat = embeddings.reshape(-1, width).astype(np.float64)
  lengths = np.linalg.norm(flat, axis=1, keepdims=True)
  unit = flat / np.where(lengths > 0, lengths, 1)
  return (unit @ unit.T).reshape(rows, columns, rows, columns)


def by_distance(
  similarities: Float[np.ndarray, "rows columns rows columns"],
) -> Float[np.ndarray, " distances"]:
  """Averages similarity over positions 0, 1, 2, ... patches apart, rounded."""
  rows, columns = similarities.shape[:2]
  places = np.stack(np.mgrid[:rows, :columns], axis=-1).reshape(-1, 2)
  apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
  bins = np.rint(apart).astype(int).ravel()
  sums = np.bincount(bins, weights=similarities.ravel())
  return sums / np.bincount(bins)
