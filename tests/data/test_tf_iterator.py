"""Iterators end when nobody wants them, and with the interpreter."""

import gc
import subprocess
import sys
import weakref

import jax
import numpy as np
import pytest

from vit_jax.data.tf_import import tf
from vit_jax.data.tf_iterator import DatasetIterator


def numbers(count):
  dataset = tf.data.Dataset.range(count).batch(1)
  return dataset.map(lambda i: {"number": i})


def test_it_gives_every_element_as_numpy():
  iterator = DatasetIterator(numbers(3))
  shown = [next(iterator)["number"] for _ in range(3)]
  assert shown == [[0], [1], [2]] and isinstance(shown[0], np.ndarray)
  with pytest.raises(StopIteration):
    next(iterator)


def test_elements_outlive_the_iterator_also_on_a_device():
  dataset = tf.data.Dataset.range(40).repeat().batch(20)
  iterator = DatasetIterator(dataset.map(lambda i: {"number": i}))
  arrays = [next(iterator)["number"] for _ in range(6)]
  on_device = [jax.device_put(array) for array in arrays]
  iterator.close()
  del iterator, dataset
  gc.collect()
  for number, (array, placed) in enumerate(zip(arrays, on_device, strict=True)):
    expected = np.arange(20) + 20 * (number % 2)
    assert np.array_equal(array, expected)
    assert np.array_equal(placed, expected)
    assert not array.flags.writeable


def test_nothing_keeps_it():
  iterator = DatasetIterator(numbers(3))
  handle = weakref.ref(iterator._held[0])
  del iterator
  gc.collect()
  assert handle() is None


def test_its_end_waits_for_no_thread_that_tunes():
  dataset = tf.data.Dataset.range(8).map(
    lambda i: {"number": i}, num_parallel_calls=tf.data.AUTOTUNE
  )
  iterator = DatasetIterator(dataset)
  next(iterator)
  # TensorFlow has made no model for that thread to work on.
  with pytest.raises(tf.errors.NotFoundError, match="disable autotune"):
    tf.raw_ops.IteratorGetModelProto(iterator=iterator._held[0])


ENDS = """
import time
import numpy as np
from vit_jax.data.tf_import import tf
from vit_jax.data.tf_iterator import DatasetIterator

def slow(i):
  time.sleep(0.05)
  return i

dataset = tf.data.Dataset.range(10**9).map(
  lambda i: {"number": tf.numpy_function(slow, [i], tf.int64)},
  num_parallel_calls=8,
).prefetch(64)
iterator = DatasetIterator(dataset)
for _ in range(5):
  next(iterator)
cycle = [iterator]
cycle.append(cycle)  # Left to the end of the interpreter.
del iterator
"""


@pytest.mark.parametrize("kept", ["", "\nimport builtins; builtins.it = cycle"])
def test_an_interpreter_that_still_has_one_ends(kept, repo):
  ended = subprocess.run(
    [sys.executable, "-c", ENDS + kept], cwd=repo, timeout=100
  )
  assert ended.returncode == 0
