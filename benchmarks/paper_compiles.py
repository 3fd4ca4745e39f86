"""Compiles every train step of the paper's tables and studies ahead of time.

  python benchmarks/paper_compiles.py --output=DIR [--accelerator=h100]
      [--rows=B/32] [--list]

Gathers the configs of all places of Tables 2 to 9 and of the appendix's
studies, drops those whose step another one has already (the network, its
images, the batch, the objective and the optimizer tell steps apart; datasets,
rates and lengths do not), and compiles the rest ahead of time with
`vit_jax.compile`, the cheapest first: minutes for a small network, an hour for
a large one on TPUs, a minute or two on GPUs. One that does not fit into a chip
is compiled a second time with all activations recomputed. Each step leaves a
JSON file in DIR, so that a run that was stopped resumes; one that could not be
compiled leaves FILE.err and is tried again. At the end, and with --list without
compiling, DIR/compiled_steps_v5e.json, named after the accelerator, has the
figures of the steps, what each config's whole run takes and what each table
takes: copied to vit_jax/paper it is what `vit_jax.tables --costs` prints.
Needs the accelerator's compiler (docs/compile.md), no accelerator and no data.
"""

import argparse
import contextlib
import dataclasses
import importlib.metadata
import json
import pathlib
import re
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import compiling  # noqa: E402
from vit_jax import records  # noqa: E402
from vit_jax.config import (  # noqa: E402
  experiment_file,
  named_sections,
  names,
  resolve,
  schema,
)
from vit_jax.objectives import build as objectives_build  # noqa: E402
from vit_jax.paper import results  # noqa: E402
from vit_jax.paper.datasets import DATASETS  # noqa: E402
from vit_jax.report.tables import recipes  # noqa: E402

# Accelerator -> batch -> chips that it is compiled for: 16 images a TPU, 64 a
# GPU.
TOPOLOGIES = {
  "v5e": {4096: "v5e:16x16", 512: "v5e:4x8"},
  "h100": {4096: "h100:8x8", 512: "h100:8"},
}
# Packages whose versions the figures depend on.
_COMPILERS = {
  "v5e": ("jax", "libtpu"),
  "h100": (
    "jax",
    "jax-cuda12-plugin",
    "nvidia-cuda-nvcc-cu12",
    "nvidia-cudnn-cu12",
  ),
}
# What a step that does not fit is compiled with the second time.
_SMALLER = "--config.model.remat=full"
# Keys that leave the step's arithmetic as it is.
_ASIDE = re.compile(
  r"seed|(total|log|init|keep|allow|data_dir|model_from).*"
  r"|(checkpoint|evals|faults|mesh|paper_row|profile|schedule|sweep)\..*"
  r"|evals|model\.(num_classes|head_bias_init)"
  r"|objective\.(loss|label_smoothing)"
  r"|optimizer\.weight_decay"
  r"|train\.(dataset|split|preprocess|.*_key|shuffle_block|prefetch_batches"
  r"|max_bad_examples|exclude)"
)
# Studies of the appendix, except Table 8.
_SHAPES = {
  "depth": (2, 4, 16, 32, 64),
  "width": (256, 512, 2048, 4096),
  "mlp_dim": (512, 1024, 4096, 8192),
  "patch": (56, 16, 8),
}


@dataclasses.dataclass(frozen=True)
class Step:
  """A train step, and the configs that have it.

  Attributes:
    config: Resolved config of the first of them.
    makes: `--config` -> what it makes, as 'Table 6: R50x1'.
    accelerator: Key of `TOPOLOGIES`.
  """

  config: schema.Config
  makes: dict[str, list[str]]
  accelerator: str

  @property
  def argument(self) -> str:
    """The first config's `--config`."""
    return next(iter(self.makes))

  @property
  def file(self) -> str:
    """Name of the file of its figures, without an ending."""
    return re.sub(r"[^\w.-]+", "-", self.argument.removeprefix("configs/"))

  @property
  def smaller_file(self) -> str:
    """Name of the file of its figures with `_SMALLER`, without an ending."""
    return f"{self.file}-remat"

  @property
  def topology(self) -> str:
    return TOPOLOGIES[self.accelerator][self.config.train.batch_size]

  @property
  def flops(self) -> int:
    """FLOPs of one image's forward pass."""
    return objectives_build.forward_flops(
      self.config, num_classes=self.config.model.num_classes or 1000
    )

  @property
  def title(self) -> str:
    """'ViT-B/16 at 224 pixels, adamw, masked_patch'."""
    parts = [names.describe(self.config.model), self.config.optimizer.name]
    objective = self.config.objective
    kept = self.config.model.model_dump()  # A ResNet lacks most of these keys.
    if kept.get("mlp_dim") is not None:
      parts.append(f"MLP {kept['mlp_dim']}")
    parts += ["no clipping"] * (self.config.optimizer.grad_clip_norm is None)
    if kept.get("dropout_rate"):
      parts.append(f"dropout {kept['dropout_rate']:g}")
    usual = named_sections.default_section("model")
    parts += [
      kept[key]
      for key in ("pos_embedding", "pos_embedding_at", "pool")
      if kept.get(key, getattr(usual, key)) != getattr(usual, key)
    ]
    parts += ["average"] * (self.config.ema_decay is not None)
    parts += ["mixup"] * bool(getattr(objective, "mixup_alpha", None))
    if objective.name != "supervised":
      parts.append(f"{objective.name} {objective.target}")
    return ", ".join(parts)


def configs() -> Iterator[tuple[str, str]]:
  """(`--config`, what it makes) of the tables' places, then of the studies."""
  for table in results.TABLES.values():
    for row in table.rows:
      where = f"Table {table.number}: {row.name}"
      main = recipes.main(table, row)
      if main is not None and table.number != 4:
        yield main, where
      for find in (recipes.pretraining, recipes.finetuning):
        for key in row.cells:
          config = find(table, row, key)
          # VTAB as a whole is nineteen runs, those of Table 9.
          if config is not None and key != "vtab":
            yield config, f"{where}, {table.columns[key].title}"
  for target in ("mean_colour", "colours_4x4", "pixels"):
    yield f"configs/selfsupervised.py:target={target}", "B.1.2"
  yield "configs/ablation_head.py:pool=gap", "D.3"
  yield "configs/ablation_shape.py", "D.2"
  for key, values in _SHAPES.items():
    for value in values:
      yield f"configs/ablation_shape.py:{key}={value}", "D.2"
  for images in ("9M", "30M", "90M", "300M"):
    for model in ("b/32", "B/32", "L/16", "R50x1", "R152x2"):
      yield (
        f"configs/ablation_data.py:model={model},images={images}",
        "Figure 4",
      )
  for model in ("B/32", "B/16", "L/32", "L/16"):
    for data in ("i1k", "i21k"):
      yield f"configs/ablation_data.py:model={model},data={data}", "Figure 3"
  datasets = sorted({results.FINETUNING[key] for key in results.AVERAGED})
  for row in results.TABLE_7.rows:
    for dataset in datasets:
      yield (
        f"configs/resnet.py:model={row.name},dataset={dataset}",
        f"Table 7: {row.name}, HyperRule",
      )


def steps(accelerator: str = "v5e") -> list[Step]:
  """The different steps among the configs, the cheapest first."""
  found: dict[str, Step] = {}
  for argument, makes in configs():
    config = load(argument)
    flat = resolve.flatten(config.model_dump())
    kept = {k: v for k, v in flat.items() if not _ASIDE.fullmatch(k)}
    step = found.setdefault(
      json.dumps(kept, default=str), Step(config, {}, accelerator)
    )
    step.makes.setdefault(argument, []).append(makes)
  return sorted(
    found.values(), key=lambda one: one.flops * one.config.train.batch_size
  )


def load(argument: str) -> schema.Config:
  path, _, arguments = argument.partition(":")
  return resolve.resolve(
    experiment_file.load(str(ROOT / path), arguments or None)
  )


def is_done(step: Step, directory: pathlib.Path) -> bool:
  """True if the figures of a step exist, and a second time if it needs that."""
  found = read(step.file, directory)
  if found is None:
    return False
  return found["fits"] or read(step.smaller_file, directory) is not None


def read(file: str, directory: pathlib.Path) -> dict | None:
  path = directory / f"{file}.json"
  return json.loads(path.read_text()) if path.exists() else None


def compile_step(step: Step, directory: pathlib.Path) -> bool:
  """Compiles a step as often as it needs; whether that succeeded."""
  found = read(step.file, directory)
  if found is None:
    if not _compile(step, step.file, directory):
      return False
    found = read(step.file, directory)
  return found["fits"] or _compile(step, step.smaller_file, directory, _SMALLER)


def _compile(
  step: Step, file: str, directory: pathlib.Path, *overrides: str
) -> bool:
  """Compiles a step in a separate process; returns true on success."""
  output = directory / f"{file}.json"
  if step.config.model.num_classes is None:
    known = DATASETS.get(step.config.train.dataset)
    classes = known.num_classes if known else 1000
    overrides += (f"--config.model.num_classes={classes}",)
  failure = compiling.compile_to(
    output, step.argument, step.topology, *overrides
  )
  if failure:
    output.with_suffix(".err").write_text(failure)
    return False
  output.with_suffix(".err").unlink(missing_ok=True)
  figures = json.loads(output.read_text())
  figures["compilers"] = _versions(step.accelerator)
  records.write_json(output, figures)
  return True


def step_rows(found: dict[str, dict], all_steps: list[Step]) -> list[dict]:
  """Figures of the steps that have been compiled."""
  rows = []
  for step in all_steps:
    for file, title in (
      (step.file, step.title),
      (step.smaller_file, f"{step.title}, all recomputed"),
    ):
      figures = found.get(file)
      if figures is None:
        continue
      batch, seconds = (
        figures["global_batch"],
        figures["estimated_step_seconds"],
      )
      memory = figures["hbm_bytes_per_device"]["total"]
      fits = figures["fits"]
      rows.append(
        {
          "step": title,
          "chips": figures["topology"],
          "images_per_chip": batch // figures["num_devices"],
          "parameters_m": round(figures["param_count"] / 1e6, 1),
          "memory_gib": round(memory / 2**30, 2),
          "model_tflops": round(figures["model_flops_per_step"] / 1e12, 1),
          **_work(figures),
          "step_ms": round(1e3 * seconds, 1) if fits else None,
          "images_per_second": round(batch / seconds) if fits else None,
        }
      )
  return rows


def _work(figures: dict) -> dict:
  """Cycles of a TPU, or bytes that a GPU's kernels read and write."""
  kernels = figures.get("gpu_kernels")
  if kernels is not None:
    moved = sum(kind["bytes"] for kind in kernels.values())
    return {"moved_gib": round(moved / 2**30, 1)}
  cycles = figures["estimated_cycles"]
  return {"cycles_m": round(cycles / 1e6, 1) if figures["fits"] else None}


def run_rows(found: dict[str, dict], all_steps: list[Step]) -> list[dict]:
  """Steps, hours and chip-days of the whole run of each config."""
  rows = []
  for step in all_steps:
    figures, overrides = fitting(step, found)
    if figures is None:
      continue
    for argument, makes in step.makes.items():
      count, chips = num_steps(load(argument)), figures["num_devices"]
      seconds = count * figures["estimated_step_seconds"]
      rows.append(
        {
          "config": argument + overrides,
          "for": list(dict.fromkeys(makes)),
          "steps": count,
          "chips": chips,
          "hours": round(seconds / 3600, 2),
          "chip_days": round(seconds * chips / 86400, 2),
        }
      )
  return rows


def totals(found: dict[str, dict], all_steps: list[Step]) -> list[dict]:
  """Numbers of runs and chip-days of each table and study.

  A config that several places of a table share is one run. Configs whose step
  is missing are named as `not_compiled`.
  """
  rows: dict[str, dict] = {}
  for step in all_steps:
    figures, _ = fitting(step, found)
    for argument, makes in step.makes.items():
      config = load(argument)
      kind = "pretraining" if config.init_from is None else "finetuning"
      for name in {make.partition(":")[0] for make in makes}:
        row = rows.setdefault(
          name,
          {
            "table": name,
            "pretrainings": 0,
            "pretraining_chip_days": 0.0,
            "finetunings": 0,
            "finetuning_chip_days": 0.0,
          },
        )
        if figures is None:
          row.setdefault("not_compiled", []).append(argument)
          continue
        seconds = num_steps(config) * figures["estimated_step_seconds"]
        row[f"{kind}s"] += 1
        row[f"{kind}_chip_days"] += seconds * figures["num_devices"] / 86400
  for row in rows.values():
    for key in ("pretraining_chip_days", "finetuning_chip_days"):
      row[key] = round(row[key], 1)
  return [rows[name] for name in sorted(rows)]


def costs(found: dict[str, dict], all_steps: list[Step]) -> str:
  """The file that `vit_jax.tables --costs` reads, a line for each row."""
  versions = next(
    (one["compilers"] for one in found.values() if "compilers" in one), {}
  )
  parts = [f'  "versions": {json.dumps(versions)}']
  for key, make in (
    ("steps", step_rows),
    ("runs", run_rows),
    ("totals", totals),
  ):
    rows = ",\n".join(
      f"    {json.dumps(row)}" for row in make(found, all_steps)
    )
    parts.append(f'  "{key}": [\n{rows}\n  ]')
  return "{\n" + ",\n".join(parts) + "\n}\n"


def _versions(accelerator: str) -> dict[str, str]:
  """Versions of the packages that figures are made by, as installed."""
  found = {}
  for name in _COMPILERS[accelerator]:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
      found[name] = importlib.metadata.version(name)
  return found


def fitting(step: Step, found: dict[str, dict]) -> tuple[dict | None, str]:
  """A step's figures as it fits, and what it needs for that."""
  for file, overrides in ((step.file, ""), (step.smaller_file, f" {_SMALLER}")):
    if file in found and found[file]["fits"]:
      return found[file], overrides
  return None, ""


def num_steps(config: schema.Config) -> int:
  """Updates of a run, by the published size of its dataset."""
  if config.total_steps is not None:
    return config.total_steps
  images = DATASETS[config.train.dataset].num_examples["train"]
  return round(config.total_epochs * images / config.train.batch_size)


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--output", required=True, type=pathlib.Path)
  parser.add_argument("--accelerator", default="v5e", choices=TOPOLOGIES)
  parser.add_argument(
    "--rows", default="", help="only steps whose title or --config has this"
  )
  parser.add_argument(
    "--list", action="store_true", help="compile nothing; write the tables"
  )
  arguments = parser.parse_args()
  arguments.output.mkdir(parents=True, exist_ok=True)
  all_steps = steps(arguments.accelerator)
  chosen = [
    step
    for step in all_steps
    if arguments.rows in step.title
    or any(arguments.rows in config for config in step.makes)
  ]
  if not chosen:
    sys.exit(f"--rows={arguments.rows} is in no title and no config.")
  failed = []
  for number, step in enumerate(chosen, start=1):
    was_done = is_done(step, arguments.output)
    if arguments.list or was_done:
      state = "done" if was_done else "to do"
    else:
      print(f"{number} of {len(chosen)}: {step.title} ...", flush=True)
      is_made = compile_step(step, arguments.output)
      state = "compiled" if is_made else f"failed, see {step.file}.err"
      failed += [] if is_made else [step.title]
    print(
      f"{number} of {len(chosen)}: {step.title}, {len(step.makes)} configs:"
      f" {state}",
      flush=True,
    )
  found = {
    file: figures
    for step in all_steps
    for file in (step.file, step.smaller_file)
    if (figures := read(file, arguments.output)) is not None
  }
  path = arguments.output / f"compiled_steps_{arguments.accelerator}.json"
  path.write_text(costs(found, all_steps))
  if failed:
    sys.exit(f"Not compiled: {'; '.join(failed)}.")


if __name__ == "__main__":
  main()
