"""Runs are put where they belong, and nowhere else."""

import json

import pytest

from tests.report.tables import workdirs
from vit_jax.errors import UserError
from vit_jax.paper import results
from vit_jax.paper.datasets import DATASETS
from vit_jax.report.tables import measuring, runs


def measure(directory, number=5, pretrained=None):
  """(row's name, pre-training, column) -> measurement, and the remarks."""
  table = results.TABLES[number]
  found, unread = runs.find(directory, pretrained or {})
  measured = measuring.measure(table, found, unread)
  cells = {
    (table.rows[index].name, table.rows[index].data, column): one
    for (index, column), one in measured.cells.items()
  }
  return cells, list(measured.remarks)


def test_a_fine_tuned_run_is_found_by_what_it_started_from(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  workdirs.finetune(tmp_path / "tuned" / "final", start, 0.9899)
  cells, remarks = measure(tmp_path)
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
  cells, remarks = measure(tmp_path)
  assert len(cells) == 1 and remarks == []
  workdirs.finetune(tmp_path / "early" / "tuned", checkpoints / "1000", 0.98)
  cells, (remark,) = measure(tmp_path / "early")
  assert cells == {}
  assert "0.293 epochs of pre-training, Table 5 has 90" in remark


def test_seeds_are_averaged(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  for seed, top1 in enumerate((0.98, 0.99, 1.0)):
    workdirs.finetune(tmp_path / f"seed{seed}", start, top1, seed=seed)
  ((_, one),) = measure(tmp_path)[0].items()
  assert one.mean == pytest.approx(99)
  assert one.std == pytest.approx(1)
  assert one.runs == ("seed0", "seed1", "seed2")


def test_other_settings_are_ambiguous_and_named(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  workdirs.finetune(tmp_path / "a", start, 0.98)
  workdirs.finetune(tmp_path / "b", start, 0.99, seed=1, schedule__base_lr=0.03)
  cells, (remark,) = measure(tmp_path)
  assert cells == {}
  assert "a, b differ in schedule.base_lr" in remark


def test_a_repeated_seed_is_ambiguous(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  for name in ("a", "b"):
    workdirs.finetune(tmp_path / name, start, 0.98)
  cells, (remark,) = measure(tmp_path)
  assert cells == {} and "repeat a seed" in remark


@pytest.mark.parametrize(
  "changes, sentence",
  [
    (dict(status="preempted"), "is 'preempted', at 10,000 of 10,000 steps"),
    (dict(status=None), "has no summary.json"),
    (dict(model__image_size=224), "has images of 224 px, Table 5 384 px"),
    (dict(ema_decay=0.9999), "has ema_decay 0.9999, Table 5 None"),
    (
      dict(metrics={"eval/test/num_examples": 512}),
      "of 512 examples, not of all 10,000",
    ),
    (dict(metrics={"eval/test/top1": None}), "has no eval/test/top1"),
    (dict(evals={}), "has no evaluator on 'test' of cifar10"),
  ],
  ids=str,
)
def test_a_run_that_just_does_not_fit_is_said_to_be_left_out(
  tmp_path, changes, sentence
):
  start = workdirs.pretrain(tmp_path / "pre")
  workdirs.finetune(tmp_path / "tuned", start, 0.98, **changes)
  cells, (remark,) = measure(tmp_path)
  assert cells == {}
  assert remark.startswith("tuned is left out of CIFAR-10: it ")
  assert sentence in remark


@pytest.mark.parametrize(
  "config, changes, sentence",
  [
    (
      "configs/ablation_head.py:pool=gap,data=i21k",
      {},
      "starts from a network that has pool 'gap', ViT-B/16 'cls'",
    ),
    (
      "configs/ablation_posembed.py:kind=none,data=i21k",
      {},
      "starts from a network that has pos_embedding 'none'",
    ),
    (
      "configs/selfsupervised.py:data=i21k",
      {},
      "starts from a network trained by masked_patch",
    ),
    (
      "configs/pretrain.py:model=L/16,data=i21k",
      {},
      "starts from ViT-L/16 at 224 pixels",
    ),
    (
      "configs/pretrain.py:model=B/16,data=i21k",
      dict(model__image_size=32),
      "starts from a network trained at 32 px, the paper's at 224 px",
    ),
    (
      "configs/pretrain.py:model=B/16,data=i21k",
      dict(status="preempted"),
      "pre, which is 'preempted', at 1,000",
    ),
    (
      "configs/pretrain.py:model=B/16,data=i21k,epochs=30",
      {},
      "starts from 30 epochs of pre-training, Table 5 has 90",
    ),
  ],
)
def test_another_pre_training_is_said_to_be_left_out(
  tmp_path, config, changes, sentence
):
  start = workdirs.write(tmp_path / "pre", config, **changes)
  workdirs.finetune(tmp_path / "tuned", start, 0.98)
  cells, (remark,) = measure(tmp_path)
  assert cells == {}
  assert remark.startswith("tuned is left out of CIFAR-10: it starts from ")
  assert sentence in remark


def test_a_network_of_other_structure_is_not_the_row_s(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  workdirs.finetune(tmp_path / "tuned", start, 0.98, model__pool="gap")
  cells, (remark,) = measure(tmp_path)
  assert cells == {} and "it has pool 'gap', ViT-B/16 'cls'" in remark
  # By its name alone where nothing else is known.
  workdirs.finetune(tmp_path / "none", "B.npz", 0.9, model__cls_token=False)
  (remark,) = measure(tmp_path / "none", pretrained={"B.npz": "i21k"})[1]
  assert "it has cls_token False, ViT-B/16 True" in remark


def test_networks_of_other_training_are_not_seeds(tmp_path):
  """As the weight decays are not that Figure 3 chooses among."""
  for seed, decay in enumerate((0.03, 0.3)):
    start = workdirs.pretrain(
      tmp_path / f"pre{seed}",
      f"configs/ablation_data.py:model=B/16,data=i1k,weight_decay={decay}",
    )
    workdirs.finetune(tmp_path / f"tuned{seed}", start, 0.9, seed=seed)
  cells, (remark,) = measure(tmp_path)
  assert cells == {}
  assert (
    "tuned0, tuned1 start from networks whose training differs in"
    " optimizer.weight_decay"
  ) in remark


def test_files_of_two_names_are_not_seeds(tmp_path):
  for seed, name in enumerate(("a.npz", "b.npz")):
    workdirs.finetune(tmp_path / f"seed{seed}", name, 0.9, seed=seed)
  cells, (remark,) = measure(
    tmp_path, pretrained={"a.npz": "i21k", "b.npz": "i21k"}
  )
  assert cells == {} and "differs in init_from" in remark


def test_seeds_of_pre_training_are_seeds(tmp_path):
  for seed in (0, 1):
    start = workdirs.pretrain(tmp_path / f"pre{seed}", seed=seed)
    workdirs.finetune(tmp_path / f"tuned{seed}", start, 0.9 + seed / 100)
  ((_, one),) = measure(tmp_path)[0].items()
  assert one.mean == pytest.approx(90.5)


def test_runs_of_parts_of_train_are_not_results(tmp_path):
  """As those are that compare learning rates."""
  start = workdirs.pretrain(tmp_path / "pre")
  for rate in (0.01, 0.03):
    workdirs.finetune(
      tmp_path / f"lr_{rate}", start, 0.98, train__split="train[:98%]"
    )
  assert measure(tmp_path) == ({}, [])


def test_a_file_without_provenance_has_to_be_named(tmp_path):
  workdirs.finetune(tmp_path / "tuned", "weights/B_16.npz", 0.98)
  cells, (remark,) = measure(tmp_path)
  assert cells == {} and "--pretrained=B_16.npz=DATA" in remark
  cells, remarks = measure(tmp_path, pretrained={"B_16.npz": "jft"})
  assert list(cells) == [("ViT-B/16", "jft", "cifar10")] and remarks == []


def test_unknown_epochs_that_fit_two_rows_are_ambiguous(tmp_path):
  workdirs.finetune(tmp_path / "tuned", "L_16.npz", 0.98, model="L/16")
  cells, (remark,) = measure(tmp_path, 6, {"L_16.npz": "jft"})
  assert cells == {} and "fits 2 rows of Table 6" in remark


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


def test_the_optimizer_of_pre_training_tells_rows_of_table_7_apart(tmp_path):
  for name, top1 in (("adamw", 0.9), ("sgd", 0.8)):
    start = workdirs.pretrain(
      tmp_path / f"pre-{name}",
      "configs/pretrain.py:model=R50x1,data=jft",
      optimizer__name=name,
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


def test_real_is_in_the_run_on_imagenet(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  real = {"eval/real/top1": 0.88, "eval/real/num_examples": 46_837}
  workdirs.finetune(
    tmp_path / "tuned", start, 0.84, dataset="imagenet2012", metrics=real
  )
  cells, remarks = measure(tmp_path)
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
      "dataset": "imagenet2012",
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
  cells, remarks = measure(tmp_path)
  found = {column: one.mean for (_, _, column), one in cells.items()}
  assert found == pytest.approx({"imagenet": 84, "real": 88})
  assert remarks == []


def test_a_run_is_left_out_once_of_all_its_columns(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  workdirs.finetune(
    tmp_path / "tuned", start, 0.84, dataset="imagenet2012", status="failed"
  )
  (remark,) = measure(tmp_path)[1]
  assert remark.startswith("tuned is left out of ImageNet and ReaL: it is")


def test_table_2_takes_large_images_and_averages(tmp_path):
  start = workdirs.pretrain(
    tmp_path / "pre", "configs/pretrain.py:model=L/16,data=i21k"
  )
  large = dict(model__image_size=512, ema_decay=0.9999)
  options = dict(dataset="imagenet2012", model="L/16")
  workdirs.finetune(tmp_path / "large", start, 0.853, **options, **large)
  workdirs.finetune(tmp_path / "small", start, 0.851, **options)
  assert measure(tmp_path, 2)[0][
    "ViT-L/16", "i21k", "imagenet"
  ].mean == pytest.approx(85.3)
  assert measure(tmp_path, 5)[0][
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
  assert list(measure(tmp_path, 9)[0]) == [("ViT-L/16", "i21k", "cifar100")]
  assert measure(tmp_path, 5)[0] == {}
  (remark,) = measure(tmp_path, 9)[1]
  assert "over the 1 of 19 that were measured 84.00" in remark
  assert "the paper's over the same 84.10" in remark


def test_table_8_is_measured_by_few_shots_of_pre_training(tmp_path):
  data = {
    "dataset": "imagenet2012",
    "train_split": "train[:65000]",
    "test_split": "validation",
  }
  for at, value in (("every_layer", 0.6), ("stem", 0.7)):
    workdirs.pretrain(
      tmp_path / at,
      metrics={"fewshot/in/5shot": value},
      model__pos_embedding="learned_2d",
      model__pos_embedding_at=at,
      evals={"fewshot": {"type": "fewshot", "datasets": {"in": data}}},
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
    ("configs/ablation_posembed.py", dict(objective__name="masked_patch")),
    ("configs/ablation_posembed.py", dict(model__pos_embedding="sincos2d")),
  ],
  ids=str,
)
def test_other_studies_have_no_place_in_table_8(tmp_path, config, changes):
  workdirs.write(
    tmp_path / "run", config, {"fewshot/imagenet/5shot": 0.6}, **changes
  )
  assert measure(tmp_path, 8) == ({}, [])


def test_places_of_table_8_of_other_settings_are_named(tmp_path):
  for at, epochs in (("stem", 7), ("every_layer", 14)):
    workdirs.write(
      tmp_path / at,
      f"configs/ablation_posembed.py:at={at},epochs={epochs}",
      {"fewshot/imagenet/5shot": 0.6},
    )
  cells, (remark,) = measure(tmp_path, 8)
  assert len(cells) == 2 and "these differ in total_epochs as well" in remark


def test_shorter_fine_tunings_count_and_are_named(tmp_path):
  start = workdirs.pretrain(tmp_path / "pre")
  workdirs.finetune(tmp_path / "tuned", start, 0.98, total_steps=500)
  cells, (remark,) = measure(tmp_path)
  assert len(cells) == 1
  assert "500 steps of 512 images; Table 4 has 10,000" in remark


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
  cells, (remark,) = measure(tmp_path)
  assert len(cells) == 1 and remark.startswith("torn is left out")
  (start / "config.json").write_bytes(config)
  workdirs.finetune(tmp_path / "b", start, 0.98)
  assert "--pretrained=pre=DATA" in "".join(measure(tmp_path)[1])


def test_a_directory_without_runs_is_an_error(tmp_path):
  (tmp_path / "config.json").write_text(json.dumps({}))
  with pytest.raises(UserError, match="No run was found"):
    runs.find(tmp_path, {})
  with pytest.raises(UserError, match="There is no directory"):
    runs.find(tmp_path / "nowhere", {})
