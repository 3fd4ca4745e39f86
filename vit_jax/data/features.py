"""The features of a batch: names, shapes, dtypes and ops.

A batch is a dictionary of arrays with examples along the first axis. It has one
feature for each view of the images, `text` if an op creates it and, unless the
data have none or the ops drop it, `label`. `train.preprocess` creates a single
view called `image`; with `train.views` each group of crops is a separate view:

  image                          uint8 [b, S, S, 3]
  a view with a count of k       uint8 [b, k, s, s, 3]
  text, of the op tokenize       int32 [b, length]
  label, one per example         int32 [b]
  label, up to m per example     int32 [b, m], padded with -1
  label, n numbers to predict    float32 [b, n]

Code that needs to know a batch in advance, such as the pipeline and the
compiler, uses `Features.batch_spec`. Neither TensorFlow nor jax is imported.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from etils import epy

from vit_jax.config import schema
from vit_jax.data import spec
from vit_jax.data.sources import Source
from vit_jax.data.spec import Preprocess
from vit_jax.errors import UserError

with epy.lazy_imports():  # So that checking a config does not wait for jax.
  import jax

IMAGE, LABEL, TEXT = "image", "label", "text"


@dataclasses.dataclass(frozen=True)
class View:
  """A group of crops of an image: the feature `name` of the batch.

  Attributes:
    preprocess: Ops that create one crop.
    count: Number of crops per image; None for one crop without an axis of its
      own.
  """

  name: str
  preprocess: Preprocess
  count: int | None = None

  @property
  def shape(self) -> tuple[int, ...]:
    """Shape of the feature for one example."""
    size = self.preprocess.image_size
    counted = () if self.count is None else (self.count,)
    return (*counted, size, size, 3)

  @property
  def streams(self) -> tuple[str, ...]:
    """Prefixes of the names of random streams for the ops of each crop."""
    if self.count is None:
      return ("",)
    return tuple(f"{self.name}/{index}/" for index in range(self.count))


@dataclasses.dataclass(frozen=True)
class Captions:
  """The feature `text`: tokens of one caption of each example.

  Attributes:
    call: Op that creates the feature.
    length: Number of tokens per text.
    vocab_size: Number of tokens that the model knows; None for any.
    tokenizer: File of the tokenizer, or "bytes"; None if not given.
  """

  call: spec.Call
  length: int
  vocab_size: int | None = None
  tokenizer: str | None = None


@dataclasses.dataclass(frozen=True)
class Features:
  """The declared features of a batch.

  Attributes:
    views: Groups of crops, in the order of the config.
    label_ops: Preprocessing with the label ops to apply.
    max_labels: Maximum number of labels per example after these ops; 0 for
      none.
    num_numbers: Number of numbers to predict per example instead of classes, if
      any.
    captions: Declaration of the text, if any.
    stored: (name, shape of an example) for float32 features stored in the
      source; then there are no views.
  """

  views: tuple[View, ...]
  label_ops: Preprocess
  max_labels: int = 1
  num_numbers: int = 0
  captions: Captions | None = None
  stored: tuple[tuple[str, tuple[int, ...]], ...] = ()

  def with_stored(self, name: str, shape: tuple[int, ...]) -> "Features":
    """Features with a stored one instead of all views and the labels."""
    return dataclasses.replace(
      self, views=(), max_labels=0, num_numbers=0, stored=((name, shape),)
    )

  @property
  def names(self) -> tuple[str, ...]:
    return tuple(self.example_spec())

  @property
  def ops_shown(self) -> str:
    return " and ".join(
      f'{view.preprocess.where} = "{view.preprocess.text}"'
      for view in self.views
    )

  def suited_to(
    self, num_classes: int | None, max_labels: int, num_numbers: int = 0
  ) -> tuple[int | None, "Features"]:
    """Returns the number of classes after the label ops, and the features.

    If labels are not classes, the first two arguments are None and 0.

    Raises:
      UserError: An op does not suit the source's labels.
    """
    num_classes, max_labels = self.label_ops.label_space(
      num_classes, max_labels
    )
    return num_classes, dataclasses.replace(
      self, max_labels=max_labels, num_numbers=num_numbers
    )

  def of_source(self, source: Source) -> "Features":
    """Returns the features of a source's batches; raises as `suited_to`."""
    _, features = self.suited_to(
      source.num_classes, source.max_labels, len(source.numbers)
    )
    return features

  def example_spec(self) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Shape and dtype of each feature, without the axis of examples."""
    found = {view.name: (view.shape, np.uint8) for view in self.views}
    found |= {name: (shape, np.float32) for name, shape in self.stored}
    if self.captions:
      found[TEXT] = ((self.captions.length,), np.int32)
    if self.num_numbers and self.label_ops.has_labels:
      found[LABEL] = ((self.num_numbers,), np.float32)
    elif self.max_labels and self.label_ops.has_labels:
      shape = () if self.max_labels == 1 else (self.max_labels,)
      found[LABEL] = (shape, np.int32)
    return found

  def batch_spec(self, batch_size: int) -> "dict[str, jax.ShapeDtypeStruct]":
    """Shape and dtype of each feature of a batch."""
    return {
      name: jax.ShapeDtypeStruct((batch_size, *shape), dtype)
      for name, (shape, dtype) in self.example_spec().items()
    }

  def on_device(self, batch: Any, rngs: Callable[[str], Any]) -> dict[str, Any]:
    """Applies the device ops to a global batch, under jit.

    Crops are drawn independently: the ops see [b * count, s, s, 3].

    Args:
      batch: Features from the pipeline.
      rngs: Function from the name of a random stream to its key at this step.
    """
    batch = dict(batch)
    for view in self.views:
      images = batch[view.name]
      prefix = "" if view.count is None else f"{view.name}/"
      crops = images.reshape(-1, *view.shape[-3:])
      for call in view.preprocess.of_kind("device"):
        op = call.op.function(**call.kwargs)
        crops = op(crops, rngs(prefix + call.name))
      batch[view.name] = crops.reshape(images.shape)
    return batch


def of_images(preprocess: Preprocess) -> Features:
  """Features of a single view, `image`, and the labels."""
  return Features((View(IMAGE, preprocess),), preprocess)


def parse(config: schema.Config) -> Features:
  """Parses the features of a training batch, with single-class labels.

  Raises:
    UserError: A preprocessing string cannot be parsed, or is incompatible with
      `train.views`.
  """
  train, size = config.train, config.model.image_size
  preprocess = spec.parse(train.preprocess, size)
  captions = _captions(preprocess, config)
  if not train.views:
    return dataclasses.replace(of_images(preprocess), captions=captions)
  misplaced = [
    call
    for call in (*preprocess.of_kind("image"), *preprocess.of_kind("device"))
    if call.op.name != "decode"
  ]
  if misplaced:
    raise UserError(
      f"{misplaced[0].where} makes a single image, but config.train.views says"
      " how images are made; move it there, and leave only decode and ops of"
      " labels here."
    )
  return Features(
    tuple(_view(name, view, size) for name, view in train.views.items()),
    preprocess,
    captions=captions,
  )


def check(config: schema.Config) -> Features:
  """Like `parse`; also rejects crops that do not have their view's size."""
  features = parse(config)
  for view in features.views:
    spec.check_sides(view.preprocess, config.train.dataset)
  return features


def _captions(preprocess: Preprocess, config: schema.Config) -> Captions | None:
  """The text created by an op; a text tower gives its maximum length."""
  call = preprocess.tokenizes
  if call is None:
    return None
  tower = getattr(config.model, "text", None)
  limit = getattr(tower, "length", None)
  length = call.bound["length"] or limit
  if length is None:
    raise UserError(
      f"{call.where}: config.model has no text tower that says how many tokens"
      " a text has; write it out, such as tokenize(64)."
    )
  if limit is not None and length > limit:
    raise UserError(
      f"{call.where} makes {length} tokens, but config.model.text.length ="
      f" {limit}; leave the length out."
    )
  return Captions(
    call,
    length,
    vocab_size=getattr(tower, "vocab_size", None),
    tokenizer=config.train.tokenizer,
  )


def _view(name: str, view: schema.View, image_size: int) -> View:
  key = f"config.train.views.{name}"
  if name in (IMAGE, LABEL, TEXT, "mask", "id") or not name.isidentifier():
    raise UserError(
      f"{key} cannot be called {name!r}; choose a word that is not the name of"
      " another feature, such as 'global'."
    )
  preprocess = spec.parse(
    view.preprocess,
    image_size if view.size is None else view.size,
    where=f"{key}.preprocess",
    size_key="config.model.image_size" if view.size is None else f"{key}.size",
  )
  for call in preprocess.of_kind("label"):
    raise UserError(
      f"{call.where} changes labels, which all views share; move it to"
      " config.train.preprocess."
    )
  if preprocess.tokenizes:
    raise UserError(
      f"{preprocess.tokenizes.where} makes text, which all views share; move it"
      " to config.train.preprocess."
    )
  return View(name, preprocess, view.count)
