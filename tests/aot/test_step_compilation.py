"""The step that is compiled ahead of time is the one that train runs."""

import json
import subprocess
import sys

import pytest

from tests import experiments
from vit_jax.aot import hlo_text, step_compilation, table, topology
from vit_jax.aot.step_compilation import Compilation
from vit_jax.data import facts
from vit_jax.training import experiment

CONTRACT = {
  "topology",
  "num_devices",
  "global_batch",
  "param_count",
  "model_flops_per_step",
  "flops_per_device",
  "hbm_bytes_per_device",
  "hbm_limit_bytes",
  "fits",
  "estimated_cycles",
  "kernel_cycles",
  "uncosted_custom_calls",
  "estimated_collective_seconds",
  "estimated_step_seconds",
  "estimated_overlapped_step_seconds",
  "collectives",
  "compile_seconds",
  "versions",
}


def hlo(parts: experiment.Experiment) -> str:
  lowered = parts.lower()
  return lowered.as_text()


@pytest.mark.parametrize(
  "changes",
  [
    {},
    {"mesh__fsdp": 2, "mesh__tensor": 2, "train__accumulate_steps": 2},
    {"model__remat": "full", "model__scan_layers": True, "ema_decay": 0.9},
    {"objective__mixup_alpha": 0.2, "train__shuffle_block": 4},
  ],
)
def test_the_step_is_that_of_train(changes):
  config = experiments.config(**changes)
  source = facts.open_data(config)
  of_train = experiment.build(config, facts.of_source(config, source))
  assert hlo(step_compilation.build(config)) == hlo(of_train)


def test_another_config_is_another_step():
  one = step_compilation.build(experiments.config())
  other = step_compilation.build(experiments.config(model__remat="full"))
  assert hlo(one) != hlo(other)


def test_no_data_and_no_tensorflow_are_needed(repo):
  code = """
import sys

ABSENT = ("tensorflow", "tensorflow_datasets", "keras", "array_record")

class NotInstalled:
  def find_spec(self, name, path=None, target=None):
    if name.partition(".")[0] in ABSENT:
      raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
from vit_jax import checks
from vit_jax.config import experiment_file
from vit_jax.aot import step_compilation
from vit_jax.config import resolve
for path, arguments, split in (
  ("configs/pretrain.py", "model=B/32,data=i21k", "train[:50%]"),
  ("configs/benchmark.py", "model=Ti/16", "train[:-100]+test"),
  ("configs/quickstart.py", None, "train"),
):
  config = experiment_file.load(path, arguments)
  config.update(total_steps=None, total_epochs=2.0)
  config.schedule.warmup_steps = 0
  config.train.split = split
  config = resolve.resolve(config)
  checks.check(config)
  parts = step_compilation.build(config)
  print(parts.facts.num_classes, parts.facts.num_examples)
"""
  run = subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, cwd=repo
  )
  assert run.returncode == 0, run.stderr
  printed = [line.split() for line in run.stdout.splitlines()]
  assert printed == [
    ["21843", "7000000"],
    ["1000", str(1000 - 100 + 1000 // 4)],
    ["10", "1442"],
  ]


def compiled(name: str, **changes) -> Compilation:
  config = experiments.config(**changes)
  return step_compilation.compile_step(config, topology.parse(name))


def test_figures_of_a_step_on_several_chips(libtpu):
  found = compiled("v5e:2x2", model__scan_layers=True)
  record = found.record()
  assert set(record) == CONTRACT
  assert json.loads(json.dumps(record)) == record
  hbm = record["hbm_bytes_per_device"]
  assert set(hbm) == {"arguments", "outputs", "temporaries", "total"}
  assert record["fits"] and hbm["total"] < record["hbm_limit_bytes"]
  assert record["num_devices"] == 4 and record["global_batch"] == 16
  # What is sent is the gradient, in float32, and a few scalars.
  (kind,) = record["collectives"]
  sent = record["collectives"][kind]["bytes"]
  assert kind == "all-reduce"
  assert 0 <= sent - 4 * record["param_count"] < 1024
  assert record["estimated_step_seconds"] == pytest.approx(
    record["estimated_cycles"] / 1.5e9 + record["estimated_collective_seconds"]
  )
  assert (
    record["estimated_cycles"] / 1.5e9
    < record["estimated_overlapped_step_seconds"]
    <= record["estimated_step_seconds"] * (1 + 1e-9)
  )
  # Three times the forward pass, but for the gradient of the images, which
  # nobody asks for.
  model_flops = record["model_flops_per_step"] / 4
  stem = 2 * 4 * 4 * (4 * 4 * 3 * 32)  # FLOPs of 4 patches of 4 images.
  assert record["flops_per_device"] == pytest.approx(
    model_flops - stem, rel=0.02
  )
  text = table.describe(found)
  assert "It fits into the 15.75 GiB of a device." in text
  assert hlo_text.parse(found.text)


def test_too_little_memory_is_a_result(libtpu):
  found = compiled(
    "v5e:1x1",
    model__image_size=512,
    train__batch_size=4096,
    train__preprocess="decode|inception_crop|flip_lr",
  )
  record = found.record()
  assert set(record) == CONTRACT
  assert record["fits"] is False
  assert record["hbm_bytes_per_device"]["total"] > record["hbm_limit_bytes"]
  assert record["hbm_limit_bytes"] == 15.75 * 2**30
  assert record["estimated_cycles"] is None
  text = table.describe(found)
  assert "It does not fit" in text and "of 15.75 GiB" in text
