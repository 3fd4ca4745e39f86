"""Iteration over a tf.data dataset that ends without a deadlock."""

import weakref
from typing import Any

import numpy as np

from vit_jax.data.tf_import import tf


class DatasetIterator:
  """Iterates over a dataset of dicts; can be deleted at any time.

  The arrays of an element are views of TensorFlow's memory, which they keep
  alive, so they remain valid after the iterator; they must not be written to.

  tf.data's own Python iterator is deleted while holding the interpreter's lock,
  and waits for threads that may need that lock to call `numpy_function`: a
  deadlock. A handle releases the lock when deleted, which must happen before
  the interpreter ends, as no other thread gets its lock after that.

  Autotuning is disabled: a count of `AUTOTUNE` stays at TensorFlow's default,
  at most 16. The tuning thread can miss the end: it is woken before the end is
  marked, may find no mark and then sleeps until the next tuning, up to a
  minute, while deletion waits for it.
  """

  def __init__(self, dataset: Any):
    options = tf.data.Options()
    options.autotune.enabled = False
    dataset = dataset.with_options(options)
    self._names = sorted(dataset.element_spec)
    specs = [dataset.element_spec[name] for name in self._names]
    self._types = {
      "output_types": [spec.dtype for spec in specs],
      "output_shapes": [spec.shape for spec in specs],
    }
    handle = tf.raw_ops.AnonymousIteratorV3(**self._types)
    tf.raw_ops.MakeIterator(
      dataset=tf.data.experimental.to_variant(dataset), iterator=handle
    )
    self._held = [handle]
    # Also called at exit, for iterators that are still referenced.
    weakref.finalize(self, self._held.clear)

  def __next__(self) -> dict[str, np.ndarray]:
    try:
      tensors = tf.raw_ops.IteratorGetNext(
        iterator=self._held[0], **self._types
      )
    except tf.errors.OutOfRangeError:
      raise StopIteration from None
    # Views of TensorFlow's memory, aligned so that jax on a CPU does not copy
    # them either. `tensor.numpy()` would copy to less aligned memory.
    return {
      name: np.asarray(tensor)
      for name, tensor in zip(self._names, tensors, strict=True)
    }

  def close(self) -> None:
    """Ends its threads; it cannot be used afterwards.

    TensorFlow keeps a dataset's functions and the objects they refer to. An
    iterator among these would keep its threads until the process ends.
    """
    self._held.clear()
