"""How many numbered modules a set of parameters has."""

import re
from collections.abc import Iterable, Sequence


def count(pattern: re.Pattern[str], names: Iterable[str], first: int) -> int:
  """Modules from `first` on, if those with the largest numbers are right.

  Gaps below that show up as misfits. A number beyond the count of all names
  belongs to no network and is not believed.

  Args:
    pattern: matches the start of a name, its last group the number.
    names: of parameters.
    first: number of the first module.
  """
  names = list(names)
  found = (pattern.match(name) for name in names)
  numbers = [
    int(match[match.re.groups]) - first + 1 for match in found if match
  ]
  return max((n for n in numbers if n <= len(names)), default=0)


def counts(names: Iterable[str]) -> tuple[int, ...]:
  """Residual units of each stage: of block1/unit1/..., block2/unit1/..."""
  names = list(names)
  num_stages = count(re.compile(r"block(\d+)/unit\d+/"), names, 1)
  units: Sequence[int] = [
    count(re.compile(rf"block{stage}/unit(\d+)/"), names, 1)
    for stage in range(1, num_stages + 1)
  ]
  return tuple(units)
