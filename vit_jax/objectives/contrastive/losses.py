"""Losses over all pairs of a global batch, in bounded memory.

If the rows of a batch are split over devices, blocks of texts are passed around
a ring: each device compares its images with one block at a time and passes the
block on. It never holds more than [local, local] logits, neither in the forward
nor in the backward pass, which is written by hand: automatic differentiation
would keep the logits of all blocks.

Each axis of the mesh has its own rings. Blocks go around the rings of the last
axis, which joins neighbours, before they move along the first: if the last axis
has length n, only 1 / n of what a device sends leaves a host.

The mesh is the one that is set when the loss is traced (`jax.set_mesh`, or
`vit_jax.sharding.activations.on`). Without one, or inside `jax.shard_map`, the
arguments are the whole batch.
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, AxisType, PartitionSpec
from jaxtyping import Array, Float

# Same as `vit_jax.sharding.mesh.BATCH_AXES`.
_BATCH_AXES = ("data", "fsdp")

Embeddings = Float[Array | np.ndarray, "_ e"]
Scalar = Float[Array | np.ndarray, ""] | float


def softmax_loss(
  image: Embeddings, text: Embeddings, scale: Scalar
) -> Float[Array, ""]:
  """Symmetric cross-entropy of CLIP (arXiv 2103.00020, figure 3).

  Args:
    image: Embeddings of unit length; row i belongs to row i of `text`.
    text: Embeddings of unit length.
    scale: Factor of the similarities, not its logarithm.

  Returns:
    The mean of the cross-entropy of each image among all texts and of each text
    among all images, float32.

  Raises:
    ValueError: The shapes differ.
  """
  return _loss(_SOFTMAX, image, text, scale, 0.0)


def sigmoid_loss(
  image: Embeddings, text: Embeddings, scale: Scalar, bias: Scalar
) -> Float[Array, ""]:
  """Sigmoid loss of SigLIP (arXiv 2303.15343, algorithm 1).

  Args:
    image: Embeddings of unit length; row i belongs to row i of `text`.
    text: Embeddings of unit length.
    scale: Factor of the similarities, not its logarithm.
    bias: Added to their product.

  Returns:
    -sum over all pairs of log sigmoid(z (scale x y + bias)) / b, with z = 1 for
    pairs that belong together and -1 for others, float32.

  Raises:
    ValueError: The shapes differ.
  """
  return _loss(_SIGMOID, image, text, scale, bias)


class _Block(NamedTuple):
  """Logits of a device's images with a block of texts.

  Attributes:
    logits: [local images, local texts].
    is_pair: True where image and text belong together.
    batch_size: Rows of the global batch.
  """

  logits: Float[Array, "i t"]
  is_pair: Array
  batch_size: int


class _Form(NamedTuple):
  """A loss, as computed by a device block by block.

  Attributes:
    start: (logits of the pairs) -> initial state of the images, or of a block
      of texts, with which it is passed on.
    add: (block, state of images, state of texts) -> both states updated with
      the block.
    loss: (state of images, state of texts) -> the device's share of the sum
      over examples.
    slope: (block, state of images, state of texts) -> derivative of the mean
      loss by each logit of the block.
  """

  start: Callable[[Array], Any]
  add: Callable[[_Block, Any, Any], tuple[Any, Any]]
  loss: Callable[[Any, Any], Array]
  slope: Callable[[_Block, Any, Any], Array]


class _Among(NamedTuple):
  """Softmax of each image among texts, or of each text among images.

  Attributes:
    own: Logit of the pair, relative to which the others are computed, so that a
      small loss is not a difference of large numbers.
    loss: Logarithm of the sum of exp(logit - own).
  """

  own: Float[Array, " i"]
  loss: Float[Array, " i"]


def _softmax_add(block, of_images, of_texts):
  others = jnp.where(block.is_pair, -jnp.inf, block.logits)

  def added(among, axis):
    above = others - jnp.expand_dims(among.own, axis)
    of_block = jax.nn.logsumexp(above, axis=axis)
    return among._replace(loss=jnp.logaddexp(among.loss, of_block))

  return added(of_images, 1), added(of_texts, 0)


def _softmax_slope(block, of_images, of_texts):
  def slope(among, axis):
    own, loss = (jnp.expand_dims(x, axis) for x in among)
    probability = jnp.exp(block.logits - own - loss)
    return jnp.where(block.is_pair, jnp.expm1(-loss), probability)

  return (slope(of_images, 1) + slope(of_texts, 0)) / (2 * block.batch_size)


_SOFTMAX = _Form(
  start=lambda own: _Among(own, jnp.zeros_like(own)),
  add=_softmax_add,
  loss=lambda images, texts: jnp.sum(images.loss + texts.loss) / 2,
  slope=_softmax_slope,
)


def _sigmoid_add(block, of_images, of_texts):
  signed = jnp.where(block.is_pair, block.logits, -block.logits)
  return of_images - jnp.sum(jax.nn.log_sigmoid(signed), axis=1), of_texts


def _sigmoid_slope(block, of_images, of_texts):
  del of_images, of_texts
  signed = jnp.where(block.is_pair, -block.logits, block.logits)
  slope = jax.nn.sigmoid(signed)
  return jnp.where(block.is_pair, -slope, slope) / block.batch_size


_SIGMOID = _Form(
  start=jnp.zeros_like,
  add=_sigmoid_add,
  loss=lambda images, texts: jnp.sum(images),
  slope=_sigmoid_slope,
)


class _Inputs(NamedTuple):
  image: Array
  text: Array
  scale: Array
  bias: Array


def _loss(form, image, text, scale, bias):
  if image.shape != text.shape or image.ndim != 2:
    raise ValueError(
      f"Embeddings of images, {image.shape}, and of texts, {text.shape}, must"
      " be pairs of vectors of one length."
    )
  inputs = _Inputs(
    image.astype(jnp.float32),
    text.astype(jnp.float32),
    jnp.asarray(scale, jnp.float32),
    jnp.asarray(bias, jnp.float32),
  )
  return _on_ring(form, _ring_of(len(image)), inputs)


def _ring_of(rows: int) -> tuple[AbstractMesh, tuple[str, ...]] | None:
  """Returns the current mesh and its batch axes; None if there is no ring."""
  mesh = jax.sharding.get_abstract_mesh()
  if mesh.empty or any(t != AxisType.Auto for t in mesh.axis_types):
    return None
  axes = tuple(axis for axis in _BATCH_AXES if axis in mesh.axis_names)
  shards = math.prod(mesh.shape[axis] for axis in axes)
  return (mesh, axes) if shards > 1 and rows % shards == 0 else None


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _on_ring(form, ring, inputs):
  """Computes the loss; the forward pass finds `ring` (`placement.of_heads`)."""
  return _forward(form, ring, inputs)[0]


def _forward(form, ring, inputs):
  loss, *sums = _each_device(
    ring,
    functools.partial(_local_loss, form),
    in_rows=(True, True, False, False),
    out_rows=(False, True, True),
  )(*inputs)
  return loss, (inputs, *sums)


def _backward(form, ring, saved, gradient):
  inputs, of_images, of_texts = saved
  slopes = _each_device(
    ring,
    functools.partial(_local_slopes, form),
    in_rows=(True, True, False, False, True, True),
    out_rows=(True, True, False, False),
  )(*inputs, of_images, of_texts)
  return (_Inputs(*(gradient * slope for slope in slopes)),)


_on_ring.defvjp(_forward, _backward)


class _Ring(NamedTuple):
  """The devices among which the rows of a batch are split.

  Attributes:
    axes: Length of each axis of the mesh; {} for a single device.
  """

  axes: Mapping[str, int]

  @property
  def size(self) -> int:
    """Returns the number of devices."""
    return math.prod(self.axes.values())

  def around(
    self,
    add: Callable[[Any, Any, Array], tuple[Any, Any]],
    kept: Any,
    moves: Any,
  ) -> tuple[Any, Any]:
    """Passes arrays around all devices and back to their own.

    Args:
      add: (kept, moves, whether they are on their own device) -> both, on each
        device.
      kept: Arrays that stay.
      moves: Arrays that are passed on.
    """
    axes = [(axis, size) for axis, size in self.axes.items() if size > 1]

    def along(level: int, carry: Any, at_home: Array) -> Any:
      if level == len(axes):
        return add(*carry, at_home)
      axis, size = axes[level]
      steps = [(i, (i + 1) % size) for i in range(size)]

      def step(carry, number):
        kept, moves = along(level + 1, carry, at_home & (number == 0))
        moves = jax.tree.map(lambda x: jax.lax.ppermute(x, axis, steps), moves)
        return (kept, moves), None

      return jax.lax.scan(step, carry, jnp.arange(size))[0]

    return along(0, (kept, moves), jnp.array(True))

  def total(self, value: Array) -> Array:
    """Sums over all devices."""
    return jax.lax.psum(value, tuple(self.axes)) if self.size > 1 else value


def _each_device(ring, function, *, in_rows, out_rows):
  """Calls `function(ring, *arrays)` on each device's rows.

  Args:
    ring: Mesh and axes; None for a single device.
    function: Function from arrays to a tuple of arrays.
    in_rows: For each argument, whether its rows are split.
    out_rows: For each result, whether its rows are split.
  """
  if ring is None:
    return functools.partial(function, _Ring({}))
  mesh, axes = ring

  def specs(rows):
    return tuple(PartitionSpec(axes if row else None) for row in rows)

  scalar = PartitionSpec()
  return jax.shard_map(
    functools.partial(function, _Ring({a: mesh.shape[a] for a in axes})),
    mesh=mesh,
    in_specs=tuple(
      spec if row else scalar
      for spec, row in zip(specs(in_rows), in_rows, strict=True)
    ),
    out_specs=tuple(
      spec if row else scalar
      for spec, row in zip(specs(out_rows), out_rows, strict=True)
    ),
    check_vma=False,
  )


def _products(image, text):
  # Full precision: by default TPUs round float32 to bfloat16 before
  # multiplying.
  return jnp.matmul(image, text.T, precision="highest")


def _block(ring, image, text, scale, bias, at_home):
  """Computes a block of logits and the similarities behind them."""
  similarities = _products(image, text)
  own = jnp.eye(len(image), dtype=bool) & at_home
  logits = similarities * scale + bias
  return similarities, _Block(logits, own, ring.size * len(image))


def _local_loss(form, ring, image, text, scale, bias):
  """Computes the loss, and the final state of each image and each text."""
  own = jnp.sum(image * text, axis=1) * scale + bias

  def add(of_images, moves, at_home):
    texts, of_texts = moves
    _, block = _block(ring, image, texts, scale, bias, at_home)
    of_images, of_texts = form.add(block, of_images, of_texts)
    return of_images, (texts, of_texts)

  start = form.start(own)
  of_images, (_, of_texts) = ring.around(add, start, (text, start))
  share = form.loss(of_images, of_texts) / (ring.size * len(image))
  return ring.total(share), of_images, of_texts


def _local_slopes(form, ring, image, text, scale, bias, of_images, of_texts):
  """Computes the derivatives of the loss by the four inputs."""

  def add(slopes, moves, at_home):
    by_image, by_scale, by_bias = slopes
    texts, of_texts, by_text = moves
    similarities, block = _block(ring, image, texts, scale, bias, at_home)
    slope = form.slope(block, of_images, of_texts)
    by_image += scale * jnp.matmul(slope, texts, precision="highest")
    by_text += scale * jnp.matmul(slope.T, image, precision="highest")
    by_scale += jnp.sum(slope * similarities)
    by_bias += jnp.sum(slope)
    return (by_image, by_scale, by_bias), (texts, of_texts, by_text)

  zero = jnp.zeros(())
  (by_image, by_scale, by_bias), (_, _, by_text) = ring.around(
    add,
    (jnp.zeros_like(image), zero, zero),
    (text, of_texts, jnp.zeros_like(text)),
  )
  return by_image, by_text, ring.total(by_scale), ring.total(by_bias)
