"""Runs are found with what they started from."""

import json

import pytest

from tests.report.tables import workdirs
from vit_jax.errors import UserError
from vit_jax.paper.datasets import DATASETS
from vit_jax.report.tables import runs


def test_a_fine_tuned_run_is_found_by_what_it_started_from(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  workdirs.finetune(tmp_path / "tuned" / "final", start, 0.9899)
  cells, remarks = workdirs.measure(tmp_path)
  ((place, one),) = cells.items()
  assert place == ("ViT-B/16", "i21k", "cifar10")
  assert one.mean == pytest.approx(98.99)
  assert (one.std, one.runs) == (None, ("tuned/final",))
  assert remarks == []


def test_a_checkpoint_counts_for_the_epochs_up_to_it(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre", status="preempted")
  images = DATASETS["imagenet21k"].num_examples["train"]
  checkpoints = start / "checkpoints"
  last = checkpoints / str(round(90 * images / 4096))
  workdirs.finetune(tmp_path / "tuned", last, 0.98)
  cells, remarks = workdirs.measure(tmp_path)
  assert len(cells) == 1 and remarks == []
  workdirs.finetune(tmp_path / "early" / "tuned", checkpoints / "1000", 0.98)
  cells, (remark,) = workdirs.measure(tmp_path / "early")
  assert cells == {}
  assert "at step 1,000 of 307,617 of pre-training" in remark
  workdirs.finetune(tmp_path / "none" / "tuned", checkpoints / "0", 0.98)
  cells, (remark,) = workdirs.measure(tmp_path / "none")
  assert cells == {} and "at step 0 of 307,617" in remark


def test_a_file_without_provenance_has_to_be_named(tmp_path):
  workdirs.finetune(tmp_path / "tuned", "weights/B_16.npz", 0.98)
  cells, (remark,) = workdirs.measure(tmp_path)
  assert cells == {} and "--pretrained=B_16.npz=DATA" in remark
  cells, remarks = workdirs.measure(tmp_path, pretrained={"B_16.npz": "jft"})
  assert list(cells) == [("ViT-B/16", "jft", "cifar10")] and remarks == []


@pytest.mark.parametrize(
  "config, lines",
  [(b'{"seed": 0, "mod', None), (b"\xff\xfe\x80", None), (b"", b"")],
  ids=["torn", "not text", "empty"],
)
def test_a_damaged_workdir_is_said_and_the_rest_goes_on(
  tmp_path, config, lines
):
  start = workdirs.pretrain(tmp_path / "pre")
  workdirs.finetune(tmp_path / "tuned", start, 0.98)
  torn = workdirs.finetune(tmp_path / "torn", start, 0.98)
  (torn / "config.json").write_bytes(config)
  if lines is not None:
    (torn / "metrics.jsonl").write_bytes(lines)
    (torn / "summary.json").unlink()
  cells, (remark,) = workdirs.measure(tmp_path)
  assert len(cells) == 1 and remark.startswith("torn is left out")
  (start / "config.json").write_bytes(config)
  workdirs.finetune(tmp_path / "b", start, 0.98)
  assert "--pretrained=pre=DATA" in "".join(workdirs.measure(tmp_path)[1])


def test_a_directory_without_runs_is_an_error(tmp_path):
  (tmp_path / "config.json").write_text(json.dumps({}))
  with pytest.raises(UserError, match="No run was found"):
    runs.find(tmp_path, {})
  with pytest.raises(UserError, match="There is no directory"):
    runs.find(tmp_path / "nowhere", {})
