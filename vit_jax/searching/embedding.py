"""Embeddings of images and texts by a checkpoint, for an index."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from vit_jax import registry
from vit_jax.errors import UserError
from vit_jax.evaluators import file_outputs, text_rows
from vit_jax.models import build as models_build
from vit_jax.objectives import contract
from vit_jax.pretrained.inference import Inference
from vit_jax.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
  from vit_jax.data.image_files import ImageFile


def fingerprint(use: Inference) -> str:
  """Digest of all that embeddings of images depend on."""
  model = use.weights.model.model_dump_json()
  parts = (contract.digest(use.weights.params), model, use.weights.preprocess)
  return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:32]


def of_images(
  use: Inference, paths: Sequence[str], *, batch_size: int
) -> Iterator[tuple["ImageFile", np.ndarray | None]]:
  """Embeds image files on all devices.

  Args:
    use: The checkpoint.
    paths: Image files.
    batch_size: As `file_outputs.batch_size` gives it.

  Yields:
    Each file in order, with its embedding, float32 [e] of unit length, or None
    where `problem` says why it has no pixels.

  Raises:
    UserError: The network gives no vector for an image, or its parameters are
      damaged.
  """
  embed = _image_function(use)
  for file, row in file_outputs.rows(use, paths, embed, batch_size=batch_size):
    _check_finite(row, use)
    yield file, row


def of_texts(
  use: Inference, tokenizer: Tokenizer, texts: Sequence[str]
) -> Float[np.ndarray, "n e"]:
  """Embeds texts.

  Raises:
    UserError: The parameters are damaged.
  """
  rows = text_rows.embed(use, tokenizer, texts)
  _check_finite(rows, use)
  return rows


def _image_function(
  use: Inference,
) -> Callable[[Any, UInt8[Array, "b h w c"]], Float[Array, "b e"]]:
  network = models_build.create(use.weights.model, num_classes=None)
  if registry.FAMILIES.get(use.weights.model.name).has_text:
    return lambda params, images: network.apply({"params": params}, images)[
      "image_embedding"
    ]

  def features(params, images):
    x = network.apply({"params": params}, images).astype(jnp.float32)
    if x.ndim != 2:
      raise UserError(
        f"{use.weights.path} gives features of shape {x.shape[1:]} for an"
        " image, and vectors are compared; give a checkpoint that pools its"
        " features."
      )
    return x / jnp.maximum(jnp.linalg.norm(x, axis=1, keepdims=True), 1e-12)

  return features


def _check_finite(rows: np.ndarray | None, use: Inference) -> None:
  if rows is not None and not np.isfinite(rows).all():
    raise UserError(
      f"{use.weights.path} gives embeddings that are not numbers; its"
      " parameters are not those of a trained network."
    )
