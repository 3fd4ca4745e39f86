"""What benchmarks/paper_compiles.py gathers, and what it makes of figures."""

import importlib.util
import sys

import pytest

from vit_jax.paper import results
from vit_jax.report.tables import recipes


@pytest.fixture(scope="module")
def script(repo):
  """The script as a module."""
  path = repo / "benchmarks" / "paper_compiles.py"
  spec = importlib.util.spec_from_file_location("paper_compiles", path)
  module = importlib.util.module_from_spec(spec)
  sys.modules[spec.name] = module  # Dataclasses look themselves up there.
  spec.loader.exec_module(module)
  yield module
  del sys.modules[spec.name]


@pytest.fixture(scope="module")
def all_steps(script):
  return script.steps()


def test_every_config_of_the_tables_belongs_to_one_step(all_steps):
  gathered = [config for step in all_steps for config in step.makes]
  assert len(gathered) == len(set(gathered))
  named = {
    recipes.main(table, row)
    for table in results.TABLES.values()
    for row in table.rows
    if table.number != 4
  }
  assert named - {None} <= set(gathered)


def test_only_what_changes_the_step_tells_steps_apart(all_steps):
  def step_of(config):
    (found,) = (step for step in all_steps if config in step.makes)
    return found

  pretrain = "configs/pretrain.py:model=L/16,data={},epochs={}".format
  assert step_of(pretrain("jft", 7)) is step_of(pretrain("jft", 14))
  # Dropout.
  assert step_of(pretrain("jft", 14)) is not step_of(pretrain("i21k", 90))
  finetune = "configs/finetune.py:dataset={},model=L/16".format
  vtab = "configs/vtab.py:task=kitti,model=L/16"
  assert step_of(finetune("cifar10")) is step_of(vtab)
  large = finetune("imagenet2012") + ",image_size=512,polyak"
  assert step_of(finetune("cifar10")) is not step_of(large)


def test_files_and_titles_tell_steps_apart(all_steps):
  for names in ([s.file for s in all_steps], [s.title for s in all_steps]):
    assert len(names) == len(set(names))


def figures(seconds):
  return {
    "topology": "v5e:16x16",
    "num_devices": 256,
    "global_batch": 4096,
    "param_count": 86_567_656,
    "model_flops_per_step": 4.3e14,
    "hbm_bytes_per_device": {"total": 4 * 2**30},
    "fits": seconds is not None,
    "estimated_cycles": seconds and seconds * 1.5e9,
    "estimated_step_seconds": seconds,
  }


def test_tables_have_what_was_compiled_and_its_whole_run(script, all_steps):
  config = "configs/pretrain.py:model=B/16,data=jft,epochs=7"
  (step,) = (step for step in all_steps if config in step.makes)
  head, _, row = script.table({step.file: figures(0.1)}, all_steps).splitlines()
  assert head.startswith("| step |")
  assert "ViT-B/16" in row and "100.0 ms" in row and "40,960" in row
  rows = script.runs({step.file: figures(0.1)}, all_steps).splitlines()[2:]
  (run,) = (row for row in rows if config in row)
  steps = round(7 * 303e6 / 4096)
  days = steps * 0.1 * 256 / 86400
  assert f"| {steps:,} | 256 |" in run and f"{days:,.2f}" in run


def test_what_does_not_fit_is_said_and_has_no_run(script, all_steps):
  found = {all_steps[-1].file: figures(None)}
  assert "does not fit" in script.table(found, all_steps)
  assert len(script.runs(found, all_steps).splitlines()) == 2
