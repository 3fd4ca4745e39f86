"""Builds a tokenizer of centres from a network and a dataset's images."""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Float

from vit_jax.errors import UserError
from vit_jax.objectives import frozen_network
from vit_jax.objectives.beit import centres as centres_lib

if TYPE_CHECKING:
  from vit_jax.data.sources import Source

_KEY = "--checkpoint"
_PREPROCESS = (
  "decode|resize_small(scale=1.14286, method='bicubic', antialias=True)"
  "|central_crop|keep('image')"
)
_BATCH = 32  # Images per batch.


def cluster(
  source: "Source",
  checkpoint: str,
  *,
  tokens: int = 8192,
  examples: int = 10_000,
  passes: int = 3,
  seed: int = 0,
  show: Callable[[str, int, int], None] = lambda *_: None,
) -> centres_lib.Centres:
  """Finds centres of the patch features of some images.

  The network sees images of its native size. The result is determined by the
  images, the network and the seed.

  Args:
    source: Images.
    checkpoint: Network with patches, a checkpoint in any format.
    tokens: Number of centres.
    examples: Maximum number of images, drawn at random.
    passes: Number of passes over these images.
    seed: Seed for the choice and order of images, and for the initial centres.
    show: `show(what, done, all)`, called after each batch.

  Raises:
    UserError: The network cannot be read or has no patches, or the images have
      fewer patches than there are tokens.
  """
  from vit_jax.data import pipeline, spec

  section = frozen_network.image_tower(frozen_network.model_in(checkpoint))
  section = section.updated(dtype="float32")
  network = frozen_network.read_patches(_KEY, checkpoint, section)
  preprocess = spec.check(
    _PREPROCESS, section.image_size, where="preprocess", train=False
  )
  rng = np.random.default_rng([seed, source.num_examples])
  ids = rng.permutation(source.num_examples)[:examples]
  params = jax.device_put(network.constants.params)
  compute = jax.jit(
    lambda params, images: network.patches(params, images, section)
  )
  seen, total = 0, passes * len(ids)

  def one_pass() -> Iterator[Float[np.ndarray, "m d"]]:
    nonlocal seen
    for start in range(0, len(ids), _BATCH):
      chosen = ids[start : start + _BATCH]
      images = np.zeros((_BATCH, *[section.image_size] * 2, 3), np.uint8)
      images[: len(chosen)] = pipeline.images(
        source, chosen, preprocess=preprocess
      )
      found = np.asarray(compute(params, images))[: len(chosen)]
      if not np.isfinite(found).all():
        raise UserError(
          f"{_KEY} = {checkpoint!r} has features that are NaN or infinite, so"
          " its parameters are damaged; take another checkpoint."
        )
      seen += len(chosen)
      show("images", seen, total)
      yield found.reshape(-1, found.shape[-1])

  rows = centres_lib.fit((one_pass() for _ in range(passes)), tokens, seed)
  (digest,) = network.constants.digests.values()
  # Another run may start elsewhere. Names with a colon are not local paths.
  path = checkpoint if ":" in checkpoint else os.path.abspath(checkpoint)
  return centres_lib.Centres(rows, path, digest)
