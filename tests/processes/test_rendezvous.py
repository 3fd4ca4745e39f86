"""Processes that meet, or learn who does not come."""

import socket
import threading
import time

import pytest

from vit_jax.errors import LostError, UserError
from vit_jax.processes import rendezvous


@pytest.fixture
def address():
  with socket.socket() as probe:
    probe.bind(("localhost", 0))
    return f"localhost:{probe.getsockname()[1]}"


def meet(address, *calls):
  """Error or None of each (count, index, seconds), all at the same time."""
  ends = [None] * len(calls)

  def attend(i, count, index, seconds):
    try:
      rendezvous.meet(address, count, index, seconds)
    except UserError as error:
      ends[i] = error

  threads = [
    threading.Thread(target=attend, args=(i, *call))
    for i, call in enumerate(calls)
  ]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join(60)
    assert not thread.is_alive()
  return ends


def test_all_go_on_when_all_have_come_and_the_port_is_free(address):
  for _ in range(3):
    assert meet(address, *[(4, index, 30) for index in range(4)]) == [None] * 4
  port = int(address.split(":")[1])
  with socket.create_server(("localhost", port)):
    pass


def test_process_0_may_be_the_last(address):
  others = threading.Thread(
    target=lambda: ends.extend(meet(address, (3, 1, 30), (3, 2, 30)))
  )
  ends = []
  others.start()
  time.sleep(0.5)
  assert meet(address, (3, 0, 30)) == [None]
  others.join()
  assert ends == [None, None]


def test_all_who_came_name_those_who_did_not(address):
  first, second = meet(address, (4, 0, 1), (4, 2, 30))
  for error in (first, second):
    assert isinstance(error, LostError)
    assert "processes 1, 3 of 4 did not come" in str(error).lower()
    assert address in str(error)


def test_a_process_0_that_does_not_come_is_named(address):
  (error,) = meet(address, (2, 1, 1))
  assert isinstance(error, LostError)
  assert "process 0 did not answer" in str(error)


def say(address, words):
  """Connects, says `words`, hears one answer and leaves."""
  host, port = address.split(":")
  for _ in range(50):
    try:
      with socket.create_connection((host, int(port)), 5) as peer:
        peer.sendall(words)
        return peer.recv(100)
    except ConnectionRefusedError:
      time.sleep(0.1)
  raise AssertionError("process 0 does not listen")


def test_who_ended_before_all_had_come_is_missing(address):
  gone = threading.Thread(
    target=say, args=(address, b"vit_jax 1 3 somewhere\n")
  )
  gone.start()
  late = threading.Timer(1, lambda: ends.extend(meet(address, (3, 2, 30))))
  ends = []
  late.start()
  ends.extend(meet(address, (3, 0, 3)))
  gone.join()
  late.join()
  assert len(ends) == 2
  for error in ends:
    assert "process 1 of 3 did not come" in str(error).lower()


def test_strangers_at_the_port_do_no_harm(address):
  answers = []
  stranger = threading.Thread(
    target=lambda: answers.append(say(address, b"GET / HTTP/1.1\r\n\r\n"))
  )
  stranger.start()
  late = threading.Timer(1, lambda: ends.extend(meet(address, (2, 1, 30))))
  ends = []
  late.start()
  assert meet(address, (2, 0, 30)) == [None]
  late.join()
  stranger.join()
  assert ends == [None]
  assert answers == [b""]


def test_two_with_one_number_are_named(address):
  ends = meet(address, (3, 0, 30), (3, 1, 30), (3, 1, 30))
  for error in ends:
    assert error.exit_code == 1
    assert "Two processes were started as number 1" in str(error)


def test_another_number_of_processes_is_named(address):
  for error in meet(address, (2, 0, 30), (4, 1, 30)):
    assert "as one of 4" in str(error) and "as one of 2" in str(error)


def test_a_port_that_is_taken_is_a_sentence(address):
  port = int(address.split(":")[1])
  with socket.create_server(("", port)):
    (error,) = meet(address, (2, 0, 1))
  assert f"cannot listen at {address}" in str(error)


@pytest.mark.parametrize("wrong", ["somewhere", "host:", ":80", "a:b", "a:0"])
def test_an_address_must_have_a_host_and_a_port(wrong):
  with pytest.raises(UserError, match="must be HOST:PORT"):
    rendezvous.meet(wrong, 2, 0, 1)


def test_a_lone_process_waits_for_nobody(address):
  assert meet(address, (1, 0, 1)) == [None]
