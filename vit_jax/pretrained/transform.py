"""The preprocessing of a checkpoint's evaluations, for any images."""

import os
from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from vit_jax.data import image_formats, spec
from vit_jax.data.single_images import SingleImages
from vit_jax.data.tf_import import tf
from vit_jax.errors import UserError
from vit_jax.pretrained import inference

Picture = str | os.PathLike | Image.Image | np.ndarray


def load_transform(
  path: str | os.PathLike, image_size: int | None = None
) -> "Transform":
  """Loads the preprocessing that belongs to a checkpoint.

  Args:
    path: A checkpoint as for `vit_jax.load`.
    image_size: Side of the images, in pixels; None for the checkpoint's.

  Raises:
    UserError: The checkpoint cannot be read.

  Example:
    model, params = vit_jax.load("runs/photos")
    transform = vit_jax.load_transform("runs/photos")
    logits = model.apply({"params": params}, transform("cat.jpg")[None])
  """
  use = inference.read(os.fspath(path))
  if image_size is not None:
    use = use.adapted(image_size=image_size)
  return Transform(
    use.weights.preprocess,
    use.weights.model.image_size,
    use.weights.class_names,
  )


class Transform:
  """Preprocesses images as in a network's evaluation.

  Attributes:
    preprocess: The ops, such as 'decode|resize_small(256)|central_crop(224)'.
    image_size: Side of the result, in pixels.
    class_names: Names of the checkpoint's classes; None if it has none.
  """

  def __init__(
    self, preprocess: str, image_size: int, class_names: Sequence[str] | None
  ):
    self.preprocess = preprocess
    self.image_size = image_size
    self.class_names = class_names
    self._parsed = spec.check(
      preprocess, image_size, where="preprocess", train=False
    )
    self._images = SingleImages(self._parsed)

  def __call__(self, image: Picture) -> UInt8[np.ndarray, "side side 3"]:
    """Preprocesses one image.

    Args:
      image: Path of a file, which is decoded as in evaluations; a Pillow image;
        or pixels, uint8 [h, w, 1 or 3].

    Raises:
      UserError: The file cannot be read, or the pixels have another type or are
        too few for the ops.
    """
    if isinstance(image, str | os.PathLike):
      return self._file(os.fspath(image))
    if isinstance(image, Image.Image):
      try:
        image = image_formats.pixels_of(image)
      except image_formats.UnreadablePixelsError as error:
        raise UserError(f"The image has {error}.") from None
    is_image = image.ndim == 3 and image.shape[-1] in (1, 3)
    if image.dtype != np.uint8 or not is_image:
      raise UserError(
        f"Pixels are {image.dtype} {list(image.shape)}; give uint8 [height,"
        " width, 3]."
      )
    if image.shape[-1] == 1:
      image = np.repeat(image, 3, axis=-1)
    try:
      return self._images.of_pixels(image)
    except (ValueError, tf.errors.OpError) as error:
      height, width, _ = image.shape
      raise UserError(
        f"The image of {width} x {height} pixels does not suit"
        f' "{self.preprocess}" ({type(error).__name__}).'
      ) from None

  def _file(self, path: str) -> np.ndarray:
    from vit_jax.data import image_files

    ((file,),) = image_files.read([path], self._parsed, batch_size=1)
    if file.pixels is None:
      raise UserError(file.problem)
    return file.pixels
