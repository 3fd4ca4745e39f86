"""TPU slices as vit_jax.compile names them, in the words of Kubernetes."""

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
class Slice:
  """A TPU slice: chips that are wired together, on one or more hosts.

  Attributes:
    accelerator: GKE's name of the generation.
    topology: chips along each dimension, such as 16x16.
    chips_per_host: of each host.
    num_hosts: of the slice.
  """

  accelerator: str
  topology: str
  chips_per_host: int
  num_hosts: int


def parse_slice(name: str, chips_per_host: int | None = None) -> Slice:
  """The slice of a name such as v5e:16x16 or v4:4x4x8.

  Args:
    name: generation and topology.
    chips_per_host: by default four, or all of a smaller slice.

  Raises:
    UserError: there is no such slice, or its hosts cannot be so large.
  """
  generation, _, topology = name.partition(":")
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
  chips_per_host = chips_per_host or min(chips, CHIPS_PER_HOST)
  if chips % chips_per_host:
    raise UserError(
      f"--tpu={name} has {chips} chips, which are no whole number of hosts with"
      f" {chips_per_host}; see --chips_per_host."
    )
  return Slice(accelerator, topology, chips_per_host, chips // chips_per_host)
