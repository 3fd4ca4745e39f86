"""The VTAB command from its start to its table, and stopped on the way."""

import json
import subprocess
import sys

import pytest

from tests import experiments
from vit_jax.config import resolve
from vit_jax.paper import vtab

CONFIG = "--config=configs/vtab.py:smoke"


def run(repo, *arguments):
  return subprocess.run(
    [sys.executable, "-m", "vit_jax.vtab", *arguments],
    capture_output=True,
    text=True,
    cwd=repo,
  )


@pytest.mark.parametrize(
  ("arguments", "sentence"),
  [
    ([CONFIG], "give --workdir=DIR"),
    ([CONFIG, "--tasks=dtt"], "'dtt' is not known. Did you mean 'dtd'?"),
    ([CONFIG, "--tasks="], "--tasks is empty"),
    ([CONFIG + ",task=dtd"], "names one task"),
    (["--config={run}/config.json", "--workdir=x"], "the config of one run"),
    ([CONFIG, "--workdir=s3://bucket/x"], "give one of gs://"),
    (["--config=configs/finetune.py"], 'Unknown config argument "task"'),
    ([CONFIG, "--config.seed=-1"], "config.seed = -1 must be"),
    (
      ["--config=configs/vtab.py", "--config.data_dir=nowhere", "--workdir=x"]
      + ["--tasks=dtd,kitti"],
      "python -m vit_jax.prepare kitti --data_dir=nowhere",
    ),
  ],
)
def test_bad_input_gets_a_sentence_and_exit_code_1(
  repo, tmp_path, arguments, sentence
):
  config = resolve.dump(experiments.config())
  (tmp_path / "config.json").write_text(config)
  result = run(repo, *(one.format(run=tmp_path) for one in arguments))
  assert result.returncode == 1
  assert "Traceback" not in result.stderr
  assert sentence in result.stderr


@pytest.mark.slow
def test_tasks_are_run_in_turn_and_not_again(repo, tmp_path):
  arguments = (
    CONFIG,
    "--tasks=dtd,kitti",
    "--config.optimizer.momentum=0.5",
    f"--workdir={tmp_path}",
  )
  first = run(repo, *arguments)
  assert first.returncode == 0, first.stderr[-2000:]
  value = json.loads((tmp_path / "vtab.json").read_text())
  top1 = {
    row["task"]: row["top1"]
    for row in value["tasks"]
    if row["status"] == "finished"
  }
  assert list(top1) == ["dtd", "kitti"]
  for task in top1:
    config = json.loads((tmp_path / task / "config.json").read_text())
    assert config["optimizer"]["momentum"] == 0.5
    summary = json.loads((tmp_path / task / "summary.json").read_text())
    assert summary["metrics"]["eval/test/top1"] == top1[task]
  assert value["mean"]["top1"] == pytest.approx(sum(top1.values()) / 2)
  assert value["mean"]["over"] == 2 and value["mean"]["of"] == len(vtab.TASKS)
  assert (tmp_path / "vtab.md").read_text() in first.stdout

  times = [(tmp_path / task / "metrics.jsonl").stat() for task in top1]
  again = run(repo, arguments[0], "--tasks=dtd", *arguments[2:])
  assert again.returncode == 0
  # The other one counts still, but not for other settings.
  assert json.loads((tmp_path / "vtab.json").read_text()) == value
  other = run(
    repo, CONFIG, "--tasks=dtd", "--config.seed=1", f"--workdir={tmp_path}"
  )
  assert other.returncode == 1
  assert "holds a run of another experiment" in other.stderr
  assert json.loads((tmp_path / "vtab.json").read_text()) == value
  assert [(tmp_path / t / "metrics.jsonl").stat() for t in top1] == times


@pytest.mark.slow
def test_what_is_absent_or_fails_does_not_keep_others_from_running(
  repo, tmp_path
):
  """Of one task the dataset is absent, of another the workdir is taken."""
  config = tmp_path / "experiment.py"
  config.write_text(
    "import importlib.util\n"
    f"path = {str(repo / 'configs/vtab.py')!r}\n"
    "spec = importlib.util.spec_from_file_location('vtab', path)\n"
    "module = importlib.util.module_from_spec(spec)\n"
    "spec.loader.exec_module(module)\n"
    "def get_config(args):\n"
    "  config = module.get_config(args + ',smoke')\n"
    "  if 'task=dtd' in args:\n"
    "    config.train.dataset = 'dtd'\n"
    "  return config\n"
  )
  work = tmp_path / "work"
  work.mkdir()
  (work / "kitti").write_text("no directory")
  result = run(
    repo,
    f"--config={config}:",
    "--tasks=svhn,dtd,kitti",
    f"--config.data_dir={tmp_path}",
    f"--workdir={work}",
  )
  assert result.returncode == 1
  assert "Tasks that failed for the reasons above: kitti" in result.stderr
  assert f"vit_jax.prepare dtd --data_dir={tmp_path}" in result.stdout
  value = json.loads((work / "vtab.json").read_text())
  found = {row["task"]: row["status"] for row in value["tasks"]}
  assert (found["svhn"], found["dtd"], found["kitti"]) == (
    "finished",
    "absent",
    "failed",
  )
