"""Table of a compilation's results."""

import jax.numpy as jnp

from vit_jax import registry, trees
from vit_jax.aot.collectives import BETWEEN_SLICES
from vit_jax.aot.gpus import Hosts
from vit_jax.aot.step_compilation import Compilation
from vit_jax.config import names
from vit_jax.models import attention_key
from vit_jax.sharding.rules import format_bytes


def describe(found: Compilation) -> str:
  """Formats aligned lines on memory, arithmetic, exchanges and time."""
  sections = [("Step", _step(found)), ("Memory of a device", _memory(found))]
  if found.cost:
    is_gpu = isinstance(found.topology, Hosts)
    sections += [
      ("Arithmetic of a device", _arithmetic(found)),
      ("Exchanges of a device in a step", _exchanges(found)),
      (
        "Time, at least, were all kernels as fast as memory and products allow"
        if is_gpu
        else "Time, as the compiler estimates it",
        _time(found),
      ),
    ]
  text = "\n\n".join(
    f"== {title} ==\n{_aligned(rows)}" for title, rows in sections
  )
  return "\n\n".join([text, _verdict(found)])


def _step(found: Compilation) -> list[tuple[str, str]]:
  config, topology = found.parts.config, found.topology
  num_devices = topology.num_devices
  what = "GPU" if isinstance(topology, Hosts) else "chip"
  chips = f"{topology.num_chips} {what}{'s' * (topology.num_chips > 1)}"
  if num_devices != topology.num_chips:
    chips += f", {num_devices} devices (cores)"
  mesh = " x ".join(
    f"{axis} {size}" for axis, size in found.parts.mesh.shape.items()
  )
  parameters = trees.num_elements(found.parts.abstract_state.params)
  batch = config.train.batch_size
  attention = attention_key.value(config.model)
  return [
    ("model", f"{names.describe(config.model)}, {parameters:,} parameters"),
    *([("attention", attention)] if attention else []),
    ("topology", f"{topology}: {chips}, mesh {mesh}"),
    ("batch", f"{batch} images, {batch / num_devices:g} a device"),
    ("compiled in", f"{found.compile_seconds:.0f} s"),
  ]


def _memory(found: Compilation) -> list[tuple[str, str]]:
  hbm = found.hbm
  rows = [(name, format_bytes(n)) for name, n in found.arguments.items() if n]
  if found.cost:
    padding = hbm["arguments"] - sum(found.arguments.values())
    rows += [
      ("padding of these", format_bytes(padding)),
      (
        "temporaries",
        f"{format_bytes(hbm['temporaries'])}, activations mostly",
      ),
      ("outputs", format_bytes(hbm["outputs"] - hbm["aliased"])),
    ]
  used = hbm["total"] / found.hbm_limit
  limit = format_bytes(found.hbm_limit)
  return [
    *rows,
    ("total", f"{format_bytes(hbm['total'])}, {used:.0%} of {limit}"),
  ]


def _arithmetic(found: Compilation) -> list[tuple[str, str]]:
  cost, parts = found.cost, found.parts
  share = parts.flops_per_step / found.topology.num_devices
  rows = [
    ("model FLOPs (3 x forward)", f"{share:.4g}"),
    ("compiled FLOPs", f"{cost.flops:.4g}, matrix products"),
  ]
  if cost.kernel_calls:
    rows.append(("recomputed", "not known: kernels' FLOPs are not counted"))
  else:
    recomputed = max(0.0, 1 - share / cost.flops)
    rows.append(
      ("recomputed", f"{recomputed:.1%} of these, or done on several devices")
    )
  if isinstance(found.topology, Hosts):
    kernels = sum(cost.gpu_kernels.values())
    moved = format_bytes(sum(cost.gpu_bytes.values()))
    rows.append(("kernels", f"{kernels:,}, which read and write {moved}"))
    rows += [
      (f"  {kind}", f"{one['count']:,} of {format_bytes(one['bytes'])}")
      for kind, one in cost.by_kernel().items()
      if one["bytes"]
    ]
  else:
    rows.append(("cycles", f"{cost.cycles:,.0f}"))
  if cost.kernel_cycles:
    rows.append(
      ("  of our kernels", f"{cost.kernel_cycles:,.0f}, at least (a bound)")
    )
  for name, count in cost.uncosted.items():
    rows.append(("  not contained", f"{count} calls of {name}, cost unknown"))
  if cost.loops_of_unknown_length:
    rows.append(
      (
        "  counted once",
        f"{cost.loops_of_unknown_length} loops of unknown length",
      )
    )
  return rows


def _exchanges(found: Compilation) -> list[tuple[str, str]]:
  kinds = found.cost.by_kind()
  rows = [
    (kind, f"{one['count']} of {format_bytes(one['bytes'])} together")
    for kind, one in kinds.items()
  ]
  if BETWEEN_SLICES in kinds:
    rows.append(
      ("", "what goes between slices is not in the time below: the hosts'")
    )
    rows.append(("", "network is not the chips' to say"))
  topology = found.topology
  if isinstance(topology, Hosts) and topology.num_hosts > 1:
    if not topology.accelerator.network:
      rows.append(
        ("", "what goes between hosts is not in the time below: how fast a")
      )
      rows.append(("", f"network joins {topology.device_kind}s is not known"))
  return rows or [("none", "")]


def _time(found: Compilation) -> list[tuple[str, str]]:
  times = found.estimate
  cores = found.topology.num_devices != found.topology.num_chips
  unit = "core" if cores else "chip"
  if isinstance(found.topology, Hosts):
    unit = "GPU"
  return [
    (
      "step",
      f"{1e3 * times.step_seconds:.2f} ms: arithmetic"
      f" {1e3 * times.compute_seconds:.2f}, exchanges"
      f" {1e3 * times.collective_seconds:.2f}, one after the other",
    ),
    (
      "  as scheduled",
      f"{1e3 * times.overlapped_seconds:.2f} ms: exchanges overlap with"
      " arithmetic",
    ),
    ("images/s", f"{times.images_per_second:,.0f}"),
    ("MFU", f"{times.utilization:.1%}"),
    (
      f"run of {found.parts.total_steps:,} steps",
      f"{times.run_days:.3g} days, {times.device_days:,.3g} {unit}-days",
    ),
  ]


def _verdict(found: Compilation) -> str:
  limit = format_bytes(found.hbm_limit)
  if found.fits:
    return f"It fits into the {limit} of a device."
  return (
    f"It does not fit: {format_bytes(found.hbm['total'])} are needed and"
    f" {limit} are there. Raise config.train.accumulate_steps, set"
    " config.model.remat=full, split the parameters with config.mesh.fsdp, or"
    " take more devices; --sweep looks for what fits."
  ) + _share_of_scores(found)


def _share_of_scores(found: Compilation) -> str:
  """Names plain attention as the reason, if it is."""
  config = found.parts.config
  model = config.model
  family = registry.FAMILIES.get(model.name)
  if not family.has_attention or model.attention != "xla":
    return ""
  size, (side, _) = family.size(model), family.grid(model)
  num_tokens = side**2 + family.num_prefix_tokens(model)
  images = config.train.batch_size / found.topology.num_devices
  scores = int(
    (size.depth if model.remat == "none" else 1)
    * images
    / config.train.accumulate_steps
    * size.num_heads
    * num_tokens**2
    * jnp.dtype(model.dtype).itemsize
  )
  if scores < found.hbm["total"] / 4:
    return ""
  return (
    f" Scores of {num_tokens} x {num_tokens} tokens alone take"
    f" {format_bytes(scores)} of it: config.model.attention=flash keeps none."
  )


def _aligned(rows: list[tuple[str, str]]) -> str:
  width = max(len(name) for name, _ in rows)
  return "\n".join(f"{name:{width}}  {value}".rstrip() for name, value in rows)
