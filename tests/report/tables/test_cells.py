"""A run fills the cells it declares while what they require holds."""

import json

import pytest

from tests.report.tables import workdirs
from vit_jax.paper import results
from vit_jax.report.tables import measuring, recipes, runs


@pytest.mark.parametrize(
  "changes, sentence",
  [
    (dict(status="preempted"), "is 'preempted', at 10,000 of 10,000 steps"),
    (dict(status=None), "has no summary.json"),
    (dict(model__image_size=224), "has model.image_size 224, Table 5 384"),
    (dict(ema_decay=0.9999), "has ema_decay 0.9999, Table 5 None"),
    (
      dict(metrics={"eval/test/num_examples": 512}),
      "of 512 examples, not of all 10,000",
    ),
    (dict(metrics={"eval/test/top1": None}), "has no eval/test/top1"),
    (dict(evals={}), "has evals.test.split None, Table 5 'test'"),
  ],
  ids=str,
)
def test_a_run_that_just_does_not_fit_is_said_to_be_left_out(
  tmp_path, changes, sentence
):
  start = workdirs.pretrain(tmp_path / "pre")
  workdirs.finetune(tmp_path / "tuned", start, 0.98, **changes)
  cells, (remark,) = workdirs.measure(tmp_path)
  assert cells == {}
  assert remark.startswith("tuned is left out of CIFAR-10: it ")
  assert sentence in remark


@pytest.mark.parametrize(
  "config, changes, sentence",
  [
    (
      "configs/ablation_head.py:pool=gap,data=i21k",
      {},
      "whose config names no row of the paper's tables (paper_row)",
    ),
    (
      "configs/ablation_posembed.py:kind=none,data=i21k",
      {},
      "whose config names no row of the paper's tables (paper_row)",
    ),
    (
      "configs/selfsupervised.py:data=i21k",
      {},
      "whose config names no row of the paper's tables (paper_row)",
    ),
    (
      "configs/pretrain.py:model=L/16,data=i21k",
      {},
      "pre, a ViT-L/16 at 224 pixels",
    ),
    (
      "configs/pretrain.py:model=B/16,data=i21k",
      dict(model__image_size=32),
      "which has model.image_size 32, its row 224",
    ),
    (
      "configs/pretrain.py:model=B/16,data=i21k",
      dict(status="preempted"),
      "pre, which is 'preempted', at 1,000",
    ),
    (
      "configs/pretrain.py:model=B/16,data=i21k,epochs=30",
      {},
      "whose config names no row of the paper's tables (paper_row)",
    ),
    (
      "configs/pretrain.py:model=B/16,data=i21k",
      dict(total_epochs=30.0),
      "which has total_epochs 30.0, its row 90.0",
    ),
  ],
)
def test_another_pre_training_is_said_to_be_left_out(
  tmp_path, config, changes, sentence
):
  start = workdirs.write(tmp_path / "pre", config, **changes)
  workdirs.finetune(tmp_path / "tuned", start, 0.98)
  cells, (remark,) = workdirs.measure(tmp_path)
  assert cells == {}
  assert remark.startswith("tuned is left out of CIFAR-10: it starts from ")
  assert sentence in remark


def test_a_network_of_other_structure_is_not_the_row_s(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  workdirs.finetune(tmp_path / "tuned", start, 0.98, model__pool="gap")
  cells, (remark,) = workdirs.measure(tmp_path)
  assert cells == {} and "it has pool 'gap', ViT-B/16 'cls'" in remark
  # By its name alone where nothing else is known.
  workdirs.finetune(tmp_path / "none", "B.npz", 0.9, model__cls_token=False)
  (remark,) = workdirs.measure(tmp_path / "none", pretrained={"B.npz": "i21k"})[
    1
  ]
  assert "it has cls_token False, ViT-B/16 True" in remark


def test_runs_of_parts_of_train_are_not_results(tmp_path):
  """As those are that compare learning rates."""
  start = workdirs.pretrain(tmp_path / "pre")
  for rate in (0.01, 0.03):
    workdirs.finetune(
      tmp_path / f"lr_{rate}", start, 0.98, train__split="train[:98%]"
    )
  assert workdirs.measure(tmp_path) == ({}, [])


def test_epochs_tell_rows_apart(tmp_path):
  for epochs in (7, 14):
    start = workdirs.pretrain(
      tmp_path / f"pre{epochs}",
      f"configs/pretrain.py:model=L/16,data=jft,epochs={epochs}",
    )
    workdirs.finetune(
      tmp_path / f"tuned{epochs}", start, epochs / 100, model="L/16"
    )
  table = results.TABLE_6
  measured = measuring.measure(table, runs.find(tmp_path, {})[0])
  found = {
    table.rows[index].epochs: one.mean
    for (index, _), one in measured.cells.items()
  }
  assert found == pytest.approx({7: 7, 14: 14})


def test_real_is_in_the_run_on_imagenet(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  real = {"eval/real/top1": 0.88, "eval/real/num_examples": 46_837}
  workdirs.finetune(
    tmp_path / "tuned", start, 0.84, dataset="imagenet2012", metrics=real
  )
  cells, remarks = workdirs.measure(tmp_path)
  assert {place[2]: one.mean for place, one in cells.items()} == (
    pytest.approx({"imagenet": 84, "real": 88})
  )
  assert remarks == []


def test_real_from_a_file_of_labels_is_not_taken_for_imagenet(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  config = "configs/finetune.py:dataset=imagenet2012,model=B/16"
  evals = {
    name: {
      "type": "classification",
      "dataset": "imagenet2012" if sets else None,
      "split": "validation",
      "label_sets": sets,
    }
    for name, sets in (("real", "real.json"), ("test", None))
  }
  metrics = {
    "eval/test/top1": 0.84,
    "eval/test/num_examples": 50_000,
    "eval/real/top1": 0.88,
    "eval/real/num_examples": 46_837,
  }
  workdirs.write(
    tmp_path / "tuned", config, metrics, init_from=str(start), evals=evals
  )
  cells, remarks = workdirs.measure(tmp_path)
  found = {column: one.mean for (_, _, column), one in cells.items()}
  assert found == pytest.approx({"imagenet": 84, "real": 88})
  assert remarks == []


def test_table_2_takes_large_images_and_averages(tmp_path):
  start = workdirs.pretrain(
    tmp_path / "pre", "configs/pretrain.py:model=L/16,data=i21k"
  )
  large = "imagenet2012,image_size=512,polyak"
  for name, dataset, top1 in (
    ("large", large, 0.853),
    ("small", "imagenet2012", 0.851),
  ):
    workdirs.finetune(
      tmp_path / name, start, top1, dataset=dataset, model="L/16"
    )
  assert workdirs.measure(tmp_path, 2)[0][
    "ViT-L/16", "i21k", "imagenet"
  ].mean == pytest.approx(85.3)
  assert workdirs.measure(tmp_path, 5)[0][
    "ViT-L/16", "i21k", "imagenet"
  ].mean == pytest.approx(85.1)


def test_tasks_of_vtab_are_told_from_the_datasets_they_are_of(tmp_path):
  start = workdirs.pretrain(
    tmp_path / "pre", "configs/pretrain.py:model=L/16,data=i21k"
  )
  workdirs.write(
    tmp_path / "task",
    "configs/vtab.py:task=cifar100,model=L/16",
    {"eval/test/top1": 0.84, "eval/test/num_examples": 10_000},
    init_from=str(start),
  )
  assert list(workdirs.measure(tmp_path, 9)[0]) == [
    ("ViT-L/16", "i21k", "cifar100")
  ]
  assert workdirs.measure(tmp_path, 5)[0] == {}
  (remark,) = workdirs.measure(tmp_path, 9)[1]
  assert "over the 1 of 19 that were measured 84.00" in remark
  assert "the paper's over the same 84.10" in remark


def test_table_8_is_measured_by_few_shots_of_pre_training(tmp_path):
  for at, value in (("every_layer", 0.6), ("stem", 0.7)):
    workdirs.pretrain(
      tmp_path / at,
      f"configs/ablation_posembed.py:kind=learned_2d,at={at}",
      metrics={"fewshot/imagenet/5shot": value},
    )
  table = results.TABLE_8
  measured = measuring.measure(table, runs.find(tmp_path, {})[0])
  assert {
    (table.rows[index].name, column): one.mean
    for (index, column), one in measured.cells.items()
  } == {("2-D", "every_layer"): 0.6, ("2-D", "stem"): 0.7}


@pytest.mark.parametrize(
  "config, changes",
  [
    ("configs/ablation_head.py:pool=gap", {}),
    ("configs/ablation_data.py:model=B/16,images=9M", {}),
    ("configs/ablation_data.py:model=B/32,data=i1k", {}),
    ("configs/selfsupervised.py", {}),
    ("configs/ablation_posembed.py", dict(model__pos_embedding="sincos2d")),
  ],
  ids=str,
)
def test_other_studies_have_no_place_in_table_8(tmp_path, config, changes):
  workdirs.write(
    tmp_path / "run", config, {"fewshot/imagenet/5shot": 0.6}, **changes
  )
  cells, remarks = workdirs.measure(tmp_path, 8)
  assert cells == {} and len(remarks) == len(changes)


def test_shorter_fine_tunings_count_and_are_named(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  workdirs.finetune(tmp_path / "tuned", start, 0.98, total_steps=500)
  cells, (remark,) = workdirs.measure(tmp_path)
  assert len(cells) == 1
  assert "500 steps of 512 images; Table 4 has 10,000" in remark


def test_runs_older_than_the_key_are_left_out_in_one_sentence(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  workdirs.finetune(tmp_path / "tuned", start, 0.98)
  for name in ("pre", "tuned"):
    path = tmp_path / name / "config.json"
    config = json.loads(path.read_text())
    del config["paper_row"]
    path.write_text(json.dumps(config))
  cells, (remark,) = workdirs.measure(tmp_path)
  assert cells == {}
  assert remark.startswith("pre, tuned: made before config.paper_row")


def test_a_run_needs_no_model_argument_to_be_matched(tmp_path):
  """As where the architecture is that of `init_from`."""
  start = workdirs.pretrain(tmp_path / "pre")
  workdirs.write(
    tmp_path / "tuned",
    "configs/finetune.py:dataset=cifar10",
    {"eval/test/top1": 0.98},
    init_from=str(start),
  )
  assert list(workdirs.measure(tmp_path)[0]) == [
    ("ViT-B/16", "i21k", "cifar10")
  ]


def test_a_run_may_start_from_one_in_the_home_directory(tmp_path, monkeypatch):
  monkeypatch.setenv("HOME", str(tmp_path))
  workdirs.pretrain(tmp_path / "pre")
  workdirs.finetune(tmp_path / "tuned", "~/pre", 0.98)
  assert len(workdirs.measure(tmp_path)[0]) == 1


@pytest.mark.parametrize("table", [2, 5, 6, 7, 8, 9])
def test_shipped_configs_declare_every_cell_that_a_run_can_fill(table):
  """Pre-training declares the row, fine-tuning the column."""
  table = results.TABLES[table]
  for row in table.rows:
    for column, one in table.columns.items():
      if not one.is_accuracy or column not in row.cells or row.model is None:
        continue
      if column == "vtab":  # A mean over Table 9.
        continue
      finetuning = recipes.finetuning(table, row, column)
      config = recipes.pretraining(table, row, column)
      config = config or recipes.main(table, row)
      declared = [
        cell.split("=")[0] for cell in workdirs.load(config).paper_row.cells
      ]
      if finetuning is None:
        assert f"{table.number}:{row.key}:{column}" in declared
        continue
      assert f"{table.number}:{row.key}:" in declared
      columns = [
        cell.split("=")[0] for cell in workdirs.load(finetuning).paper_row.cells
      ]
      assert f"{table.number}::{column}" in columns
