"""Processes of a run tell each other a few words, without devices.

The words go through the coordination service that joined the processes, so
they pass while devices are busy, and before anything is compiled.
"""

import itertools
import json
import platform

import jax

from vit_jax.errors import UserError
from vit_jax.processes import jax_private

_TIMEOUT_MS = 30 * 60 * 1000  # The death of a process is noticed elsewhere.
_turn = itertools.count()
_answered: str | None = None  # A turn whose answer may still be read.


def gather(text: str) -> list[str]:
  """The `text` of every process, by number; all processes must call it.

  Process 0 collects, so that n processes make about 2 n requests.
  """
  global _answered
  turn, texts = _collect(text)
  client = jax_private.coordination_client()
  if jax.process_count() == 1 or client is None:
    return texts
  if texts is None:
    return json.loads(client.blocking_key_value_get(f"{turn}/all", _TIMEOUT_MS))
  client.key_value_set(f"{turn}/all", json.dumps(texts))
  _answered = turn
  return texts


def check_same(text: str, what: str) -> None:
  """Checks that a text is the same on all processes; all must call it.

  Args:
    text: Fingerprint of what they have opened or read.
    what: Words for it in the message, such as 'training data'.

  Raises:
    UserError: A process has another text; raised on all processes.
  """
  found = gather(text)
  if len(set(found)) == 1:
    return
  hosts = gather(platform.node())
  process = next(i for i, other in enumerate(found) if other != found[0])
  raise UserError(
    f"Process {process} on host {hosts[process]} has other {what}"
    f" ({found[process]}) than process 0 ({found[0]}). Give all hosts the same"
    " files and packages."
  )


def collect(text: str) -> list[str] | None:
  """Like `gather`, but process 0 alone gets the texts, the others None.

  They do not wait for anyone.
  """
  return _collect(text)[1]


def _collect(text: str) -> tuple[str, list[str] | None]:
  global _answered
  client = jax_private.coordination_client()
  count, index = jax.process_count(), jax.process_index()
  # Without a client, processes were not joined, as in a dry run of a pod.
  if count == 1 or client is None:
    return "", [text]
  turn = f"vit_jax/turn/{next(_turn)}"
  client.key_value_set(f"{turn}/{index}", text)
  if index:
    return turn, None
  texts = [
    client.blocking_key_value_get(f"{turn}/{i}", _TIMEOUT_MS)
    for i in range(count)
  ]
  # A process that takes part in this turn has read the last answer.
  for past in filter(None, (_answered, turn)):
    client.key_value_delete(past)
  _answered = None
  return turn, texts
