"""A tf.data pipeline without exactness, the baseline for the speed of ours.

Files are shuffled in memory, augmentation draws from TensorFlow's global state,
and threads return images in any order, so that no two runs are alike.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from vit_jax.data import encoded, ops_augment
from vit_jax.data.sources import Source
from vit_jax.data.spec import Call, Preprocess
from vit_jax.data.tf_import import tf
from vit_jax.errors import UserError

# Records of a source without files are held in memory, up to this number.
_MAX_RECORDS = 2000

Tensor = Any
Image = encoded.JpegImage | encoded.PixelImage


def _inception_crop(
  image: Image,
  size: int,
  area_min: float,
  area_max: float,
  ratio_min: float,
  ratio_max: float,
) -> Tensor:
  begin, extent, _ = tf.image.sample_distorted_bounding_box(
    image.shape(),
    tf.zeros([0, 0, 4], tf.float32),
    area_range=(area_min / 100, area_max / 100),
    aspect_ratio_range=(ratio_min, ratio_max),
    min_object_covered=0.0,
    use_image_if_no_bounding_boxes=True,
  )
  top, left, _ = tf.unstack(begin)
  height, width, _ = tf.unstack(extent)
  pixels = image.crop(tf.stack([top, left, height, width]))
  return tf.image.resize(pixels, (size, size))


def _random_resized_crop(image: Image, size: int, **arguments: Any) -> Tensor:
  return ops_augment.random_resized_crop(image, _any_seed(), size, **arguments)


def _any_seed() -> Tensor:
  return tf.random.uniform([2], maxval=tf.int64.max, dtype=tf.int64)


def _resize(
  image: Image, size: int, method: str, antialias: bool, scale: float
) -> Tensor:
  side = round(scale * size)
  return tf.image.resize(
    image.pixels(), (side, side), method, antialias=antialias
  )


def _opener(form: int) -> Callable[[Tensor], Image]:
  """Function that opens an image of a form as a plain pipeline would."""
  if form <= encoded.UPRIGHT_JPEG:
    return encoded.JpegImage
  if form == encoded.PNG:
    return lambda data: encoded.PixelImage(tf.io.decode_png(data, channels=3))
  return lambda data: encoded.PixelImage(encoded.decode_other(data))


# The first op decodes what it needs.
_FIRST: dict[str, Callable[..., Tensor]] = {
  "inception_crop": _inception_crop,
  "random_resized_crop": _random_resized_crop,
  "resize": _resize,
}


def batches(
  source: Source, preprocess: Preprocess, *, batch_size: int
) -> Iterator[dict[str, np.ndarray]]:
  """Returns endless batches of the form of ours, in no reproducible order.

  Args:
    source: Source of encoded images, all of one format; TensorFlow reads them
      if its names are paths.
    preprocess: 'decode|inception_crop', 'decode|random_resized_crop' or
      'decode|resize', with arguments, then any ops of `ops_augment`, which
      are the same functions with seeds drawn at random, and optionally
      flip_lr.
    batch_size: Number of images in a batch.

  Raises:
    UserError: There is no plain form of the preprocessing or the images.
  """
  ids = np.arange(min(source.num_examples, _MAX_RECORDS))
  record = source.read(ids)
  if source.image_shape:
    raise UserError(
      "The plain pipeline reads encoded images, and these are pixels; choose a"
      " dataset of files."
    )
  # A turned JPEG is decoded as an upright one.
  forms = encoded.forms(record["image"])
  forms = np.unique(np.where(forms < encoded.PNG, encoded.UPRIGHT_JPEG, forms))
  if len(forms) > 1:
    raise UserError(
      "The plain pipeline reads images of one format, and these are of several;"
      " choose a dataset of JPEGs, of PNGs or of others."
    )
  opened = _opener(int(forms[0]))
  names = source.names(ids)
  are_files = all(map(tf.io.gfile.exists, names[:1]))
  images = names if are_files else record["image"].tolist()
  first, others, flips = _plain_ops(preprocess)

  def example(image: Tensor, label: Tensor) -> dict[str, Tensor]:
    data = tf.io.read_file(image) if are_files else image
    pixels = _FIRST[first.name](opened(data), **first.kwargs)
    pixels = tf.cast(pixels, tf.uint8)
    for op in others:
      pixels = op.op.function(
        encoded.PixelImage(pixels), _any_seed(), **op.kwargs
      )
    if flips:
      pixels = tf.image.random_flip_left_right(pixels)
    return {"image": pixels, "label": label}

  return (
    tf.data.Dataset.from_tensor_slices((images, record["label"]))
    .shuffle(len(ids))
    .repeat()
    .map(example, num_parallel_calls=tf.data.AUTOTUNE)
    .batch(batch_size, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
    .as_numpy_iterator()
  )


def _plain_ops(preprocess: Preprocess) -> tuple[Call, list[Call], bool]:
  """Returns the op after decode, those after it, and True if they flip."""
  first, *others = preprocess.calls[1:] or (None,)
  flips = bool(others) and others[-1].name == "flip_lr"
  others = others[: len(others) - flips]
  if first and first.name in _FIRST and all(map(_is_augmentation, others)):
    return first, others, flips
  raise UserError(
    f'There is no plain form of {preprocess.where} = "{preprocess.text}"; use'
    f" decode, then {' or '.join(_FIRST)}, then any augmentations, then"
    " flip_lr."
  )


def _is_augmentation(call: Call) -> bool:
  return call.op.function.__module__ == ops_augment.__name__
