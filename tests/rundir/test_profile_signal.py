"""A request for a trace that nobody hears."""

import os
import signal
import threading

import pytest

from vit_jax.rundir import profile_signal


@pytest.fixture
def heard():
  signals = []
  before = signal.signal(signal.SIGUSR1, lambda *unused: signals.append(1))
  yield signals
  signal.signal(signal.SIGUSR1, before)


def test_it_is_ignored_and_heard_again_afterwards(heard):
  with pytest.raises(KeyError), profile_signal.ignored():
    os.kill(os.getpid(), signal.SIGUSR1)
    raise KeyError
  assert not heard
  os.kill(os.getpid(), signal.SIGUSR1)
  assert heard


def test_another_thread_leaves_signals_alone(heard):
  def work():
    with profile_signal.ignored():
      os.kill(os.getpid(), signal.SIGUSR1)

  thread = threading.Thread(target=work)
  thread.start()
  thread.join()
  assert heard
