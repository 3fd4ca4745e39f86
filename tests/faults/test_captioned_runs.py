"""Runs on images and captions that are killed lose nothing."""

import signal

import numpy as np
import pytest

import vit_jax
from tests.faults import runs

OPTIONS = {
  "model.dtype": "float32",
  "checkpoint.every_steps": 4,
  "evals.zeroshot.every_steps": 10,
  "evals.retrieval.every_steps": 10,
}


def start(repo, workdir, config, **options):
  command = runs.command_of(
    f"configs/{config}.py:smoke,val=test", workdir, **OPTIONS, **options
  )
  return runs.start_command(repo, command)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("config", "options"),
  [("siglip", {}), ("clip", {"train.accumulate_steps": 4})],
)
def test_a_killed_run_goes_on_to_bit_identical_losses_and_metrics(
  repo, tmp_path, config, options
):
  whole, killed = tmp_path / "whole", tmp_path / "killed"
  runs.end(start(repo, whole, config, **options))
  process = start(repo, killed, config, **options)
  runs.wait_for_step(process, killed, 7)
  process.send_signal(signal.SIGKILL)
  process.communicate()
  runs.end(start(repo, killed, config, **options))
  found = runs.values(killed)
  assert found == runs.values(whole)
  names = {name for _, name in found}
  assert {"zeroshot/generated/top1", "retrieval/generated/text_to_image_r1"} < (
    names
  )
  ours, theirs = (
    vit_jax.load_tokenizer(str(place))(["class 3", "é"])
    for place in (killed, whole)
  )
  assert np.array_equal(ours, theirs)
