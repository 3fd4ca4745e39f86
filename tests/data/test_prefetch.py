import gc
import threading
import time

import pytest

from vit_jax.data.prefetch import Prefetcher


def wait_until(condition):
  deadline = time.monotonic() + 100
  while not condition():
    assert time.monotonic() < deadline
    time.sleep(0.01)


def num_threads():
  return sum(t.name == "prefetch" for t in threading.enumerate())


def test_items_come_in_order_and_then_the_end():
  ready = Prefetcher(iter(range(10)), 3)
  assert list(ready) == list(range(10))
  with pytest.raises(StopIteration):
    next(ready)
  ready.close()


def test_no_more_than_size_items_are_made_ahead():
  made = []

  def items():
    for i in range(100):
      made.append(i)
      yield i

  ready = Prefetcher(items(), 2)
  wait_until(lambda: len(made) == 3)  # Two wait, one stands at the door.
  time.sleep(0.05)
  assert len(made) == 3
  assert next(ready) == 0
  ready.close()


def test_an_exception_comes_where_the_item_would_have_come():
  def items():
    yield 1
    raise KeyError("broken")

  ready = Prefetcher(items(), 4)
  assert next(ready) == 1
  for _ in range(2):
    with pytest.raises(KeyError, match="broken"):
      next(ready)
  ready.close()


def test_close_stops_the_thread():
  before = num_threads()
  ready = Prefetcher(iter(int, 1), 2)
  assert num_threads() == before + 1
  ready.close()
  ready.close()
  assert num_threads() == before
  with pytest.raises(ValueError, match="closed"):
    next(ready)


def test_a_forgotten_prefetcher_stops_its_thread():
  before = num_threads()
  ready = Prefetcher(iter(int, 1), 2)
  next(ready)
  del ready
  gc.collect()
  wait_until(lambda: num_threads() == before)
