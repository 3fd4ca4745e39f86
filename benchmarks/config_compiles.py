"""Compiles every shipped config and objective for absent devices.

  python benchmarks/config_compiles.py --output=DIR [--topology=h100:8]
      [--only=mae,dino] [--list]

Each config is compiled by `vit_jax.compile` with the batch of its recipe; one
that does not fit is compiled again in more and more parts
(`train.accumulate_steps`) until it does, or with all activations recomputed if
its loss compares the examples of a whole batch. The figures are kept in DIR,
from which a run that was stopped continues, and printed as a table at the end;
--list prints the existing ones. Needs the compiler for the devices, but no
device.
"""

import argparse
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import compiling  # noqa: E402
from vit_jax import text_tables  # noqa: E402
from vit_jax.sharding import rules  # noqa: E402

# Nothing is trained by these.
_ASIDE = {"frozen_features", "zero_shot"}
# File -> arguments with which it is compiled; by default none.
_ARGUMENTS = {
  "beit": ("model=B", "model=B,phase=finetune22k"),
  "clip": ("model=B/32", "model=L/14"),
  "convnext": ("model=ConvNeXt-T", "model=ConvNeXt-B,phase=pretrain22k"),
  "deit": ("model=S", "model=S,distilled", "recipe=deit3,model=B"),
  "eva02": ("model=B,teacher=random", "model=B,phase=finetune"),
  "finetune": ("dataset=cifar10,model=B/16",),
  "mae": ("model=B", "model=L", "model=B,phase=finetune"),
  "pretrain": ("model=B/16,data=i21k", "model=L/16,data=i21k"),
  "resnet": ("model=R50x1,data=i21k",),
  "siglip": ("model=B/16", "model=So400m/14"),
  "swin": ("model=Swin-T", "model=Swin-B,phase=pretrain22k"),
  "vtab": ("model=B/16",),
}
# File -> what only the user's data or checkpoints say.
_OVERRIDES = {
  **{
    name: ("model.num_classes=10",)
    for name in (
      "finetune_folder",
      "study_captions",
      "study_families",
      "study_selfsupervised",
      "study_small",
    )
  },
}
# What is tried in turn until a step fits.
_SMALLER = tuple(f"train.accumulate_steps={2**i}" for i in range(1, 7))
_WHOLE = {"dino": ("model.remat=full",), "dinov2": ("model.remat=full",)}


def names(only: str | None = None) -> list[str]:
  """Every config to compile, as `--config` names it below configs/."""
  found = []
  for path in sorted((ROOT / "configs").glob("[!_]*.py")):
    if path.stem in _ASIDE or (only and path.stem not in only.split(",")):
      continue
    for arguments in _ARGUMENTS.get(path.stem, ("",)):
      found.append(f"{path.stem}.py:{arguments}".removesuffix(":"))
  return found


def settings(name: str) -> tuple[str, ...]:
  """The overrides with which a config is compiled until it fits."""
  return ("", *_WHOLE.get(name.partition(".")[0], _SMALLER))


def place(directory: pathlib.Path, name: str, setting: str) -> pathlib.Path:
  """The file of a config's figures."""
  file = re.sub(r"[^\w.=-]+", "-", f"{name} {setting}".strip())
  return directory / f"{file}.json"


def figures(directory: pathlib.Path, name: str) -> dict[str, dict]:
  """Setting -> the figures that are there, the last of which may fit."""
  paths = {s: place(directory, name, s) for s in settings(name)}
  return {
    setting: json.loads(path.read_text())
    for setting, path in paths.items()
    if path.exists()
  }


def compile_once(
  directory: pathlib.Path, name: str, topology: str, setting: str
) -> str:
  """Compiles a config; returns why that failed, or ""."""
  overrides = [*_OVERRIDES.get(name.partition(".")[0], ())]
  overrides += [setting] * bool(setting)
  failure = compiling.compile_to(
    place(directory, name, setting),
    f"configs/{name}",
    topology,
    *(f"--config.{override}" for override in overrides),
  )
  return failure.rpartition("\n")[-1]


def make(directory: pathlib.Path, name: str, topology: str) -> None:
  """Compiles a config until it fits."""
  for setting in settings(name):
    found = figures(directory, name)
    if setting not in found and not is_too_little(found.get(""), setting):
      failure = compile_once(directory, name, topology, setting)
      print(f"{name} {setting}: {failure or 'compiled'}", flush=True)
      if failure:
        return
      found = figures(directory, name)
    if setting in found and found[setting]["fits"]:
      return


def is_too_little(whole: dict | None, setting: str) -> bool:
  """Returns True if even all of the memory, in so many parts, is too much."""
  key, _, parts = setting.partition("=")
  if whole is None or key != "train.accumulate_steps":
    return False
  total = whole["hbm_bytes_per_device"]["total"]
  return total / int(parts) > whole["hbm_limit_bytes"]


def row(name: str, found: dict[str, dict]) -> list[str]:
  """Cells of a config: of the recipe's batch as it is, then of what fits."""
  if not found:
    return [f"`{name}`", *["-"] * 7]
  whole, (setting, last) = found[""], list(found.items())[-1]

  def memory(one):
    return rules.format_bytes(one["hbm_bytes_per_device"]["total"])

  fitting = f"`{setting}`: {memory(last)}" if setting else ""
  if not last["fits"]:
    fitting = "nothing tried"
  moved = sum(one["bytes"] for one in last.get("gpu_kernels", {}).values())
  seconds = last["estimated_step_seconds"]
  return [
    f"`{name}`",
    f"{whole['param_count'] / 1e6:.1f} M",
    f"{whole['global_batch']:,}",
    memory(whole),
    fitting,
    rules.format_bytes(moved) if moved else "",
    *speed(last["global_batch"], seconds),
  ]


def speed(batch_size: int, seconds: float | None) -> tuple[str, str]:
  """Time of a step and images a second, of steps whose bound says something."""
  if seconds is None:
    return "", ""
  if seconds < 1e-3:  # The host takes longer to start its kernels.
    return "under 1 ms", ""
  return f"{1e3 * seconds:.1f} ms", f"{batch_size / seconds:,.0f}"


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--output", required=True, type=pathlib.Path)
  parser.add_argument("--topology", default="h100:8")
  parser.add_argument("--only", help="files of configs/, such as mae,dino")
  parser.add_argument("--list", action="store_true")
  arguments = parser.parse_args()
  arguments.output.mkdir(parents=True, exist_ok=True)
  wanted = names(arguments.only)
  if not arguments.list:
    for name in wanted:
      make(arguments.output, name, arguments.topology)
  head = ["config", "parameters", "batch", "memory", "fits with"]
  rows = [[*head, "bytes moved", "step, at least", "images/s, at most"]]
  rows += [row(name, figures(arguments.output, name)) for name in wanted]
  print(text_tables.markdown(rows))


if __name__ == "__main__":
  main()
