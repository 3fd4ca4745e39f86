"""Errors that leave the run of one process of several."""

import jax
import pytest

from vit_jax.errors import LostError, UserError
from vit_jax.processes import agreement, jax_private, liveness
from vit_jax.processes.liveness import Liveness

GLOO = (
  "UNKNOWN: Gloo all-reduce failed: [external/gloo/gloo/transport/tcp/"
  "pair.cc:547] Connection closed by peer [10.0.0.2]:3758"
)
NETWORK = [
  ValueError(GLOO),
  jax.errors.JaxRuntimeError("UNAVAILABLE: failed to connect to all addresses"),
  jax.errors.JaxRuntimeError("DEADLINE_EXCEEDED: Barrier timed out. Id: 7::0"),
  jax.errors.JaxRuntimeError(
    "INTERNAL: NCCL operation ncclGroupEnd() failed: remote process exited or"
    " there was a network error"
  ),
  jax.errors.JaxRuntimeError("UNKNOWN: recv: Connection reset by peer"),
]
OTHERS = [
  jax.errors.JaxRuntimeError("INVALID_ARGUMENT: Connection closed by peer"),
  jax.errors.JaxRuntimeError(
    "RESOURCE_EXHAUSTED: Out of memory; network error"
  ),
  jax.errors.JaxRuntimeError("INTERNAL: CUDA_ERROR_ILLEGAL_ADDRESS"),
  ValueError("Connection reset by peer"),
  ConnectionResetError("Connection reset by peer"),
  UserError("UNAVAILABLE: the data"),
]


class Client:
  """Stands in for the coordination service, which all processes reach."""

  def __init__(self):
    self.words = {}

  def key_value_set(self, key, value, allow_overwrite=False):
    self.words[key] = value

  def key_value_dir_get(self, directory):
    return [x for x in self.words.items() if x[0].startswith(directory)]


@pytest.fixture
def client(monkeypatch):
  """That of process 0 of 1, or of 2 where the test says so."""
  client = Client()
  monkeypatch.setattr(jax_private, "coordination_client", lambda: client)
  monkeypatch.setattr(jax_private, "forget_exit_handler", lambda: None)
  monkeypatch.setattr(agreement, "gather", lambda text: ["here", "there"])
  monkeypatch.setattr(liveness, "SILENT_SECONDS", 0.01)
  monkeypatch.setattr(liveness, "PERIOD_SECONDS", 0.001)
  client.words[f"{liveness._WORDS}/1"] = liveness._DONE
  return client


def ended_by(error):
  """What leaves the context of a run in which `error` was raised."""
  with pytest.raises(type(error) if error in OTHERS else Exception) as left:
    with Liveness():
      raise error
  return left.value


@pytest.mark.parametrize("error", NETWORK, ids=str)
def test_an_error_of_the_network_is_a_loss_that_a_restart_may_mend(
  error, client, monkeypatch
):
  monkeypatch.setattr(jax, "process_count", lambda: 2)
  left = ended_by(error)
  assert isinstance(left, LostError) and left.exit_code == 134
  assert str(error).split(":")[1] in str(
    left
  ) and "restart all processes" in str(left)
  assert left.__cause__ is error
  assert '"code": 134' in client.words[liveness._LOST]


def test_a_loss_waits_until_it_is_known_who_was_lost(client, monkeypatch):
  monkeypatch.setattr(jax, "process_count", lambda: 2)
  slept = []
  monkeypatch.setattr(liveness.time, "sleep", slept.append)
  error = LostError("The checkpoint of step 2 could not be saved.")
  with pytest.raises(LostError) as left, Liveness():
    raise error
  assert left.value is error
  # jax's heartbeat may find a process gone after half of its limit.
  assert liveness.SILENT_SECONDS <= max(slept) < liveness.jax_limit() / 2
  assert '"code": 134' in client.words[liveness._LOST]


@pytest.mark.parametrize("error", OTHERS, ids=str)
def test_any_other_error_stays_what_it_is(error, client, monkeypatch):
  monkeypatch.setattr(jax, "process_count", lambda: 2)
  assert ended_by(error) is error
  assert '"code": 1,' in client.words[liveness._LOST]


def test_ctrl_c_on_one_process_interrupts_the_others(client, monkeypatch):
  monkeypatch.setattr(jax, "process_count", lambda: 2)
  with pytest.raises(KeyboardInterrupt), Liveness():
    raise KeyboardInterrupt
  word = client.words[liveness._LOST]
  assert '"code": 130' in word and "was interrupted" in word


@pytest.mark.parametrize("error", NETWORK, ids=str)
def test_a_lone_process_lost_nobody(error, client):
  assert ended_by(error) is error
