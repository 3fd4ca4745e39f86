"""Retrieval of images by captions, and of captions by images.

CLIP (arXiv 2103.00020, appendix E): recall at k is the fraction of captions
whose image is among the k nearest images, and the fraction of images with a
caption among the k nearest captions.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.evaluators import contract, retrieval_files
from vit_jax.evaluators.neighbors import Neighbors
from vit_jax.evaluators.opening import open_captioned_split
from vit_jax.evaluators.split import Split
from vit_jax.evaluators.texts import TextEmbedder
from vit_jax.sharding import mesh as meshes

RANKS = (1, 5, 10)


def build(
  name: str, config: schema.RetrievalEval, context: contract.Context
) -> "Retrieval":
  """Opens the data of `config.evals.<name>`.

  Raises:
    UserError: The data, their captions or the tokenizer are missing.
  """
  key = f"config.evals.{name}"
  splits = {
    dataset: open_captioned_split(
      context,
      key=f"{key}.datasets.{dataset}",
      batch_size=config.batch_size,
      **keys.model_dump(),
    )
    for dataset, keys in config.datasets.items()
  }
  batch_size = config.batch_size or context.config.train.batch_size
  embed = TextEmbedder(context, key=key, batch_size=batch_size)
  return Retrieval(name, splits, embed, context)


@dataclasses.dataclass(frozen=True)
class Found:
  """The nearest images for every text, or vice versa, nearest first.

  Attributes:
    similarity: Cosine similarities.
    row: Row indices of the results.
    right: True where a result belongs to the query.
  """

  similarity: Float[np.ndarray, "n k"]
  row: Int[np.ndarray, "n k"]
  right: np.ndarray  # bool [n, k]

  def recall(self, rank: int) -> float:
    """Returns the fraction of queries with a correct result up to `rank`."""
    return float(self.right[:, :rank].any(axis=1).mean(dtype=np.float64))


class Retrieval:
  """Recall in both directions, over all examples of several datasets.

  Args:
    name: Key in `config.evals`.
    splits: Name -> images with captions.
    embed: Embeds texts.
    context: Context of the run.
  """

  def __init__(
    self,
    name: str,
    splits: Mapping[str, Split],
    embed: TextEmbedder,
    context: contract.Context,
  ):
    self._name = name
    self._splits = splits
    self._embed = embed
    self._context = context
    self._embed_images = jax.jit(
      self._embed_batch, out_shardings=meshes.replicated(context.mesh)
    )

  def run(self, state: contract.EvaluatedState, step: int) -> dict[str, float]:
    """Returns `retrieval/<dataset>/{image_to_text,text_to_image}_r{1,5,10}`.

    They are fractions of the images and of the captions; the counts
    `num_images` and `num_texts` are returned as well. With fewer than 10
    candidates, all are among the first 10.

    Raises:
      UserError: A record has no caption, or an embedding is not finite.
    """
    metrics = {}
    for dataset, split in self._splits.items():
      found = self._measure(dataset, split, state.eval_params, step)
      metrics |= {f"retrieval/{dataset}/{k}": v for k, v in found.items()}
    return metrics

  def _measure(
    self, dataset: str, split: Split, params: Any, step: int
  ) -> dict[str, float]:
    captions = split.source.captions(np.arange(split.num_examples))
    texts = [text for one in captions for text in one]
    image_of = np.repeat(np.arange(len(captions)), [len(c) for c in captions])
    images = split.measured(
      functools.partial(self._embed_images, params),
      lambda *_: self._context.heartbeat(),
    )["embedding"]
    if not np.isfinite(images).all():
      raise UserError(
        f"{split.key}: the embeddings of some images are NaN or infinite, so"
        " the parameters are damaged; evaluate an earlier checkpoint."
      )
    embedded = self._embed(params, texts)
    to_text = self._search(
      images, embedded, np.arange(len(images)), found_belongs_to=image_of
    )
    to_image = self._search(
      embedded, images, image_of, found_belongs_to=np.arange(len(images))
    )
    if self._context.workdir is not None and jax.process_index() == 0:
      place = f"evaluations/{self._name}/{dataset}/{step}"
      retrieval_files.write(
        self._context.workdir / place, split, texts, to_text, to_image
      )
    directions = {"image_to_text": to_text, "text_to_image": to_image}
    metrics = {
      f"{direction}_r{rank}": found.recall(rank)
      for direction, found in directions.items()
      for rank in RANKS
    }
    return metrics | {
      "num_images": float(len(images)),
      "num_texts": float(len(texts)),
    }

  def _search(
    self,
    queries: Float[np.ndarray, "n e"],
    bank: Float[np.ndarray, "m e"],
    belongs_to: Int[np.ndarray, " n"],
    *,
    found_belongs_to: Int[np.ndarray, " m"],
  ) -> Found:
    """Finds the nearest rows of a bank; right if both belong to one image."""
    count = min(max(RANKS), len(bank))
    neighbors = Neighbors(bank, count=count, mesh=self._context.mesh)
    parts = []
    for part in neighbors.chunks(queries):
      parts.append(part)
      self._context.heartbeat()
    similarity, rows = (np.concatenate(x) for x in zip(*parts, strict=True))
    right = found_belongs_to[rows] == belongs_to[:, None]
    return Found(similarity, rows, right)

  def _embed_batch(
    self, params: Any, batch: Mapping[str, Array]
  ) -> dict[str, Array]:
    outputs = self._context.outputs(params, batch)
    embedding = outputs["image_embedding"].astype(jnp.float32)
    return {"embedding": embedding, "id": batch["id"], "mask": batch["mask"]}
