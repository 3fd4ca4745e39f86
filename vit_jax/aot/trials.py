"""Compiling a step with several settings, to find the fastest that fits."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from vit_jax import text_tables
from vit_jax.aot import step_compilation
from vit_jax.aot.gpus import Hosts
from vit_jax.aot.step_compilation import Compilation
from vit_jax.aot.topology import Topology
from vit_jax.config import resolve, schema
from vit_jax.errors import UserError
from vit_jax.sharding.rules import format_bytes

_HEADER = (
  "images a device",
  "remat",
  "mesh",
  "memory",
  "cycles",
  "step",
  "images/s",
  "MFU",
)


@dataclasses.dataclass(frozen=True)
class Setting:
  """A combination of settings to try.

  Attributes:
    batch_per_device: Images of the global batch per device.
    remat: `config.model.remat`.
    mesh: Sizes of data, fsdp and tensor; one may be -1, and fsdp 'auto'.
  """

  batch_per_device: int
  remat: str
  mesh: tuple[int, int | str, int]

  def applied(self, config: schema.Config, num_devices: int) -> schema.Config:
    """Returns the config with this setting.

    Raises:
      UserError: A value is not allowed.
    """
    values = config.model_dump()
    values["train"]["batch_size"] = self.batch_per_device * num_devices
    values["model"]["remat"] = self.remat
    values["mesh"].update(
      zip(("data", "fsdp", "tensor"), self.mesh, strict=True)
    )
    return resolve.resolve(values)


@dataclasses.dataclass(frozen=True)
class Trial:
  """A setting and its result: a compilation, or the reason for none."""

  setting: Setting
  found: Compilation | None
  refusal: str | None = None

  @property
  def images_per_second(self) -> float:
    """Returns the images per second; 0 if it does not fit."""
    if self.found is None or not self.found.fits:
      return 0.0
    return self.found.estimate.images_per_second

  def record(self) -> dict[str, Any]:
    """Returns the setting and its figures as plain JSON."""
    return {
      **dataclasses.asdict(self.setting),
      "images_per_second": self.images_per_second or None,
      "refusal": self.refusal,
      "figures": None if self.found is None else self.found.record(),
    }


def settings(
  batches: Sequence[int],
  remats: Sequence[str],
  meshes: Sequence[str],
) -> list[Setting]:
  """Combines images per device, `config.model.remat` and meshes.

  A mesh is written data x fsdp x tensor, such as '-1x1x1' or '-1xautox1'.

  Raises:
    UserError: A mesh does not have this form.
  """
  return [
    Setting(batch, remat, mesh)
    for mesh, remat, batch in itertools.product(
      [_mesh(text) for text in meshes], remats, batches
    )
  ]


def run(
  config: schema.Config,
  topology: Topology | Hosts,
  tried: Sequence[Setting],
  options: Callable[[schema.Config, Topology | Hosts], Mapping[str, str]],
) -> Iterator[Trial]:
  """Compiles one setting after another.

  Settings rejected by the config's own rules are results as well.

  Args:
    config: The experiment, to which each setting is applied.
    topology: Devices to compile for.
    tried: The settings.
    options: Compiler options for a config.
  """
  for setting in tried:
    try:
      changed = setting.applied(config, topology.num_devices)
      found = step_compilation.compile_step(
        changed, topology, options(changed, topology)
      )
    except UserError as error:
      yield Trial(setting, None, str(error))
    else:
      yield Trial(setting, found)


def fastest(trials: Sequence[Trial]) -> Trial | None:
  """Returns the trial with most images per second; None if none fits."""
  best = max(trials, key=lambda trial: trial.images_per_second, default=None)
  return best if best and best.images_per_second else None


def row(trial: Trial) -> tuple[str, ...]:
  """Returns a trial's cells under `_HEADER`."""
  setting, found = trial.setting, trial.found
  cells = (
    str(setting.batch_per_device),
    setting.remat,
    "x".join(map(str, setting.mesh)),
  )
  if found is None:
    return (*cells, "refused", "", "", "", "")
  memory = format_bytes(found.hbm["total"])
  if not found.fits:
    return (*cells, f"{memory}, does not fit", "", "", "", "")
  return (
    *cells,
    memory,
    f"{found.cost.cycles / 1e6:.1f} M" if found.cost.cycles else "",
    f"{1e3 * found.estimate.step_seconds:.2f} ms",
    f"{found.estimate.images_per_second:,.0f}",
    f"{found.estimate.utilization:.1%}",
  )


def table(trials: Sequence[Trial]) -> str:
  """Formats aligned lines, fastest first, and rejections with their reasons."""
  ordered = sorted(trials, key=lambda one: -one.images_per_second)
  rows = [_HEADER, *map(row, ordered)]
  lines = text_tables.aligned(rows)
  lines += [f"refused: {trial.refusal}" for trial in ordered if trial.refusal]
  return "\n".join(lines)


def _mesh(text: str) -> tuple[int, int | str, int]:
  try:
    data, fsdp, tensor = text.split("x")
    return int(data), fsdp if fsdp == "auto" else int(fsdp), int(tensor)
  except ValueError:
    raise UserError(
      f'"{text}" is not a mesh; write DATAxFSDPxTENSOR, such as -1x4x1 or'
      " -1xautox1."
    ) from None
