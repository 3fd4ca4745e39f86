"""Two towers with comparable embeddings: CLIP, SigLIP and LiT."""

from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from vit_jax.models.layers.normalize import Images

# Added to the length of an embedding, as in big_vision.
_EPSILON = 1e-8


class Projection(nn.Module):
  """x W, or x W + b, in float32."""

  size: int
  use_bias: bool

  @nn.compact
  def __call__(self, x: Float[Array, "b d"]) -> Float[Array, "b e"]:
    width = x.shape[-1]
    kernel = self.param(
      "kernel", nn.initializers.normal(width**-0.5), (width, self.size)
    )
    x = jnp.matmul(x, kernel, precision="highest")
    if not self.use_bias:
      return x
    bias = self.param("bias", nn.initializers.zeros, (self.size,))
    return x + bias[None]


class TwoTowers(nn.Module):
  """A network from images and texts to embeddings of unit length and logits.

  Attributes:
    image: The image tower, without a head.
    text: The text tower.

  The other attributes are the keys of `config.model` with the same names;
  `embedding_size` is a number.
  """

  family: ClassVar[str] = "two_towers"
  num_classes: ClassVar[None] = None

  image: nn.Module
  text: nn.Module
  embedding_size: int
  image_projection: str = "none"
  text_projection: str = "affine"
  scale_init: float = 10.0
  bias_init: float | None = None

  def setup(self):
    self._project_image = self._projection("image")
    self._project_text = self._projection("text")
    log_scale = nn.initializers.constant(np.log(self.scale_init))
    self._log_scale = self.param("logit_scale", log_scale, ())
    if self.bias_init is not None:
      bias = nn.initializers.constant(self.bias_init)
      self._bias = self.param("logit_bias", bias, ())

  def _projection(self, tower):
    kind = getattr(self, f"{tower}_projection")
    if kind == "none":
      return None
    return Projection(
      self.embedding_size, kind == "affine", name=f"{tower}_projection"
    )

  def __call__(
    self,
    images: Images | None = None,
    text: Int[Array | np.ndarray, "t n"] | None = None,
    *,
    train: bool = False,
  ) -> dict[str, Float[Array, "..."]]:
    """Computes embeddings of the given inputs, all in float32.

    Args:
      images: Images, as for the image tower.
      text: Tokens, as returned by the tokenizer.
      train: True to apply dropout and stochastic depth.

    Returns:
      `image_embedding` [b, e] and `text_embedding` [t, e], of unit length; with
      both inputs, also `logits` [b, t].
    """
    if self.is_initializing():  # All parameters, for any inputs.
      side = self.image.image_size
      if images is None:
        images = jnp.zeros((1, side, side, 3), jnp.uint8)
      if text is None:
        text = jnp.zeros((1, self.text.length), jnp.int32)
    found = {}
    if images is not None:
      found["image_embedding"] = self.embed_images(images, train=train)
    if text is not None:
      found["text_embedding"] = self.embed_text(text, train=train)
    if len(found) == 2:
      similarities = jnp.matmul(
        found["image_embedding"],
        found["text_embedding"].T,
        precision="highest",
      )
      found["logits"] = similarities * self.scale()
      if self.bias_init is not None:
        found["logits"] += self._bias
    return found

  def embed_images(
    self, images: Images, *, train: bool = False
  ) -> Float[Array, "b e"]:
    """Computes embeddings of images, of unit length."""
    x = self.image_features(images, train=train)
    self.sow("intermediates", "representation", x)
    return self.embed_features(x)

  def image_features(
    self, images: Images, *, train: bool = False
  ) -> Float[Array, "b d"]:
    """Computes features of the image tower, before its projection."""
    return self.image(images, train=train)

  def embed_features(
    self, features: Float[Array, "b d"]
  ) -> Float[Array, "b e"]:
    """Computes embeddings, of unit length, from `image_features`."""
    if self._project_image is not None:
      features = self._project_image(features)
    return _unit(features)

  def embed_text(
    self, text: Int[Array | np.ndarray, "t n"], *, train: bool = False
  ) -> Float[Array, "t e"]:
    """Computes embeddings of texts, of unit length."""
    x = self.text(jnp.asarray(text), train=train)
    return _unit(x if self._project_text is None else self._project_text(x))

  def scale(self) -> Float[Array, ""]:
    """Factor of the similarities."""
    return jnp.exp(self._log_scale)

  def bias(self) -> Float[Array, ""] | None:
    """Addend of the logits; None for no bias."""
    return None if self.bias_init is None else self._bias


def _unit(x: Float[Array, "b e"]) -> Float[Array, "b e"]:
  x = x.astype(jnp.float32)
  return x / (jnp.linalg.norm(x, axis=-1, keepdims=True) + _EPSILON)
