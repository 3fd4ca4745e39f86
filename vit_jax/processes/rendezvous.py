"""Meeting of the processes before jax joins them, which names missing ones.

Process 0 first listens at the coordinator's address itself. The others say who
they are, hear who is missing, and leave when all are there; then jax takes the
port. It is our own because `jax.distributed.initialize` aborts the processes
that came with the stack of a C++ check, and cannot say which did not come.
"""

import contextlib
import os
import platform
import re
import selectors
import socket
import time
from collections.abc import Iterator

from vit_jax.errors import LostError, UserError

_GREETING = re.compile(r"vit_jax (\d+) (\d+) (.+)\n")
_ALL_HERE = "all here"
_PAUSE_SECONDS = 0.2  # Between attempts to reach process 0.
_FAREWELL_SECONDS = 10.0
_MAX_BYTES = 2**16
_MAX_SHOWN = 20


def meet(address: str, count: int, index: int, seconds: int) -> None:
  """Returns when all processes have come.

  Args:
    address: HOST:PORT of process 0.
    count: Number of processes of the run.
    index: Index of this process.
    seconds: Seconds to wait for the others.

  Raises:
    LostError: Processes are missing; the message names them.
    UserError: The address cannot be used, or processes contradict each other.
  """
  host, _, port = address.rpartition(":")
  if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
    raise UserError(
      f"The coordinator's address {address!r} must be HOST:PORT, such as"
      " 10.0.0.2:8476."
    )
  if count == 1:
    return
  deadline = time.monotonic() + seconds
  if index == 0:
    _receive(address, int(port), count, deadline, seconds)
  else:
    where = host.removeprefix("[").removesuffix("]"), int(port)
    _report(address, where, count, index, deadline, seconds)


def _receive(
  address: str, port: int, count: int, deadline: float, seconds: int
) -> None:
  """Process 0's part."""
  with (
    _listener(address, port) as listener,
    selectors.DefaultSelector() as selector,
  ):
    selector.register(listener, selectors.EVENT_READ)
    meeting = _Meeting(count)
    try:
      while missing := meeting.missing():
        ready = selector.select(max(0.0, deadline - time.monotonic()))
        if not ready:
          meeting.tell(f"over {missing} of {count} did not come")
          raise LostError(
            f"{missing.capitalize()} of {count} did not come to {address}"
            f" within {seconds} s. Look at the logs there, and whether this"
            " host and port can be reached; then start all again."
          )
        for key, _ in ready:
          if key.fileobj is listener:
            peer, _ = listener.accept()
            selector.register(peer, selectors.EVENT_READ)
          elif not meeting.hear(key.fileobj):
            selector.unregister(key.fileobj)
            key.fileobj.close()
      meeting.tell(_ALL_HERE)
      # They close first: what is left of a connection must not hold the port.
      for peer in meeting.peers():
        peer.settimeout(_FAREWELL_SECONDS)
        while _received(peer):
          continue
    finally:
      for peer in meeting.peers():
        peer.close()


class _Meeting:
  """Processes of `count` that have arrived, as process 0 sees it."""

  def __init__(self, count: int):
    self._count = count
    self._here: dict[int, tuple[socket.socket, str]] = {}

  def missing(self) -> str:
    """Processes that have not arrived, in words; '' if all have."""
    numbers = [i for i in range(1, self._count) if i not in self._here]
    shown = ", ".join(map(str, numbers[:_MAX_SHOWN]))
    if len(numbers) > _MAX_SHOWN:
      shown += f" and {len(numbers) - _MAX_SHOWN} more"
    return f"process{'es' * (len(numbers) > 1)} {shown}" if numbers else ""

  def peers(self) -> list[socket.socket]:
    return [peer for peer, _ in self._here.values()]

  def tell(self, line: str) -> None:
    """Sends a line to all who have come."""
    for peer in self.peers():
      # A process that ended meanwhile is noticed when it is read from.
      with contextlib.suppress(OSError):
        peer.sendall(f"{line}\n".encode())

  def hear(self, peer: socket.socket) -> bool:
    """Reads what `peer` says; False if it has ended or is none of ours.

    Raises:
      UserError: The process contradicts the others; all are told.
    """
    # A second message means that the process ended; it may come again.
    for number, (known, _) in list(self._here.items()):
      if known is peer:
        del self._here[number]
    said = _GREETING.fullmatch(_received(peer))
    if not said:
      return False
    number, count, host = int(said[1]), int(said[2]), said[3]
    wrong = ""
    if count != self._count:
      wrong = (
        f"Process {number} on host {host} was started as one of {count},"
        f" process 0 on host {platform.node()} as one of {self._count}. Give"
        " all the same number of processes."
      )
    elif number in self._here:
      wrong = (
        f"Two processes were started as number {number}, on hosts"
        f" {self._here[number][1]} and {host}. Give each a number of its own."
      )
    if wrong:
      self.tell(f"wrong {wrong}")
      with contextlib.suppress(OSError):
        peer.sendall(f"wrong {wrong}\n".encode())
      peer.close()
      raise UserError(wrong)
    self._here[number] = peer, host
    if missing := self.missing():
      self.tell(f"waiting {missing} of {count} did not come")
    return True


def _report(
  address: str,
  where: tuple[str, int],
  count: int,
  index: int,
  deadline: float,
  seconds: int,
) -> None:
  """The part of the others."""
  heard = "process 0 did not answer"
  while time.monotonic() < deadline:
    try:
      with socket.create_connection(
        where, timeout=max(0.1, deadline - time.monotonic())
      ) as peer:
        peer.sendall(f"vit_jax {index} {count} {platform.node()}\n".encode())
        for line in _lines(peer, deadline):
          if line == _ALL_HERE:
            return
          kind, _, said = line.partition(" ")
          if kind == "wrong":
            raise UserError(said)
          heard = said
          if kind == "over":
            deadline = 0.0
    except OSError as error:
      if heard.startswith("process 0"):
        heard = f"process 0 did not answer ({error.strerror or error})"
    time.sleep(_PAUSE_SECONDS)
  raise LostError(
    f"Process {index} of {count} waited at {address} in vain: {heard} within"
    f" {seconds} s. Look at the logs of what is missing, and whether that"
    " address can be reached from there; then start all again."
  )


def _listener(address: str, port: int) -> socket.socket:
  bound = os.environ.get("JAX_COORDINATOR_BIND_ADDRESS", "").rpartition(":")[0]
  host = bound.removeprefix("[").removesuffix("]")
  try:
    if not host and socket.has_dualstack_ipv6():
      return socket.create_server(
        ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024
      )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=1024)
  except OSError as error:
    raise UserError(
      f"Process 0 cannot listen at {address}: {error.strerror or error}."
      " Another run may use the port; choose another one."
    ) from None


def _received(peer: socket.socket) -> str:
  """Message of a process about itself; '' if it is gone."""
  try:
    return peer.recv(_MAX_BYTES).decode(errors="replace")
  except OSError:
    return ""


def _lines(peer: socket.socket, deadline: float) -> Iterator[str]:
  """Lines of process 0 until it ends; raises TimeoutError at the deadline."""
  rest = ""
  while True:
    peer.settimeout(max(0.1, deadline - time.monotonic()))
    received = peer.recv(_MAX_BYTES).decode()
    if not received:
      return
    *lines, rest = (rest + received).split("\n")
    yield from lines
