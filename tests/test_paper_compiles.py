"""What benchmarks/paper_compiles.py gathers, and what it makes of figures."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

from vit_jax.paper import results
from vit_jax.report.tables import compiled, formats, recipes


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


@pytest.fixture(scope="module", params=["v5e", "h100"])
def all_steps(script, request):
  return script.steps(request.param)


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


def figures(seconds, accelerator="v5e"):
  """What `vit_jax.compile` writes; on a GPU with what its kernels move."""
  kernels = {"fusions": {"bytes": 2**31}, "copies": {"bytes": 2**30}}
  return {
    "compilers": {"jax": "1.2"},
    **({"gpu_kernels": kernels} if accelerator == "h100" else {}),
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


def test_costs_have_what_was_compiled_and_its_whole_run(script, all_steps):
  config = "configs/pretrain.py:model=B/16,data=jft,epochs=7"
  (step,) = (step for step in all_steps if config in step.makes)
  found = {step.file: figures(0.1, step.accelerator)}
  (row,) = script.step_rows(found, all_steps)
  assert row["step"].startswith("ViT-B/16")
  assert (row["step_ms"], row["images_per_second"]) == (100.0, 40_960)
  assert (row["parameters_m"], row["memory_gib"]) == (86.6, 4.0)
  work = {"v5e": ("cycles_m", 150.0), "h100": ("moved_gib", 3.0)}
  key, value = work[step.accelerator]
  assert row[key] == value
  rows = script.run_rows(found, all_steps)
  (run,) = (row for row in rows if config == row["config"])
  steps = round(7 * 303e6 / 4096)
  assert (run["steps"], run["chips"]) == (steps, 256)
  assert run["chip_days"] == round(steps * 0.1 * 256 / 86400, 2)


def test_what_does_not_fit_is_said_and_has_no_run(script, all_steps):
  found = {all_steps[-1].file: figures(None)}
  (row,) = script.step_rows(found, all_steps)
  assert row["step_ms"] is None
  assert script.run_rows(found, all_steps) == []


def test_a_step_that_fits_the_second_time_has_its_run_by_that(
  script, all_steps
):
  step = all_steps[-1]
  found = {step.file: figures(None), step.smaller_file: figures(0.2)}
  first, second = script.step_rows(found, all_steps)
  assert first["step_ms"] is None
  assert second["step"] == f"{step.title}, all recomputed"
  assert second["step_ms"] == 200.0
  rows = script.run_rows(found, all_steps)
  assert len(rows) == len(step.makes)
  assert all(
    row["config"].endswith(" --config.model.remat=full") for row in rows
  )


def test_the_command_prints_what_the_script_writes(script, all_steps):
  step = all_steps[-1]
  found = {
    step.file: figures(None, step.accelerator),
    step.smaller_file: figures(0.2, step.accelerator),
  }
  written = json.loads(script.costs(found, all_steps))
  sheets = compiled.lay_out(written, step.accelerator)
  text = "".join(map(formats.text, sheets))
  assert "does not fit" in text and "200.0 ms" in text
  assert step.argument in text
  assert "By jax 1.2." in text


def test_the_packaged_costs_are_of_every_step_and_config(script, all_steps):
  packaged = compiled.read(all_steps[0].accelerator)
  titles = {row["step"] for row in packaged["steps"]}
  assert {step.title for step in all_steps} <= titles
  runs = [run["config"].partition(" ")[0] for run in packaged["runs"]]
  assert sorted(runs) == sorted(c for step in all_steps for c in step.makes)
  for total in packaged["totals"]:
    days = [
      run["chip_days"]
      for run in packaged["runs"]
      if any(one.partition(":")[0] == total["table"] for one in run["for"])
    ]
    kinds = total["pretrainings"], total["finetunings"]
    assert len(days) == sum(kinds)
    both = total["pretraining_chip_days"] + total["finetuning_chip_days"]
    assert sum(days) == pytest.approx(both, abs=0.1 + 0.005 * len(days))


@pytest.mark.parametrize(
  "seconds, compiled", [([0.1], 1), ([None, 0.2], 2), ([None, None], 2)]
)
def test_a_step_is_compiled_until_it_fits(
  script, all_steps, tmp_path, monkeypatch, seconds, compiled
):
  """And not again where its figures are there, whatever they say."""
  step, calls = all_steps[0], []

  def run(command, **unused):
    calls.append(command)
    (path,) = (a.partition("=")[2] for a in command if "--output=" in a)
    value = figures(seconds[len(calls) - 1])
    pathlib.Path(path).write_text(json.dumps(value))
    return subprocess.CompletedProcess(command, 0, stderr="")

  monkeypatch.setattr(subprocess, "run", run)
  assert not script.is_done(step, tmp_path)
  assert script.compile_step(step, tmp_path)
  assert script.is_done(step, tmp_path)
  remat = ["--config.model.remat=full" in command for command in calls]
  assert remat == [False, True][:compiled]


def test_a_step_that_cannot_be_compiled_is_to_do(
  script, all_steps, tmp_path, monkeypatch
):
  failed = subprocess.CompletedProcess([], 1, stderr="out of memory")
  monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
  assert not script.compile_step(all_steps[0], tmp_path)
  assert not script.is_done(all_steps[0], tmp_path)
  assert "out of memory" in next(tmp_path.glob("*.err")).read_text()


def test_totals_count_a_run_once_for_each_table(script, all_steps):
  """ViT-B/32's fine-tunings are both Table 5's and Table 6's, five of each."""
  config = "configs/finetune.py:dataset=cifar10,model=B/32"
  (step,) = (step for step in all_steps if config in step.makes)
  rows = {
    row["table"]: row
    for row in script.totals({step.file: figures(86400 / 256)}, all_steps)
  }
  # A chip-day a step: 20,000 of ImageNet, 10,000 twice and 500 twice.
  for table in ("Table 5", "Table 6"):
    assert (rows[table]["pretrainings"], rows[table]["finetunings"]) == (0, 5)
    assert rows[table]["finetuning_chip_days"] == 41_000
  missing = " ".join(rows["Table 5"]["not_compiled"])
  assert config not in missing and "model=L/32" in missing
