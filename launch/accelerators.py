"""GKE's terms for TPU slices as named by vit_jax.compile."""

import dataclasses
import math
import re

from vit_jax.errors import UserError

# What GKE calls a generation (cloud.google.com/gke-tpu-accelerator), and how
# many dimensions its topologies have:
# https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus
_GENERATIONS = {
  "v4": ("tpu-v4-podslice", 3),
  "v5e": ("tpu-v5-lite-podslice", 2),
  "v5p": ("tpu-v5p-slice", 3),
  "v6e": ("tpu-v6e-slice", 2),
}
CHIPS_PER_HOST = 4


@dataclasses.dataclass(frozen=True)
class Slices:
  """TPU slices: chips that are wired together, on one or more hosts each.

  Attributes:
    count: Number of slices.
    accelerator: GKE's name of the generation.
    topology: Chips of a slice along each dimension, such as 16x16.
    chips_per_host: Chips of each host.
    num_hosts: Number of hosts of a slice.
  """

  count: int
  accelerator: str
  topology: str
  chips_per_host: int
  num_hosts: int


def parse(name: str, chips_per_host: int | None = None) -> Slices:
  """The slices of a name such as v5e:16x16, or 2*v4:4x4x8 for two of them.

  Args:
    name: Number of slices (if several), generation and topology.
    chips_per_host: Chips of each host; by default four, or all of a smaller
      slice.

  Raises:
    UserError: There is no such slice, or its hosts cannot be so large.
  """
  count, star, one = name.rpartition("*")
  generation, _, topology = one.partition(":")
  if star and not re.fullmatch("[1-9][0-9]*", count):
    raise UserError(f"--tpu={name}: several slices are written 2*{one}.")
  if generation not in _GENERATIONS:
    raise UserError(
      f"--tpu={name}: the generations on GKE are {', '.join(_GENERATIONS)}, as"
      " in --tpu=v5e:16x16."
    )
  accelerator, dimensions = _GENERATIONS[generation]
  if not re.fullmatch("x".join(["[1-9][0-9]*"] * dimensions), topology):
    example = "x".join(["4"] * dimensions)
    raise UserError(
      f"--tpu={name}: a topology of {generation} has {dimensions} numbers, as"
      f" in {generation}:{example}."
    )
  chips = math.prod(map(int, topology.split("x")))
  per_host = chips_per_host or min(chips, CHIPS_PER_HOST)
  if chips % per_host:
    raise UserError(
      f"--tpu={name} has {chips} chips, which do not fill hosts of"
      f" {per_host}; see --chips_per_host."
    )
  return Slices(
    int(count) if star else 1,
    accelerator,
    topology,
    per_host,
    chips // per_host,
  )
