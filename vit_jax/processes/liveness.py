"""The other processes of a run: when one is gone, the rest end and name it.

Each process renews a word of its own in the coordination service. Process 0
reads them all, and tells the others which process is missing. If process 0
itself is missing, jax ends the others with exit code 134.

It is our own because jax's heartbeat aborts the processes from C++: it names no
host, and leaves no time to release the workdir.
"""

import contextlib
import json
import math
import os
import platform
import re
import signal
import sys
import threading
import time
from typing import Any

import jax

from vit_jax.errors import LostError, UserError
from vit_jax.processes import agreement, jax_private

EXIT_LOST = LostError.exit_code
PERIOD_SECONDS = 2
# Longer than any pause of a living process.
SILENT_SECONDS = 25
_WORDS = "vit_jax/processes"
_LOST = "vit_jax/lost"
_DONE = "done"
# What jax says when it cannot reach another process, or a collective operation
# broke off. Only some of it comes as a `JaxRuntimeError`: gloo's words, seen
# when an array is waited for, are a `ValueError`.
_UNREACHABLE = re.compile(
  r"(UNAVAILABLE|DEADLINE_EXCEEDED): "
  r"|(?!INVALID_ARGUMENT|RESOURCE_EXHAUSTED)[A-Z_]+: .*("
  r"Gloo [\w -]+ failed|connection (reset|closed|refused|timed out)"
  r"|network error)",
  re.DOTALL | re.IGNORECASE,
)
_INTERRUPTED = 128 + signal.SIGINT  # The exit code of a shell.
_SHOWN = 300  # Characters of such an error.


def jax_limit() -> int:
  """Limit of jax's own heartbeats, seconds, long enough for ours to be first.

  jax sends them at every half of its limit, so that it may take a process for
  lost the other half after its end.
  """
  return math.ceil(2 * (_seconds_to_know() + 2 * PERIOD_SECONDS))


def _seconds_to_know() -> float:
  """Time in which all hear who is missing: a silence, and a few turns."""
  return SILENT_SECONDS + 8 * PERIOD_SECONDS


class Liveness:
  """Watches over the other processes, as a context around the run.

  An error that leaves the context is told to the others. One that may come of
  another's death, such as a collective operation that failed, waits until it
  is known who died. If nobody did, an error of the network is a `LostError`.
  """

  def __init__(self) -> None:
    self._index = jax.process_index()
    self._alone = jax.process_count() == 1
    self._hosts: list[str] = []
    self._over = threading.Event()
    self._leaving = contextlib.ExitStack()

  def on_leave(self, call: Any) -> None:
    """Calls `call()` before this process exits because a peer was lost."""
    self._leaving.callback(call)

  def leave(self, code: int) -> None:
    """Ends this process at once, in order and without a word to the others."""
    with contextlib.suppress(Exception):
      self._leaving.close()
    if not self._alone:
      self._say({"code": code, "said": "was asked to stop"})
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

  def __enter__(self) -> "Liveness":
    if not self._alone:
      self._hosts = agreement.gather(platform.node())
      print(
        f"Process {self._index} of {len(self._hosts)} on host"
        f" {platform.node()}, coordinated by process 0 on host"
        f" {self._hosts[0]}.",
        file=sys.stderr,
        flush=True,
      )
      self._thread = threading.Thread(target=self._watch, daemon=True)
      self._thread.start()
    return self

  def __exit__(self, kind: type | None, error: Any, trace: Any) -> None:
    if self._alone:
      return
    if kind is None:
      self._over.set()
      self._thread.join()
      self._put(_DONE)
      return
    is_known = issubclass(kind, UserError | KeyboardInterrupt)
    if not is_known or issubclass(kind, LostError):
      # The watch ends the process if it finds who is missing.
      time.sleep(_seconds_to_know())
    self._over.set()
    lost = _explained(error)
    code = getattr(lost or error, "exit_code", 1)
    said = f"ended: {str(lost or error) or kind.__name__}"
    if issubclass(kind, KeyboardInterrupt):
      code, said = _INTERRUPTED, "was interrupted"
    self._say({"code": code, "said": said})
    # jax would wait for the others, which wait for this process.
    jax_private.forget_exit_handler()
    if lost:
      raise lost from error

  def _say(self, word: dict[str, Any]) -> None:
    """Tells the others, and gives them time to hear it."""
    if self._index == 0:
      self._publish({"process": 0, **word})
    else:
      self._put(json.dumps(word))

  def _put(self, word: str) -> None:
    with contextlib.suppress(jax.errors.JaxRuntimeError):
      jax_private.coordination_client().key_value_set(
        f"{_WORDS}/{self._index}", word, allow_overwrite=True
      )

  def _publish(self, lost: dict[str, Any]) -> None:
    with contextlib.suppress(jax.errors.JaxRuntimeError):
      jax_private.coordination_client().key_value_set(_LOST, json.dumps(lost))
    time.sleep(2 * PERIOD_SECONDS)

  def _watch(self) -> None:
    client = jax_private.coordination_client()
    seen: dict[int, tuple[str, float]] = {}
    turn = 0
    while not self._over.wait(PERIOD_SECONDS):
      turn += 1
      self._put(str(turn))
      lost = None
      with contextlib.suppress(jax.errors.JaxRuntimeError):
        if self._index == 0:
          words = client.key_value_dir_get(_WORDS)
          lost = self._missing(dict(words), seen)
        else:
          lost = json.loads(client.key_value_try_get(_LOST))
      if lost:
        if self._index == 0:
          self._publish(lost)
        if not self._over.is_set():
          self._end(lost)

  def _missing(
    self, words: dict[str, str], seen: dict[int, tuple[str, float]]
  ) -> dict[str, Any] | None:
    """A process that said it ends, or has said nothing for long."""
    now = time.monotonic()
    for process in range(1, len(self._hosts)):
      word = words.get(f"{_WORDS}/{process}", "")
      if word.startswith("{"):
        return {"process": process, **json.loads(word)}
      before, since = seen.setdefault(process, (word, now))
      if word != before:
        seen[process] = word, now
      elif word != _DONE and now - since > SILENT_SECONDS:
        said = f"has given no sign of life for {now - since:.0f} s"
        return {"process": process, "code": EXIT_LOST, "said": said}
    return None

  def _end(self, lost: dict[str, Any]) -> None:
    with contextlib.suppress(Exception):
      self._leaving.close()
    process = lost["process"]
    lines = str(lost["said"]).splitlines()
    print(
      f"error: Process {process} on host {self._hosts[process]} {lines[0]}",
      *(f"error: {line}" for line in lines[1:]),
      f"error: Process {self._index} cannot continue without it, and ends.",
      sep="\n",
      file=sys.stderr,
    )
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(lost["code"])


def is_of_network(error: BaseException | None) -> bool:
  """Tests if jax raised it because it could not reach another process."""
  kinds = jax.errors.JaxRuntimeError | ValueError
  return isinstance(error, kinds) and bool(_UNREACHABLE.match(str(error)))


def _explained(error: BaseException) -> LostError | None:
  """The sentence for an error of the network; None for any other."""
  if not is_of_network(error):
    return None
  words = " ".join(str(error).split())[:_SHOWN]
  return LostError(
    f"Process {jax.process_index()} on host {platform.node()} could not"
    f" continue with the others: {words}. All of them are still alive, so the"
    " network between them has failed; restart all processes."
  )
