"""Compiles the train step for TPUs or GPUs that are absent; prints its cost.

  python -m vit_jax.compile --config=configs/vit_h14_jft.py \\
      --topology=v5e:16x16 --output=cost.json

Requires the TPU compiler (pip install 'libtpu==0.0.51'), but no TPU and no
data. A topology is a TPU generation (v2, v3, v4, v5e, v5p, v6e) and its grid of
chips: v3:16x16, v4:4x4x4, v5e:16x16; 2*v5e:16x16 is two slices. Or it is a GPU
(a100, h100, h200, b200, l4, rtx4090) and the number of GPUs: h100:8, h100:4x8
for four hosts of eight; these require the extra gpu-compile. A large model
takes minutes. A step that does not fit is a result, not an error: exit code 0,
and "fits": false in the JSON. docs/compile.md explains the figures.

--sweep tries every combination of --sweep_batches, --sweep_remat and
--sweep_meshes and names the fastest that fits.
"""

from collections.abc import Sequence

from absl import flags

from vit_jax import checks, command_line, records
from vit_jax.aot import topology as topology_lib
from vit_jax.aot.gpus import Hosts
from vit_jax.aot.topology import Topology
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.pretrained import initial_model


def define_flags() -> None:
  command_line.define_config()
  flags.DEFINE_string(
    "topology", None, "Devices to compile for: v5e:16x16 or h100:8."
  )
  flags.DEFINE_integer(
    "num_slices", None, "Number of such slices; short form: 2*v5e:16x16.", 1
  )
  flags.DEFINE_string("output", None, "JSON file for the figures.")
  flags.DEFINE_string("dump_hlo", None, "File for the compiled program's text.")
  flags.DEFINE_enum(
    "xla_flags",
    "auto",
    ["auto", "none"],
    "Compiler options: those that train uses on these devices, or none.",
  )
  flags.DEFINE_bool(
    "sweep", False, "Try settings; print the fastest that fits."
  )
  flags.DEFINE_list(
    "sweep_batches", None, "Images per device; None: half, same and double."
  )
  flags.DEFINE_list(
    "sweep_remat", ["none", "dots", "full"], "Values of model.remat."
  )
  flags.DEFINE_list(
    "sweep_meshes",
    ["-1xautox1", "1x-1x1"],
    "Meshes, DATAxFSDPxTENSOR; -1: the remaining devices; auto: as in"
    " config.mesh.fsdp.",
  )


def main(argv: Sequence[str]) -> int:
  command_line.no_arguments(argv)
  values = flags.FLAGS
  config = command_line.resolved_config()
  if not values.topology:
    raise UserError(
      "No topology was named: give --topology=GENERATION:GRID, such as"
      " --topology=v5e:16x16, or GPUs as --topology=h100:8."
    )
  topology = topology_lib.parse(values.topology, values.num_slices)
  for name in ("output", "dump_hlo"):
    command_line.check_writable(name, values[name].value)
  for name in ("sweep_batches", "sweep_remat", "sweep_meshes"):
    if values[name].present and not values.sweep:
      raise UserError(f"--{name} is for --sweep; give that too.")
  if values.sweep and values.dump_hlo:
    raise UserError(
      "--dump_hlo writes one program and --sweep compiles many; leave one out."
    )
  topology_lib.prepare_environment(topology)
  config = initial_model.resolve_architecture(config, None)
  checks.check(config)
  if values.sweep:
    return sweep(config, topology)
  return show(config, topology)


def show(config: schema.Config, topology: Topology | Hosts) -> int:
  """Compiles the config and prints its figures; returns the exit code.

  Raises:
    UserError: The step cannot be built or compiled for the topology.
  """
  from vit_jax.aot import step_compilation, table

  found = step_compilation.compile_step(
    config, topology, _options(config, topology)
  )
  print(table.describe(found))
  values = flags.FLAGS
  if values.output:
    command_line.writing(records.write_json, values.output, found.record())
  if values.dump_hlo:
    if found.text is None:
      print("There is no program to dump, as it does not fit.")
    else:
      command_line.writing(records.write_text, values.dump_hlo, found.text)
  return 0


def sweep(config: schema.Config, topology: Topology | Hosts) -> int:
  """Compiles the config in many settings and prints the fastest that fits.

  Raises:
    UserError: A setting is malformed, or none is allowed.
  """
  from vit_jax.aot import trials

  values, tried = flags.FLAGS, []
  present = max(1, config.train.batch_size // topology.num_devices)
  batches = values.sweep_batches or sorted(
    {max(1, present // 2), present, 2 * present}
  )
  settings = trials.settings(
    _whole_numbers(batches), values.sweep_remat, values.sweep_meshes
  )
  for trial in trials.run(config, topology, settings, _options):
    tried.append(trial)
    cells = "  ".join(filter(None, trials.row(trial)))
    print(f"{len(tried)} of {len(settings)}: {cells}", flush=True)
  if all(trial.refusal for trial in tried):
    raise UserError(f"Every setting was rejected. {tried[0].refusal}")
  best = trials.fastest(tried)
  print(f"\n{trials.table(tried)}\n")
  if best is None:
    print("None of them fits.")
  else:
    data, fsdp, tensor = best.setting.mesh
    batch_size = best.setting.batch_per_device * topology.num_devices
    print(
      "The fastest that fits:"
      f" --config.train.batch_size={batch_size}"
      f" --config.model.remat={best.setting.remat}"
      f" --config.mesh.data={data} --config.mesh.fsdp={fsdp}"
      f" --config.mesh.tensor={tensor}"
    )
  if values.output:
    record = {
      "fastest": None if best is None else best.record(),
      "trials": [trial.record() for trial in tried],
    }
    command_line.writing(records.write_json, values.output, record)
  return 0


def _options(
  config: schema.Config, topology: Topology | Hosts
) -> dict[str, str | bool]:
  from vit_jax.aot import xla_flags

  if flags.FLAGS.xla_flags == "none":
    return {}
  return xla_flags.options(topology.device_kind, config.mesh)


def _whole_numbers(texts: Sequence[str | int]) -> list[int]:
  try:
    numbers = [int(text) for text in texts]
  except ValueError:
    numbers = []
  if not numbers or min(numbers) < 1:
    given = ",".join(map(str, texts))
    raise UserError(
      f"--sweep_batches={given} must be images a device, such as 16,32,64."
    )
  return numbers


if __name__ == "__main__":
  define_flags()
  command_line.run(main, config_flag="config")
