"""What all fuzzing shares: bad values, and what may come of them."""

import random
from collections.abc import Callable, Iterator
from typing import Any

from vit_jax.errors import UserError

VALUES = [
  None,
  True,
  False,
  object(),
  1j,
  b"x",
  # Numbers.
  *(0, 1, -1, 2, 3, 7, -7, 2**31, 2**63, 10**30),
  *(0.0, -0.0, 0.5, -1.5, 1e308, 1e-308),
  *(float("nan"), float("inf"), -float("inf")),
  # Words, of use here or elsewhere.
  *("", " ", "x", "0", "-1", "1e9", "None", "é\u202e\0", "a" * 5000),
  *("1" * 5000, "B/" + "1" * 5000, "L/1048577", "../../etc/passwd"),
  *("%s%n", "{0}", "|||", "(((", "*", "[", "(?P<", "cls", "R50x1"),
  *("__import__('os').system('touch written')", "B/16", "L/0", "R50+B/16"),
  *("5 epochs", "-5 epochs", "1e400 steps", "nan steps", "10M examples"),
  # Groups.
  *((), ("a",), (1, 2), (3, 2), (0,), (10**9,), (None,), ({},)),
  *((("a", 1),), ((),), [], ["a"], [[]], {}, {"a": 1}),
]


def leaves(
  config: dict[str, Any], above: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
  """The path of every key of a nested dictionary, groups included."""
  for name, value in config.items():
    yield (*above, name)
    if isinstance(value, dict):
      yield from leaves(value, (*above, name))


def changed(config: dict[str, Any], path: tuple[str, ...], value: Any) -> Any:
  """A copy of `config` with another value at `path`."""
  name, *rest = path
  inner = changed(config[name], tuple(rest), value) if rest else value
  return {**config, name: inner}


def answers_with_a_sentence(call: Callable[[], object], what: str) -> bool:
  """Calls; whether it went well.

  A UserError has to be a sentence; any other exception is a finding.
  """
  try:
    call()
  except UserError as error:
    message = str(error)
    assert message.strip() and "Traceback" not in message, what
    return False
  except Exception as error:
    raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
  return True


def mutated(data: bytes, rng: random.Random) -> bytes:
  """`data` with a few bytes flipped, cut, doubled or made extreme."""
  data = bytearray(data)
  extremes = (b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff", b"\0\0\xff\xff")
  for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
    if not data:
      break
    # Half of all damage goes to the header.
    end = len(data) if rng.random() < 0.5 else min(len(data), 64)
    i = rng.randrange(end)
    match rng.randrange(7):
      case 0:
        data[i] ^= 1 << rng.randrange(8)
      case 1:
        data[i] = rng.choice([0, 1, 127, 128, 255])
      case 2:
        del data[i:]
      case 3:
        del data[i : i + rng.randrange(1, 20)]
      case 4:
        data[i:i] = rng.randbytes(rng.randrange(1, 9))
      case 5:
        data[i : i + 4] = rng.choice(extremes)
      case 6:
        data[i : i + 8] = data[: rng.randrange(1, 9)]
  return bytes(data)
