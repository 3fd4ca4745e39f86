"""Processes of a run tell each other a few words, without devices.

The words go through the coordination service that joined the processes, so
they pass while devices are busy, and before anything is compiled.
"""

import itertools
import json

import jax
from jax._src import distributed

_TIMEOUT_MS = 30 * 60 * 1000  # The death of a process is noticed elsewhere.
_turn = itertools.count()


def gather(text: str) -> list[str]:
  """The `text` of every process, by number; all processes must call it.

  Process 0 collects, so that n processes make about 2 n requests.
  """
  client = distributed.global_state.client
  count, index = jax.process_count(), jax.process_index()
  if count == 1:
    return [text]
  turn = f"vit_jax/gather/{next(_turn)}"
  client.key_value_set(f"{turn}/{index}", text)
  if index == 0:
    texts = [
      client.blocking_key_value_get(f"{turn}/{i}", _TIMEOUT_MS)
      for i in range(count)
    ]
    client.key_value_set(f"{turn}/all", json.dumps(texts))
    return texts
  return json.loads(client.blocking_key_value_get(f"{turn}/all", _TIMEOUT_MS))
