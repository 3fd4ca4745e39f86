"""Every shipped experiment resolves, shrinks and trains."""

import json
import pathlib

import pytest

from vit_jax import checks, command_line, records
from vit_jax.config import resolve
from vit_jax.errors import UserError
from vit_jax.paper import vtab
from vit_jax.train import train
from vit_jax.training import dry_run

FILES = sorted(
  path
  for path in (pathlib.Path(__file__).parents[1] / "configs").glob("*.py")
  if not path.name.startswith("_")
)

every_config = pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)


def load(path, arguments=None):
  return resolve.resolve(command_line.load_config(str(path), arguments))


@every_config
def test_it_passes_all_checks(path):
  checks.check(load(path))


@every_config
def test_its_smoke_run_trains_evaluates_and_reports(path, tmp_path):
  config = load(path, "smoke")
  checks.check(config)
  assert train(config, str(tmp_path)) == 0
  lines = records.read_lines(tmp_path / "metrics.jsonl")
  trained = [line["step"] for line in lines if "train/loss" in line]
  assert trained == [1, 2, 3, 4]
  assert [line["step"] for line in lines if "train/loss" not in line] == [2, 4]
  assert (tmp_path / "report" / "index.html").exists()
  summary = json.loads((tmp_path / "summary.json").read_text())
  assert summary["status"] == "finished"


@every_config
def test_its_smoke_run_keeps_what_is_studied(path):
  full, small = load(path), load(path, "smoke")
  assert small.objective == full.objective
  assert small.optimizer == full.optimizer
  assert small.train.preprocess == full.train.preprocess
  assert small.schedule.decay == full.schedule.decay
  assert small.evals.keys() == full.evals.keys()


def test_the_jft_run_is_the_papers():
  config = load([p for p in FILES if p.stem == "vit_h14_jft"][0])
  # Table 3 and section 4.1 of arXiv 2010.11929.
  assert config.train.batch_size == 4096
  assert config.schedule.base_lr == 3e-4
  assert config.schedule.warmup_steps == 10_000
  assert config.schedule.decay == "linear"
  assert config.optimizer.weight_decay == 0.1
  assert (config.optimizer.b1, config.optimizer.b2) == (0.9, 0.999)
  epochs = config.total_steps * 4096 / 303e6
  assert epochs == pytest.approx(14, rel=1e-6)


PRETRAIN = [p for p in FILES if p.stem == "pretrain"][0]


@pytest.mark.parametrize(
  ("arguments", "epochs", "base_lr", "decay", "weight_decay", "dropout"),
  [
    ("model=B/16,data=jft", 7, 8e-4, "linear", 0.1, 0.0),
    ("model=L/32,data=jft", 7, 6e-4, "linear", 0.1, 0.0),
    ("model=H/14,data=jft", 14, 3e-4, "linear", 0.1, 0.0),
    ("model=R50x2,data=jft", 7, 1e-3, "linear", 0.1, 0.0),
    ("model=R152x1,data=jft", 7, 6e-4, "linear", 0.1, 0.0),
    ("model=R50+L/32,data=jft", 7, 2e-4, "linear", 0.1, 0.0),
    ("model=L/16,data=i21k", 90, 1e-3, "linear", 0.03, 0.1),
    ("model=B/32,data=i1k", 300, 3e-3, "cosine", 0.3, 0.1),
    ("model=B/32,data=i1k,epochs=90", 90, 3e-3, "cosine", 0.3, 0.1),
  ],
)
def test_pretraining_is_table_3_of_the_paper(
  arguments, epochs, base_lr, decay, weight_decay, dropout
):
  config = load(PRETRAIN, arguments)
  checks.check(config)
  assert config.train.batch_size == 4096
  assert config.schedule.warmup_steps == 10_000
  assert config.total_epochs == epochs
  assert config.schedule.base_lr == base_lr
  assert config.schedule.decay == decay
  assert config.optimizer.weight_decay == weight_decay
  assert config.model.dropout_rate == dropout


def test_a_pair_that_table_3_has_not_is_refused():
  with pytest.raises(UserError, match="no recipe for model=H/14 on data=i1k"):
    load(PRETRAIN, "model=H/14,data=i1k")


@pytest.mark.parametrize("model", ["B/16", "R50x1"])
def test_pretraining_on_lists_of_labels_has_a_smoke_run_too(model, tmp_path):
  config = load(PRETRAIN, f"model={model},data=jft,smoke")
  assert train(config, str(tmp_path)) == 0


FINETUNE = [p for p in FILES if p.stem == "finetune"][0]


@pytest.mark.parametrize(
  ("dataset", "steps", "rates", "dev", "test"),
  [
    (
      "imagenet2012",
      20_000,
      (0.003, 0.01, 0.03, 0.06),
      ("train[:99%]", "train[99%:]"),
      "validation",
    ),
    ("cifar10", 10_000, None, ("train[:98%]", "train[98%:]"), "test"),
    ("cifar100", 10_000, None, ("train[:98%]", "train[98%:]"), "test"),
    ("oxford_iiit_pet", 500, None, ("train[:90%]", "train[90%:]"), "test"),
    ("oxford_flowers102", 500, None, ("train[:90%]", "train[90%:]"), "test"),
  ],
)
def test_finetuning_is_table_4_of_the_paper(dataset, steps, rates, dev, test):
  config = load(FINETUNE, f"dataset={dataset}")
  checks.check(config)
  assert config.total_steps == steps
  assert config.sweep.learning_rates == (rates or (0.001, 0.003, 0.01, 0.03))
  assert config.schedule.base_lr in config.sweep.learning_rates
  assert (config.train.batch_size, config.schedule.decay) == (512, "cosine")
  optimizer = config.optimizer
  assert (optimizer.name, optimizer.momentum) == ("sgd", 0.9)
  assert (optimizer.weight_decay, optimizer.grad_clip_norm) == (0, 1)
  assert config.model.image_size == 384
  assert config.ema_decay is None
  # The last run trains on all that the comparison was made on.
  assert (config.sweep.train_split, config.sweep.dev_split) == dev
  assert config.train.split == "train"
  assert config.evals["test"].split == test


def test_without_dev_neither_the_rate_nor_the_model_has_seen_dev():
  config = load(FINETUNE, "dataset=cifar100,split=dev,lr=0.03")
  assert config.train.split == "train[:98%]"
  assert list(config.evals) == ["dev"]
  assert config.evals["dev"].split == "train[98%:]"
  assert config.schedule.base_lr == 0.03


def test_imagenet_is_measured_on_real_labels_too():
  real = load(FINETUNE, "dataset=imagenet2012").evals["real"]
  assert (real.dataset, real.label_key) == ("imagenet2012_real", "real_label")
  assert "real" not in load(FINETUNE, "dataset=imagenet2012,split=dev").evals


@pytest.mark.parametrize(
  ("arguments", "image_size", "drop_remainder"),
  [
    ("model=H/14", 384, True),
    ("model=H/14,image_size=518", 518, False),
    ("model=L/16,image_size=512,polyak", 512, False),
    ("model=R50+B/16", 384, False),
    ("model=BiT-R50x1", 384, False),
  ],
)
def test_every_size_of_the_paper_can_be_finetuned(
  arguments, image_size, drop_remainder
):
  config = load(FINETUNE, arguments)
  checks.check(config)
  assert config.model.image_size == image_size
  assert config.model.drop_remainder == drop_remainder
  assert config.ema_decay == (0.9999 if "polyak" in arguments else None)
  assert not config.model_from_init


@pytest.mark.parametrize(
  ("arguments", "preprocess"),
  [
    ("", "decode|inception_crop|flip_lr"),
    ("crop=random", "decode|resize(448)|random_crop|flip_lr"),
    (
      "crop=random,image_size=512",
      "decode|resize(597)|random_crop|flip_lr",
    ),
  ],
)
def test_training_images_are_cropped_as_their_protocol_has_it(
  arguments, preprocess
):
  config = load(FINETUNE, arguments)
  checks.check(config)
  assert config.train.preprocess == preprocess
  assert config.evals["test"].preprocess == "decode|resize"


def test_a_dataset_that_table_4_has_not_is_answered_with_the_nearest():
  with pytest.raises(UserError, match='Did you mean "cifar10"'):
    load(FINETUNE, "dataset=cifar")


VTAB = [p for p in FILES if p.stem == "vtab"][0]
# Section 4.1 of arXiv 2010.11929 and google-research/task_adaptation: what is
# compared on and what is tested on, of tasks whose splits are of each kind.
VTAB_SPLITS = {
  "dtd": ("validation[:200]", "test"),
  "resisc45": ("train[18900:19100]", "train[25200:]"),
  "clevr_distance": ("train[63000:63200]", "validation"),
  "smallnorb_elevation": ("test[:200]", "test[50%:]"),
}


@pytest.mark.parametrize("task", vtab.TASKS)
def test_vtab_has_one_setting_for_all_tasks(task):
  config = load(VTAB, f"task={task}")
  checks.check(config)
  assert (config.total_steps, config.schedule.base_lr) == (2500, 0.01)
  assert config.sweep.learning_rates == (0.01,)
  assert (config.train.batch_size, config.model.image_size) == (512, 384)
  assert (config.optimizer.name, config.optimizer.weight_decay) == ("sgd", 0)
  assert config.optimizer.grad_clip_norm == 1
  # The head's size follows without the data.
  assert config.model.num_classes == vtab.TASKS[task].num_classes
  assert config.evals["test"].label_key == config.train.label_key


@pytest.mark.parametrize("task", VTAB_SPLITS)
def test_vtab_trains_on_1000_examples_and_compares_on_200(task):
  dev, test = VTAB_SPLITS[task]
  whole, part = load(VTAB, f"task={task}"), load(VTAB, f"task={task},split=dev")
  assert whole.train.split == f"train[:800]+{dev}"
  assert [entry.split for entry in whole.evals.values()] == [test]
  assert part.train.split == "train[:800]"
  assert [entry.split for entry in part.evals.values()] == [dev]
  assert (whole.sweep.train_split, whole.sweep.dev_split) == (
    "train[:800]",
    dev,
  )


@pytest.mark.parametrize(
  ("task", "train_ops", "test_ops"),
  [
    ("dtd", "decode|resize(448)|random_crop|flip_lr", "decode|resize"),
    ("dmlab", "decode|resize|flip_lr", "decode|resize"),
    ("kitti", "decode|resize|flip_lr", "decode|resize"),
    ("clevr_count", "decode|resize|flip_lr", "decode|resize"),
    ("smallnorb_azimuth", "decode|resize(448)|random_crop", "decode|resize"),
    (
      "dsprites_location",
      "decode|scale_pixels(255)|resize",
      "decode|scale_pixels(255)|resize",
    ),
    (
      "dsprites_orientation",
      "decode|scale_pixels(255)|resize(448)|random_crop",
      "decode|scale_pixels(255)|resize",
    ),
  ],
)
def test_vtab_augments_only_what_leaves_the_label(task, train_ops, test_ops):
  config = load(VTAB, f"task={task}")
  assert config.train.preprocess == train_ops
  assert config.evals["test"].preprocess == test_ops


def test_vtab_takes_another_setting():
  config = load(VTAB, "task=kitti,lr=0.003,steps=500,model=L/16,image_size=224")
  checks.check(config)
  assert (config.total_steps, config.schedule.base_lr) == (500, 0.003)
  assert config.model.image_size == 224 and not config.model_from_init
  with pytest.raises(UserError, match='Did you mean "clevr_count"'):
    load(VTAB, "task=clevr_counts")


@pytest.mark.parametrize("task", ["dsprites_orientation", "kitti"])
def test_a_dry_run_of_vtab_needs_no_data(task, tmp_path):
  built = command_line.load_config(str(VTAB), f"task={task},model=B/32")
  built.update(init_from=None, data_dir=str(tmp_path))
  text = dry_run.describe(resolve.resolve(built))
  assert "The data are not here." in text
  assert f"(768, {vtab.TASKS[task].num_classes})" in text


def test_a_smoke_run_of_black_and_white_images_trains(tmp_path):
  config = load(VTAB, "task=dsprites_orientation,smoke")
  assert train(config, str(tmp_path)) == 0


FOLDER = [p for p in FILES if p.stem == "finetune_folder"][0]


def test_a_folder_is_finetuned_with_other_settings_than_from_scratch():
  built = command_line.load_config(str(FOLDER), None)
  scratch = resolve.resolve(built)
  built.init_from = "B_16.npz"
  tuned = resolve.resolve(built)
  assert scratch.model_from_init and tuned.model_from_init
  assert tuned.init_without == ("head/.*",)
  assert (tuned.optimizer.name, scratch.optimizer.name) == ("sgd", "adamw")
  assert tuned.total_steps < scratch.total_steps
  for config in (scratch, tuned):
    assert config.schedule.base_lr in config.sweep.learning_rates
