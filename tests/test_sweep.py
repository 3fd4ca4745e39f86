"""The sweep command from its start to its table, and killed on the way."""

import json
import subprocess
import sys
import time

import pytest

from vit_jax import records

CONFIG = "--config=configs/finetune_folder.py:smoke"


def command(*arguments):
  return [sys.executable, "-m", "vit_jax.sweep", *arguments]


@pytest.mark.parametrize(
  ("arguments", "sentence"),
  [
    (["--config=configs/quickstart.py"], "give --learning_rates="),
    ([CONFIG, "--learning_rates=0.1,x"], "must be numbers"),
    ([CONFIG, "--learning_rates=0.1"], "give --workdir=DIR"),
    (
      [CONFIG, "--learning_rates=0.1", "--workdir=README.md"],
      "The workdir README.md is a file",
    ),
    (
      [CONFIG, "--config.train.split=train[:50%]"],
      "config.sweep.train_split",
    ),
  ],
)
def test_bad_input_gets_a_sentence_and_exit_code_1(repo, arguments, sentence):
  result = subprocess.run(
    command(*arguments), capture_output=True, text=True, cwd=repo
  )
  assert result.returncode == 1
  assert "Traceback" not in result.stderr
  assert sentence in result.stderr


@pytest.mark.exhaustive
def test_a_sweep_that_is_killed_goes_on_and_keeps_what_was_done(repo, tmp_path):
  run = command(
    CONFIG,
    f"--workdir={tmp_path}",
    "--learning_rates=0.001,0.01,1e25",
    "--config.optimizer.name=sgd",
    "--config.optimizer.grad_clip_norm=None",
  )
  first = subprocess.Popen(run, cwd=repo, stdout=subprocess.DEVNULL)
  begun = tmp_path / "lr_0.01" / "config.json"
  deadline = time.monotonic() + 300
  while not begun.exists():
    assert first.poll() is None and time.monotonic() < deadline
    time.sleep(0.05)
  first.kill()
  first.wait()
  done = (tmp_path / "lr_0.001" / "metrics.jsonl").stat()
  assert (
    json.loads((tmp_path / "sweep.json").read_text())["status"] == "running"
  )

  again = subprocess.run(run, cwd=repo, capture_output=True, text=True)
  assert again.returncode == 0, again.stderr[-2000:]
  assert (tmp_path / "lr_0.001" / "metrics.jsonl").stat() == done
  result = json.loads((tmp_path / "sweep.json").read_text())
  assert [row["status"] for row in result["runs"]] == [
    "finished",
    "finished",
    "diverged",
  ]
  tried = {row["learning_rate"]: row for row in result["runs"]}
  assert tried[result["chosen"]]["chosen"]
  assert tried[result["chosen"]]["dev_top1"] == max(
    row["dev_top1"] or 0 for row in result["runs"]
  )
  table = (tmp_path / "sweep.md").read_text()
  assert again.stdout.endswith(table)
  chosen = result["workdir"]
  for run, split in (("lr_0.01", "train[:90%]"), (chosen, "train")):
    config = json.loads((tmp_path / run / "config.json").read_text())
    assert config["train"]["split"] == split
    steps = [
      line["step"]
      for line in records.read_lines(tmp_path / run / "metrics.jsonl")
      if "train/loss" in line
    ]
    assert steps == [1, 2, 3, 4]
  final = json.loads((tmp_path / chosen / "summary.json").read_text())
  assert result["test_top1"] == final["metrics"]["eval/test/top1"]
  dev = json.loads((tmp_path / "lr_0.01" / "summary.json").read_text())
  assert not any(name.startswith("eval/test") for name in dev["metrics"])


@pytest.mark.exhaustive
def test_further_rates_in_the_same_directory_have_a_last_run_of_their_own(
  repo, tmp_path
):
  def swept(rates):
    run = command(CONFIG, f"--workdir={tmp_path}", f"--learning_rates={rates}")
    result = subprocess.run(run, cwd=repo, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    return json.loads((tmp_path / "sweep.json").read_text())

  first = swept("1e-9")
  second = swept("1e-9,0.01")
  assert (first["chosen"], second["chosen"]) == (1e-9, 0.01)
  for result in (first, second):
    workdir = tmp_path / result["workdir"]
    config = json.loads((workdir / "config.json").read_text())
    assert config["schedule"]["base_lr"] == result["chosen"]
    summary = json.loads((workdir / "summary.json").read_text())
    assert result["test_top1"] == summary["metrics"]["eval/test/top1"]
  third = swept("1e-9")
  assert third["metrics"] == first["metrics"]
  assert [row["learning_rate"] for row in third["earlier_runs"]] == [0.01]
