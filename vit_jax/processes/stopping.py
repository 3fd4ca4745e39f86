"""Requests to stop: SIGTERM to any process of a run, and Ctrl-C.

jax's coordination service passes a SIGTERM on and picks a question at which
all processes get the answer yes. So the questions are counted, and every
process must ask the same ones: after each step, and after each batch of an
evaluation.
"""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

import jax
from jax.experimental import multihost_utils

from vit_jax.processes import jax_private

EXIT_PREEMPTED = 42
# Where jax's coordination service notes that a process got SIGTERM.
_NOTICE = "RECEIVED_PREEMPTION_NOTICE"


class StopRequest:
  """Request to save and leave.

  As a context it turns the first Ctrl-C into a request; the second one ends
  the process. With several processes Ctrl-C becomes SIGTERM, on which all stop
  at the same step.

  Attributes:
    interrupted: Ctrl-C was pressed.
    given: True once a stop was requested; it stays so.
  """

  def __init__(self) -> None:
    self.interrupted = False
    self.given = False
    self._questions = 0
    self._previous = signal.getsignal(signal.SIGINT)

  def asked(self) -> bool:
    """All processes must call it equally often; all get the same answers."""
    self._questions += 1
    if jax.distributed.is_initialized():
      self.given |= multihost_utils.reached_preemption_sync_point(
        self._questions
      )
    self.given |= self.interrupted and jax.process_count() == 1
    return self.given

  def __enter__(self) -> "StopRequest":
    signal.signal(signal.SIGINT, self._on_signal)
    return self

  def __exit__(self, *unused: object) -> None:
    signal.signal(signal.SIGINT, self._previous)

  def _on_signal(self, signum: int, frame: FrameType | None) -> None:
    del signum, frame
    self.interrupted = True
    signal.signal(signal.SIGINT, self._previous)
    print("\nCtrl-C: saving after this step; again to stop at once.")
    if jax.process_count() > 1:
      os.kill(os.getpid(), signal.SIGTERM)


class LeaveAtOnce:
  """Ends the process on SIGTERM while there is nothing to save.

  That is so until the first step of a start: while data are opened, the step
  compiles and the state is restored, which cannot be interrupted otherwise. It
  is always so in a command that does not train.

  Args:
    leave: Called with the exit code; ends the process.
    code: Exit code.
    words: Printed before.
  """

  def __init__(self, leave: Callable[[int], None], code: int, words: str):
    self._leave, self._code, self._words = leave, code, words
    self._over = threading.Event()
    self._deciding = threading.Lock()
    self._thread = threading.Thread(target=self._watch, daemon=True)

  def __enter__(self) -> "LeaveAtOnce":
    if jax.distributed.is_initialized():
      self._thread.start()
    return self

  def __exit__(self, *unused: object) -> None:
    self.close()

  def close(self) -> None:
    """Stops watching: from now on there is something to save."""
    with self._deciding:
      self._over.set()

  def _watch(self) -> None:
    client = jax_private.coordination_client()
    while not self._over.wait(0.5):
      try:
        client.key_value_try_get(_NOTICE)
      except jax.errors.JaxRuntimeError:  # There is none.
        continue
      with self._deciding:
        if not self._over.is_set():
          print(self._words)
          self._leave(self._code)
