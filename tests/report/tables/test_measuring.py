"""Runs of one place become one number, or none."""

import pytest

from tests.report.tables import workdirs
from vit_jax.paper import results
from vit_jax.report.tables import measuring, runs


def test_seeds_are_averaged(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  for seed, top1 in enumerate((0.98, 0.99, 1.0)):
    workdirs.finetune(tmp_path / f"seed{seed}", start, top1, seed=seed)
  ((_, one),) = workdirs.measure(tmp_path)[0].items()
  assert one.mean == pytest.approx(99)
  assert one.std == pytest.approx(1)
  assert one.runs == ("seed0", "seed1", "seed2")


def test_other_settings_are_ambiguous_and_named(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  workdirs.finetune(tmp_path / "a", start, 0.98)
  workdirs.finetune(tmp_path / "b", start, 0.99, seed=1, schedule__base_lr=0.03)
  cells, (remark,) = workdirs.measure(tmp_path)
  assert cells == {}
  assert "a, b differ in schedule.base_lr" in remark


def test_a_repeated_seed_is_ambiguous(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  for name in ("a", "b"):
    workdirs.finetune(tmp_path / name, start, 0.98)
  cells, (remark,) = workdirs.measure(tmp_path)
  assert cells == {} and "repeat a seed" in remark


def test_networks_of_other_training_are_not_seeds(tmp_path):
  """As the weight decays are not that Figure 3 chooses among."""
  for seed, decay in enumerate((0.03, 0.3)):
    start = workdirs.pretrain(
      tmp_path / f"pre{seed}",
      f"configs/ablation_data.py:model=B/16,data=i1k,weight_decay={decay}",
    )
    workdirs.finetune(tmp_path / f"tuned{seed}", start, 0.9, seed=seed)
  cells, (remark,) = workdirs.measure(tmp_path)
  assert cells == {}
  assert (
    "tuned0, tuned1 start from networks whose training differs in"
    " optimizer.weight_decay"
  ) in remark


def test_files_of_two_names_are_not_seeds(tmp_path):
  for seed, name in enumerate(("a.npz", "b.npz")):
    workdirs.finetune(tmp_path / f"seed{seed}", name, 0.9, seed=seed)
  cells, (remark,) = workdirs.measure(
    tmp_path, pretrained={"a.npz": "i21k", "b.npz": "i21k"}
  )
  assert cells == {} and "differs in init_from" in remark


def test_seeds_of_pre_training_are_seeds(tmp_path):
  for seed in (0, 1):
    start = workdirs.pretrain(tmp_path / f"pre{seed}", seed=seed)
    workdirs.finetune(tmp_path / f"tuned{seed}", start, 0.9 + seed / 100)
  ((_, one),) = workdirs.measure(tmp_path)[0].items()
  assert one.mean == pytest.approx(90.5)


def test_unknown_epochs_that_fit_two_rows_are_ambiguous(tmp_path):
  workdirs.finetune(tmp_path / "tuned", "L_16.npz", 0.98, model="L/16")
  cells, (remark,) = workdirs.measure(tmp_path, 6, {"L_16.npz": "jft"})
  assert cells == {} and "fits 2 rows of Table 6" in remark


def test_the_optimizer_of_pre_training_tells_rows_of_table_7_apart(tmp_path):
  for file, name, top1 in (("pretrain", "adamw", 0.9), ("resnet", "sgd", 0.8)):
    start = workdirs.pretrain(
      tmp_path / f"pre-{name}",
      f"configs/{file}.py:model=R50x1,data=jft,epochs=7",
    )
    workdirs.finetune(tmp_path / name, start, top1, model="R50x1")
  table = results.TABLE_7
  measured = measuring.measure(table, runs.find(tmp_path, {})[0])
  found = {
    table.rows[index].optimizer: one.mean
    for (index, column), one in measured.cells.items()
    if column == "cifar10"
  }
  assert found == pytest.approx({"adam": 90, "sgd": 80})
  assert any("over the 1 of 5" in remark for remark in measured.remarks)


@pytest.mark.parametrize("dataset", ["imagenet2012", "cifar10"])
def test_the_better_of_a_resnet_s_two_recipes_counts(tmp_path, dataset):
  start = workdirs.pretrain(
    tmp_path / "pre", "configs/pretrain.py:model=R50x1,data=jft"
  )
  count = {"cifar10": 10_000, "imagenet2012": 50_000}[dataset]
  for name, top1 in (("finetune", 0.77), ("resnet", 0.78)):
    workdirs.write(
      tmp_path / name,
      f"configs/{name}.py:dataset={dataset},model=R50x1",
      {"eval/test/top1": top1, "eval/test/num_examples": count},
      init_from=str(start),
    )
  table = results.TABLE_6
  measured = measuring.measure(table, runs.find(tmp_path, {})[0])
  ((place, one),) = measured.cells.items()
  assert table.rows[place[0]].name == "R50x1"
  assert (one.mean, one.runs) == (pytest.approx(78), ("resnet",))
  assert any(
    "77.00 and 78.00 by Table 4 and by the HyperRule" in remark
    for remark in measured.remarks
  )


def test_a_run_is_left_out_once_of_all_its_columns(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  workdirs.finetune(
    tmp_path / "tuned", start, 0.84, dataset="imagenet2012", status="failed"
  )
  (remark,) = workdirs.measure(tmp_path)[1]
  assert remark.startswith("tuned is left out of ImageNet and ReaL: it is")


def test_places_of_table_8_of_other_settings_are_named(tmp_path):
  for at, epochs in (("stem", 7), ("every_layer", 14)):
    workdirs.write(
      tmp_path / at,
      f"configs/ablation_posembed.py:at={at},epochs={epochs}",
      {"fewshot/imagenet/5shot": 0.6},
    )
  cells, (remark,) = workdirs.measure(tmp_path, 8)
  assert len(cells) == 2 and "these differ in total_epochs as well" in remark
