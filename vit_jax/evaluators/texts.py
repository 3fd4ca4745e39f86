"""Text embeddings from the text tower of a run."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from vit_jax.errors import UserError
from vit_jax.evaluators import contract
from vit_jax.sharding import arrays
from vit_jax.sharding import mesh as meshes


class TextEmbedder:
  """Embeds texts in batches that are divided over the devices.

  Args:
    context: Context of the run; its config names the tokenizer.
    key: Config key of the evaluator, for messages.
    batch_size: Number of texts on all devices together.

  Attributes:
    tokenize: The tokenizer, from texts to int32 [n, length].

  Raises:
    UserError: The tokenizer is not given, cannot be read, or does not match the
      model.
  """

  def __init__(self, context: contract.Context, *, key: str, batch_size: int):
    from vit_jax.data import caption_tokens

    config = context.config
    self._key = key
    self._context = context
    self.tokenize = caption_tokens.load(
      config.train.tokenizer,
      length=config.model.text.length,
      vocab_size=config.model.text.vocab_size,
      where=key,
    )
    shards = meshes.batch_shards(context.mesh)
    self._batch_size = -(-batch_size // shards) * shards
    self._embed = jax.jit(
      self._embed_batch, out_shardings=meshes.replicated(context.mesh)
    )

  def __call__(
    self, params: Any, texts: Sequence[str]
  ) -> Float[np.ndarray, "n e"]:
    """Returns unit-length embeddings in the order of texts, on every process.

    Raises:
      UserError: An embedding is not finite.
    """
    sharding = meshes.batch_sharding(self._context.mesh)
    found = []
    for start in range(0, len(texts), self._batch_size):
      tokens = self.tokenize(list(texts[start : start + self._batch_size]))
      # A single shape, so that one program serves all.
      filled = np.pad(tokens, ((0, self._batch_size - len(tokens)), (0, 0)))
      batch = arrays.divided(filled.shape, sharding, filled.__getitem__)
      rows = jax.device_get(self._embed(params, batch))
      found.append(rows[: len(tokens)])
      self._context.heartbeat()
    embeddings = np.concatenate(found)
    if not np.isfinite(embeddings).all():
      raise UserError(
        f"{self._key}: the embeddings of some texts are NaN or infinite, so the"
        " parameters are damaged; evaluate an earlier checkpoint."
      )
    return embeddings

  def _embed_batch(
    self, params: Any, tokens: Int[Array, "b n"]
  ) -> Float[Array, "b e"]:
    outputs = self._context.outputs(params, {"text": tokens})
    return outputs["text_embedding"].astype(jnp.float32)
