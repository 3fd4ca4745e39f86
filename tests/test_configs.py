"""Every shipped experiment resolves, shrinks and trains."""

import dataclasses
import functools
import itertools
import json
import pathlib
import re
import runpy

import jax
import numpy as np
import pytest

from vit_jax import checks, durations, records, registry
from vit_jax.config import experiment_file, resolve, scalars
from vit_jax.configs import (
  study_captions,
  study_families,
  study_selfsupervised,
)
from vit_jax.errors import UserError
from vit_jax.models.convnext import shapes as convnext_shapes
from vit_jax.models.convnext import sizes as convnext_sizes
from vit_jax.models.vit import sizes
from vit_jax.objectives import build as objectives
from vit_jax.optim import multipliers, schedules
from vit_jax.paper import cost, vtab
from vit_jax.train import train
from vit_jax.training import dry_run
from vit_jax.weights import flat

FILES = sorted(
  path
  for path in (pathlib.Path(__file__).parents[1] / "configs").glob("*.py")
  if not path.name.startswith("_")
)

every_config = pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)


def load(path, arguments=None):
  return resolve.resolve(experiment_file.load(str(path), arguments))


@every_config
def test_it_passes_all_checks(path):
  checks.check(load(path))


# Studies and ablations train what other configs train, with other settings.
_VARIANTS = ("ablation_", "study_")


@pytest.mark.slow
@pytest.mark.parametrize(
  "path",
  [
    pytest.param(path, marks=pytest.mark.exhaustive)
    if path.stem.startswith(_VARIANTS)
    else path
    for path in FILES
  ],
  ids=lambda p: p.stem,
)
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


def test_vit_h14_jft_trains_on_lists_of_32_labels(tmp_path):
  config = load(file("vit_h14_jft"), "smoke")
  dataset = config.train.dataset.replace("labels=3", "labels=32")
  assert dataset != config.train.dataset
  training = config.train.model_copy(update={"dataset": dataset})
  config = config.model_copy(update={"train": training})
  assert train(config, str(tmp_path)) == 0


@every_config
def test_its_smoke_run_keeps_what_is_studied(path):
  full, small = load(path), load(path, "smoke")
  sizes = objectives.kind_of(full).small
  assert small.objective == full.objective.model_copy(update=sizes)
  assert small.optimizer == full.optimizer
  assert small.train.preprocess == full.train.preprocess
  assert small.schedule.decay == full.schedule.decay
  assert small.evals.keys() == full.evals.keys()


@pytest.fixture
def whole_layers(monkeypatch):
  """Counts tokens that nothing reads: they were computed in the studies."""

  def all_of_them(model, *, num_classes, read_patches=None):
    del read_patches
    return cost.forward_flops(model, num_classes=num_classes)

  monkeypatch.setattr(cost, "computed_flops", all_of_them)


@pytest.mark.usefixtures("whole_layers")
@pytest.mark.parametrize("run", study_captions.RUNS)
def test_the_study_of_captions_gives_each_run_the_same_compute(run):
  config = load(file("study_captions"), f"run={run}")
  macs = cost.forward_flops(config.model, num_classes=10) / 2e6
  if run != "supervised":
    macs = objectives.forward_flops(config, num_classes=None) / 2e6
  # A frozen tower, which needs no backward pass, is as dear as one that learns.
  if run != "lit":
    assert study_captions.MACS[run] == pytest.approx(macs, abs=0.02)
  seen = config.total_steps * config.train.batch_size
  assert seen * study_captions.cost(run) == pytest.approx(
    study_captions.SEEN, rel=1e-3
  )


@pytest.mark.parametrize("run", study_families.RUNS)
def test_the_study_of_families_gives_each_run_the_same_compute(run):
  teacher = ",teacher=resnet" if run == "distilled" else ""
  config = load(file("study_families"), f"run={run}{teacher}")
  passes = 3 * study_families.MACS[run]
  if run == "distilled":
    assert config.objective.teacher == "resnet"
    passes += study_families.MACS["resnet"]
  macs = cost.forward_flops(config.model, num_classes=10) / 2e6
  assert study_families.MACS[run] == pytest.approx(macs, abs=0.01)
  wanted = study_families.SEEN * 3 * study_families.MACS["plain"]
  images = config.total_steps * config.train.batch_size
  assert images * passes == pytest.approx(wanted, rel=1e-3)


@pytest.mark.usefixtures("whole_layers")
@pytest.mark.parametrize("run", study_selfsupervised.MACS)
def test_the_study_without_labels_gives_each_run_the_same_compute(run):
  config = load(file("study_selfsupervised"), f"run={run}")
  checks.check(config)
  macs = objectives.forward_flops(config, num_classes=10) / 2e6
  assert study_selfsupervised.MACS[run] == pytest.approx(macs, abs=0.01)
  images = config.total_steps * config.train.batch_size
  wanted = study_selfsupervised.SEEN * study_selfsupervised.MACS["supervised"]
  assert images * macs == pytest.approx(wanted, rel=3e-3)


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
    ("model=R152x2,data=jft,epochs=14", 14, 6e-4, "linear", 0.1, 0.0),
    ("model=R200x3,data=jft", 14, 6e-4, "linear", 0.1, 0.0),  # Inferred.
    ("model=H/14,data=i21k", 90, 1e-3, "linear", 0.03, 0.1),  # Inferred.
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
  assert getattr(config.model, "dropout_rate", 0) == dropout


def test_a_pair_that_table_3_has_not_is_refused():
  with pytest.raises(UserError, match="no recipe for model=H/14 on data=i1k"):
    load(PRETRAIN, "model=H/14,data=i1k")


@pytest.mark.parametrize(
  "arguments, epochs, base_lr, decay, rate, layer_decay, size",
  [
    ("model=ConvNeXt-T", 300, 4e-3, 0.05, 0.1, None, 224),
    ("model=ConvNeXt-L", 300, 4e-3, 0.05, 0.5, None, 224),
    ("model=ConvNeXt-B,phase=finetune384", 30, 5e-5, 1e-8, 0.8, 0.7, 384),
    ("model=ConvNeXt-XL,phase=pretrain22k", 90, 4e-3, 0.05, 0.2, None, 224),
    ("model=ConvNeXt-S,phase=pretrain22k", 90, 4e-3, 0.05, 0.0, None, 224),
    ("model=ConvNeXt-T,phase=finetune22k", 30, 5e-5, 1e-8, 0.0, 0.8, 224),
    ("model=ConvNeXt-S,phase=finetune22k", 30, 5e-5, 1e-8, 0.1, 0.8, 224),
    ("model=ConvNeXt-L,phase=finetune22k", 30, 5e-5, 1e-8, 0.3, 0.8, 224),
    (
      "model=ConvNeXt-XL,phase=finetune22k,image_size=384",
      *(30, 5e-5, 1e-8, 0.4, 0.8, 384),
    ),
  ],
)
def test_convnexts_are_trained_as_published(
  arguments, epochs, base_lr, decay, rate, layer_decay, size
):
  """The commands of facebookresearch/ConvNeXt, TRAINING.md, and Tables 5, 6."""
  config = load(file("convnext"), arguments)
  checks.check(config)
  pretrains = epochs > 30
  assert (config.total_epochs, config.schedule.base_lr) == (epochs, base_lr)
  assert config.train.batch_size == (4096 if pretrains else 512)
  assert config.schedule.end_lr == 1e-6
  optimizer = config.optimizer
  assert (optimizer.name, optimizer.weight_decay) == ("adamw", decay)
  assert optimizer.layer_decay == layer_decay
  assert optimizer.grad_clip_norm is None
  model = config.model
  assert (model.stochastic_depth_rate, model.image_size) == (rate, size)
  assert model.normalize == "imagenet"
  objective = config.objective
  mixes = (0.8, 1.0) if pretrains else (0, 0)
  assert (objective.mixup_alpha, objective.cutmix_alpha) == mixes
  assert objective.label_smoothing == 0.1
  assert "randaug(2, 9, 0.5, True)" in config.train.preprocess
  averaged = epochs == 300 or "XL,phase=finetune" in arguments
  assert config.ema_decay == (0.9999 if averaged else None)
  if "phase=pretrain22k" in arguments:
    assert not config.evals  # ImageNet-21k has no validation split.
  else:
    crops = "central_crop" in config.evals["val"].preprocess
    assert crops == (size < 384)
  assert bool(config.init_from) != pretrains


# Tables 12 and 13 of arXiv 2301.00808, and the sizes of Table 15: layer decay,
# rate of stochastic depth, epochs.
_CONVNEXT_V2 = {
  "labels22k": {
    "nano": (0.9, 0.0, 90),
    "T": (0.9, 0.0, 90),
    "B": (0.8, 0.1, 90),
    "L": (0.8, 0.1, 90),
    "H": (0.8, 0.3, 90),
  },
  "finetune22k": {
    "nano": (0.9, 0.1, 90),
    "T": (0.9, 0.1, 90),
    "B": (0.8, 0.2, 30),
    "L": (0.8, 0.3, 30),
    "H": (0.85, 0.5, 30),
  },
}


@pytest.mark.parametrize(
  "phase, size",
  [(phase, size) for phase in _CONVNEXT_V2 for size in _CONVNEXT_V2[phase]],
)
def test_convnexts_v2_are_trained_as_published(phase, size):
  """Base rates of 2.5e-4 and 2.5e-5 are for 256 images, main_finetune.py."""
  decay, rate, epochs = _CONVNEXT_V2[phase][size]
  config = load(file("convnext"), f"model=ConvNeXtV2-{size},phase={phase}")
  checks.check(config)
  on_22k = phase == "labels22k"
  assert config.train.dataset == ("imagenet21k" if on_22k else "imagenet2012")
  assert config.train.batch_size == (4096 if on_22k else 512)
  assert config.total_epochs == epochs
  schedule = config.schedule
  base_lr = 2.5e-4 * 4096 / 256 if on_22k else 2.5e-5 * 512 / 256
  assert schedule.base_lr == pytest.approx(base_lr)
  assert schedule.warmup_steps == ("5 epochs" if on_22k else 0)
  assert (schedule.decay, schedule.end_lr) == ("cosine", 1e-6)
  optimizer = config.optimizer
  assert (optimizer.name, optimizer.b1, optimizer.b2) == ("adamw", 0.9, 0.999)
  assert optimizer.weight_decay == (0.05 if on_22k else 1e-8)
  assert optimizer.grad_clip_norm is None
  objective = config.objective
  mixes = (0.8, 1.0) if on_22k else (0, 0)
  assert (objective.mixup_alpha, objective.cutmix_alpha) == mixes
  assert (objective.label_smoothing, objective.erase_probability) == (0.1, 0.25)
  assert "randaug(2, 9, 0.5, True)" in config.train.preprocess
  averages = not on_22k and size != "H"
  assert config.ema_decay == (0.9999 if averages else None)
  model = config.model
  assert (model.version, model.stochastic_depth_rate) == (2, rate)
  # H is published at 384 and 512 pixels.
  assert model.image_size == (384 if size == "H" and not on_22k else 224)
  assert config.init_from and config.init_without == ("head/.*",)
  _check_convnext_v2_decay(config, size, decay)


# Tables 9 to 11: layer decay, rate of stochastic depth, epochs, of warmup, rate
# for 256 images, weight decay, label smoothing, mixup and CutMix. For B and L
# the rate is TRAINING.md's, for B.
_MIXED = 0.05, 0.1, (0.8, 1.0)
_CONVNEXT_V2_1K = {
  "atto": (0.9, 0.1, 600, 0, 2e-4, 0.3, 0.2, (0.0, 0.0)),
  "femto": (0.9, 0.0, 600, 0, 2e-4, 0.05, 0.2, (0.3, 0.3)),
  "pico": (0.9, 0.0, 600, 0, 2e-4, 0.3, 0.2, (0.3, 0.3)),
  "nano": (0.9, 0.1, 600, 0, 2e-4, 0.3, 0.2, (0.5, 0.5)),
  "T": (0.9, 0.2, 300, 40, 8e-4, *_MIXED),
  "B": (0.6, 0.1, 100, 20, 6.25e-4, *_MIXED),
  "L": (0.6, 0.2, 100, 20, 6.25e-4, *_MIXED),
  "H": (0.75, 0.3, 50, 10, 1.25e-3, *_MIXED),
}


@pytest.mark.parametrize("size", _CONVNEXT_V2_1K)
def test_masked_autoencoders_are_tuned_as_published(size):
  decay, depth, epochs, warmup, rate, weights, smoothing, mixes = (
    _CONVNEXT_V2_1K[size]
  )
  config = load(file("convnext"), f"model=ConvNeXtV2-{size},phase=finetune")
  checks.check(config)
  train, schedule, objective = config.train, config.schedule, config.objective
  assert (train.dataset, train.batch_size) == ("imagenet2012", 1024)
  assert "randaug(2, 9, 0.5, True)" in train.preprocess
  assert config.total_epochs == epochs
  assert schedule.base_lr == pytest.approx(rate * 1024 / 256)
  assert schedule.warmup_steps == (f"{warmup} epochs" if warmup else 0)
  assert (schedule.decay, schedule.end_lr) == ("cosine", 1e-6)
  assert config.optimizer.weight_decay == weights
  assert objective.label_smoothing == smoothing
  assert (objective.mixup_alpha, objective.cutmix_alpha) == mixes
  assert objective.erase_probability == 0.25
  assert (config.ema_decay, config.ema_warmup) == (0.9999, False)
  assert config.model.stochastic_depth_rate == depth
  assert config.init_from and config.init_without == ("head/.*",)
  _check_convnext_v2_decay(config, size, decay)


@pytest.mark.parametrize("size", _CONVNEXT_V2_1K)
def test_convnexts_v2_are_masked_as_published(size):
  """Table 8, and main_pretrain.py of facebookresearch/ConvNeXt-V2."""
  config = load(file("convnext"), f"model=ConvNeXtV2-{size},phase=fcmae")
  checks.check(config)
  train, optimizer, schedule = config.train, config.optimizer, config.schedule
  assert config.total_epochs == 1600
  assert (train.dataset, train.batch_size) == ("imagenet2012", 4096)
  assert "random_resized_crop(scale=[0.2, 1.0])" in train.preprocess
  assert schedule.base_lr == pytest.approx(1.5e-4 * 4096 / 256)
  assert (schedule.warmup_steps, schedule.decay) == ("40 epochs", "cosine")
  assert schedule.end_lr == 0
  assert (optimizer.name, optimizer.b1, optimizer.b2) == ("adamw", 0.9, 0.95)
  assert (optimizer.weight_decay, optimizer.grad_clip_norm) == (0.05, None)
  objective = config.objective
  assert (objective.name, objective.mask_ratio) == ("fcmae", 0.6)
  assert (objective.decoder_width, objective.decoder_depth) == (512, 1)
  assert objective.normalize_pixels and config.init_from is None
  shorter = f"model=ConvNeXtV2-{size},phase=fcmae,epochs=800"
  assert load(file("convnext"), shorter).total_epochs == 800


def _check_convnext_v2_decay(config, size, decay):
  """Compares the factors of all parameters with the published layers."""
  model = config.model
  params = {
    path: jax.ShapeDtypeStruct(shape, np.float32)
    for path, shape in convnext_shapes.shapes(model, 1000).items()
  }
  layer_of = registry.FAMILIES.get("convnext").layer_of
  factors = multipliers.factors(
    config.optimizer, flat.unflatten(params), functools.partial(layer_of, model)
  )
  depths = convnext_sizes.VARIANTS[size][0]
  by_threes = size in "BL"  # A.1: layers of B and L are "group".
  last = 12 if by_threes else sum(depths)
  assert factors == pytest.approx(
    {
      path: decay ** (last + 1 - _convnext_v2_layer(path, depths, by_threes))
      for path in params
    }
  )


def _convnext_v2_layer(path, depths, by_threes):
  """`layer_decay_type` of facebookresearch/ConvNeXt-V2, optim_factory.py."""
  part, child, *_ = path.split("/")
  if part in ("norm", "head"):
    return 13 if by_threes else sum(depths) + 1
  stage = 0 if part == "stem" else int(part.removeprefix("stage")) - 1
  block = int(child[5:]) - 1 if child.startswith("block") else 0
  if not by_threes:
    return sum(depths[:stage]) + block + 1
  if part == "stem":
    return 0
  return {0: 1, 1: 2, 2: 3 + block // 3, 3: 12}[stage]


def test_convnexts_without_a_recipe_are_answered_with_those_that_have_one():
  with pytest.raises(UserError, match="ConvNeXt-T.*ConvNeXt-B, ConvNeXt-L"):
    load(file("convnext"), "phase=finetune384")
  with pytest.raises(UserError, match='Did you mean "pretrain22k"'):
    load(file("convnext"), "phase=pretrain21k")
  with pytest.raises(UserError, match="V2-atto.*V2-nano, .*V2-H"):
    load(file("convnext"), "model=ConvNeXtV2-atto,phase=labels22k")
  with pytest.raises(UserError, match="'ConvNeXt-T'.*ConvNeXtV2-atto.*V2-H"):
    load(file("convnext"), "phase=fcmae")


def test_every_phase_of_convnexts_shrinks():
  for phase in ("finetune384", "pretrain22k", "finetune22k"):
    config = load(file("convnext"), f"model=ConvNeXt-B,phase={phase},smoke")
    checks.check(config)
    assert (
      config.optimizer
      == load(file("convnext"), f"model=ConvNeXt-B,phase={phase}").optimizer
    )
    assert config.init_from is None
  for phase in ("fcmae", "finetune", *_CONVNEXT_V2):
    arguments = f"model=ConvNeXtV2-T,phase={phase},smoke"
    checks.check(load(file("convnext"), arguments))


@pytest.mark.slow
def test_a_masked_autoencoder_of_a_convnext_is_trained_and_tuned(tmp_path):
  masked, tuned = tmp_path / "fcmae", tmp_path / "tuned"
  arguments = "model=ConvNeXtV2-T,phase={},smoke"
  config = load(file("convnext"), arguments.format("fcmae"))
  assert train(config, str(masked)) == 0
  summary = json.loads((masked / "summary.json").read_text())
  assert 0 < summary["metrics"]["reconstruction/val/loss"] < 2
  config = load(file("convnext"), arguments.format("finetune"))
  config = config.model_copy(update={"init_from": str(masked)})
  assert train(config, str(tuned)) == 0


@pytest.mark.slow
def test_a_smoke_run_of_single_blocks_as_layers_trains(tmp_path):
  arguments = "model=ConvNeXtV2-T,phase=labels22k,smoke"
  assert train(load(file("convnext"), arguments), str(tmp_path)) == 0


@pytest.mark.parametrize(
  "arguments, epochs, base_lr, end_lr, decay, rate, size, window",
  [
    ("model=Swin-T", 300, 1e-3, 1e-5, 0.05, 0.2, 224, None),
    ("model=Swin-S", 300, 1e-3, 1e-5, 0.05, 0.3, 224, None),
    ("model=Swin-B", 300, 1e-3, 1e-5, 0.05, 0.5, 224, None),
    ("model=SwinV2-T", 300, 1e-3, 1e-5, 0.05, 0.2, 256, None),
    ("model=Swin-B,phase=finetune384", 30, 4e-5, 4e-7, 1e-8, 0.5, 384, 12),
    ("model=Swin-L,phase=pretrain22k", 90, 1e-3, 1e-5, 0.05, 0.2, 224, None),
    ("model=Swin-T,phase=pretrain22k", 90, 1e-3, 1e-5, 0.05, 0.1, 224, None),
    ("model=Swin-S,phase=finetune22k", 30, 4e-5, 4e-7, 1e-8, 0.2, 224, None),
    ("model=Swin-T,phase=finetune22k", 30, 4e-5, 4e-7, 1e-8, 0.1, 224, None),
    ("model=SwinV2-B,phase=pretrain22k", 90, 1e-3, 1e-5, 0.1, 0.2, 192, 12),
    ("model=SwinV2-L,phase=pretrain22k", 90, 1e-3, 1e-5, 0.1, 0.2, 192, 12),
    ("model=SwinV2-B,phase=finetune22k", 30, 4e-5, 4e-7, 1e-8, 0.2, 256, 16),
    ("model=Swin-L,phase=finetune22k", 30, 4e-5, 4e-7, 1e-8, 0.2, 224, None),
    (
      "model=Swin-B,phase=finetune22k,image_size=384",
      *(30, 4e-5, 4e-7, 1e-8, 0.2, 384, 12),
    ),
    (
      "model=SwinV2-L,phase=finetune22k,image_size=384",
      *(30, 4e-5, 4e-7, 1e-8, 0.2, 384, 24),
    ),
  ],
)
def test_swins_are_trained_as_published(
  arguments, epochs, base_lr, end_lr, decay, rate, size, window
):
  """config.py, configs/ and main.py of microsoft/Swin-Transformer."""
  config = load(file("swin"), arguments)
  checks.check(config)
  assert config.total_epochs == epochs
  assert config.schedule.base_lr == pytest.approx(base_lr)
  assert config.schedule.end_lr == pytest.approx(end_lr)
  warmup = {300: 20, 90: 5, 30: 5}[epochs]
  assert config.schedule.warmup_steps == f"{warmup} epochs"
  assert config.schedule.warmup_prefix
  assert config.train.batch_size == (4096 if epochs == 90 else 1024)
  optimizer = config.optimizer
  assert (optimizer.name, optimizer.weight_decay) == ("adamw", decay)
  assert optimizer.grad_clip_norm == 5
  model = config.model
  assert (model.stochastic_depth_rate, model.image_size) == (rate, size)
  assert (model.normalize, model.window_size) == ("imagenet", window)
  # PRETRAINED_WINDOW_SIZES; those of the pre-training are its own.
  grows = "V2" in arguments and "22k" in arguments
  first = (12, 12, 12, 6) if grows else None
  assert model.pretrained_window_sizes == first
  objective = config.objective
  assert (objective.mixup_alpha, objective.cutmix_alpha) == (0.8, 1.0)
  assert objective.label_smoothing == 0.1
  if "phase=pretrain22k" in arguments:
    assert not config.evals  # ImageNet-21k has no validation split.
  else:
    preprocess = config.evals["val"].preprocess
    crops = "central_crop" in preprocess
    assert crops == (size < 384)
    if crops:  # int(256 / 224 * size)
      scale = float(re.search(r"scale=([\d.]+)", preprocess)[1])
      assert round(scale * size) == {224: 256, 256: 292}[size]
  assert bool(config.init_from) == ("finetune" in arguments)


def test_swins_without_a_recipe_are_answered_with_those_that_have_one():
  with pytest.raises(UserError, match="Swin-T.*it is for Swin-B"):
    load(file("swin"), "phase=finetune384")


def test_every_phase_of_swins_shrinks():
  for phase in ("finetune384", "pretrain22k", "finetune22k"):
    config = load(file("swin"), f"model=Swin-B,phase={phase},smoke")
    checks.check(config)
    assert config.init_from is None
  for phase in ("pretrain22k", "finetune22k"):
    checks.check(load(file("swin"), f"model=SwinV2-L,phase={phase},smoke"))


@pytest.mark.slow
def test_a_swin_v2_begins_with_the_run_before_it(tmp_path):
  """Windows grow; the unit of offsets stays, so the networks are compared."""
  small = {"depths": (1, 1, 2, 1), "num_heads": (1, 1, 2, 4), "width": 4}
  data = "generated:classes=4,size=192,examples=16"

  def run(arguments, **keys):
    config = load(file("swin"), f"model=SwinV2-B,{arguments}")
    model = config.model.updated(**small, dtype="float32")
    training = {"dataset": data, "batch_size": 16}
    keys |= {
      "model": model,
      "train": config.train.model_copy(update=training),
      "schedule": config.schedule.model_copy(update={"warmup_steps": 0}),
      "total_steps": 1,
      "total_epochs": None,
      "evals": {},
    }
    config = config.model_copy(update=keys)
    assert train(config, str(tmp_path / arguments)) == 0

  run("phase=pretrain22k")
  run("phase=finetune22k", init_from=str(tmp_path / "phase=pretrain22k"))


def test_swins_start_from_the_rows_of_a_larger_head_if_told_which():
  arguments = "model=Swin-B,phase=finetune22k"
  fresh = load(file("swin"), arguments)
  assert fresh.init_without == ("head/.*",) and fresh.init_classes is None
  mapped = load(file("swin"), f"{arguments},class_map=map22kto1k.txt")
  assert mapped.init_without == ()
  assert mapped.init_classes == "map22kto1k.txt"
  with pytest.raises(UserError, match="class_map = 'a.txt' is of phase"):
    load(file("swin"), "class_map=a.txt")


@pytest.mark.parametrize(
  "name, rate, norm",
  [
    ("PVTv2-b0", 0.1, None),
    ("PVTv2-b2-li", 0.1, None),
    ("PVTv2-b3", 0.3, 1.0),
    ("PVTv2-b5", 0.3, 1.0),
  ],
)
def test_pvts_are_trained_as_published(name, rate, norm):
  """classification/main.py and configs/pvt_v2/ of whai362/PVT."""
  config = load(file("pvt"), f"model={name}")
  checks.check(config)
  assert config.model.stochastic_depth_rate == rate
  assert config.model.linear_attention == name.endswith("-li")
  assert config.optimizer.grad_clip_norm == norm
  assert config.total_epochs == 300
  assert config.schedule.base_lr == 5e-4 * config.train.batch_size / 512
  assert config.schedule.warmup_steps == "5 epochs"
  assert not config.schedule.warmup_prefix
  assert config.schedule.end_lr == 1e-5
  assert (config.optimizer.weight_decay, config.train.repeats) == (0.05, 3)
  assert "randaug(2, 9, 0.5, True)" in config.train.preprocess
  assert config.ema_decay is None


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
  assert getattr(config.model, "drop_remainder", False) == drop_remainder
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


@pytest.mark.parametrize(
  ("name", "arguments", "head"),
  [
    ("vtab", "task=kitti,model=B/32", "(768, 4)"),
    ("pretrain", "model=B/32,data=i21k", "(768, 21843)"),
    ("selfsupervised", "model=B/32", "(768, 512)"),
    ("resnet", "model=R50x1,data=jft", "(2048, 18291)"),
    ("ablation_data", "model=b/32,images=9M", "(384, 18291)"),
  ],
)
def test_a_dry_run_needs_no_data(name, arguments, head, tmp_path):
  built = experiment_file.load(str(file(name)), arguments)
  built.update(init_from=None, data_dir=str(tmp_path))
  text = "".join(dry_run.describe(resolve.resolve(built), None))
  assert "The data are not here." in text
  assert head in text


def test_a_smoke_run_of_black_and_white_images_trains(tmp_path):
  config = load(VTAB, "task=dsprites_orientation,smoke")
  assert train(config, str(tmp_path)) == 0


def file(name):
  (path,) = (p for p in FILES if p.stem == name)
  return path


def test_self_supervision_is_appendix_b12_of_the_paper():
  config = load(file("selfsupervised"))
  assert config.total_steps == 1_000_000
  assert (config.train.batch_size, config.schedule.base_lr) == (4096, 2e-4)
  assert (config.schedule.warmup_steps, config.schedule.decay) == (
    10_000,
    "cosine",
  )
  objective = config.objective
  assert (objective.name, objective.mask_rate) == ("masked_patch", 0.5)
  assert objective.target == "mean_colour"
  # About 14 epochs of JFT-300M.
  assert config.total_steps * 4096 / 303e6 == pytest.approx(14, rel=0.05)


def steps_of_rate(config, total_steps):
  """The steps at which the rate falls, in a run of so many."""
  _, _, boundaries, _ = schedules.in_steps(
    config.schedule, total_steps=total_steps, batch_size=1, num_examples=None
  )
  return tuple(boundaries)


@pytest.mark.parametrize(
  ("data", "epochs", "falls"),
  [("i1k", 90, (30, 60, 80)), ("i21k", 90, (30, 60, 80)),
   ("jft", 40, (10, 23, 30, 37))],
)  # fmt: skip
def test_resnets_are_pre_trained_as_big_transfer_has_it(data, epochs, falls):
  config = load(file("resnet"), f"model=R101x3,data={data}")
  checks.check(config)
  assert config.total_epochs == epochs
  # An epoch of 1281167 images, the most uneven of numbers, is 312.79 steps.
  for length in (epochs, 20):
    found = steps_of_rate(config, total_steps=round(length * 1281167 / 4096))
    assert found == tuple(
      round(n / epochs * round(length * 1281167 / 4096)) for n in falls
    )
  assert (config.schedule.decay, config.schedule.factor) == ("steps", 0.1)
  # 0.03 for 256 images.
  assert config.schedule.base_lr == pytest.approx(0.48)
  assert config.schedule.warmup_steps == 5000
  optimizer = config.optimizer
  assert (optimizer.name, optimizer.momentum) == ("sgd", 0.9)
  # Not through the momentum, which would make it ten times as much.
  assert optimizer.weight_decay == pytest.approx(1e-4 / (1 - 0.9))
  assert optimizer.grad_clip_norm is None


@pytest.mark.parametrize(
  ("arguments", "steps", "size", "crop", "mixup"),
  [
    ("dataset=oxford_flowers102", 500, 448, 384, 0),
    ("dataset=cifar10", 10_000, 160, 128, 0.1),
    ("dataset=imagenet2012", 20_000, 448, 384, 0.1),
    ("dataset=imagenet2012,model=R152x4", 20_000, 512, 480, 0.1),
  ],
)
def test_the_hyperrule_follows_from_size_and_images(
  arguments, steps, size, crop, mixup
):
  config = load(file("resnet"), arguments)
  checks.check(config)
  assert (config.total_steps, config.schedule.base_lr) == (steps, 0.003)
  assert config.schedule.warmup_steps == 0
  for length in (steps, 200):  # A run of another length falls at these shares.
    assert steps_of_rate(config, total_steps=length) == tuple(
      round(part * length) for part in (0.3, 0.6, 0.9)
    )
  assert config.model.image_size == crop
  ops = f"decode|resize({size})|random_crop|flip_lr"
  assert config.train.preprocess == ops
  assert config.objective.mixup_alpha == mixup
  assert (config.train.batch_size, config.optimizer.weight_decay) == (512, 0)


@pytest.mark.parametrize(
  ("dataset", "supports", "size", "crop", "mixup"),
  [
    ("oxford_iiit_pet", (100, 200, 300, 400, 500), 512, 480, 0),
    ("cifar10", (500, 3000, 6000, 9000, 10_000), 160, 128, 0.1),
    ("imagenet2012", (500, 6000, 12_000, 18_000, 20_000), 512, 480, 0.1),
  ],
)
def test_the_hyperrule_of_the_released_code(
  dataset, supports, size, crop, mixup
):
  """bit_hyperrule.py of google-research/big_transfer."""
  config = load(file("resnet"), f"dataset={dataset},rule=released")
  checks.check(config)
  warmup, *falls, end = supports
  assert config.total_steps == end
  rate = schedules.learning_rate(
    config.schedule, total_steps=end, batch_size=512, num_examples=None
  )
  for step in (0, 1, warmup // 2, warmup, warmup + 1):
    assert rate(step) == pytest.approx(0.003 * min(1, step / warmup))
  for number, fall in enumerate(falls):
    # There the fall itself is still before it, one step later.
    assert rate(fall - 1) == pytest.approx(0.003 * 0.1**number)
    assert rate(fall + 1) == pytest.approx(0.003 * 0.1 ** (number + 1))
  assert config.model.image_size == crop
  ops = f"decode|resize({size})|random_crop|flip_lr"
  assert config.train.preprocess == ops
  assert config.objective.mixup_alpha == mixup


def test_arguments_of_the_other_recipe_are_refused():
  with pytest.raises(UserError, match="epochs = 3 is of pre-training"):
    load(file("resnet"), "dataset=cifar10,epochs=3")
  with pytest.raises(UserError, match="rule = 'released' is of fine-tuning"):
    load(file("resnet"), "data=jft,rule=released")
  with pytest.raises(UserError, match="rule"):
    load(file("resnet"), "dataset=cifar10,rule=relased")


@pytest.mark.parametrize(
  ("name", "arguments", "phase"),
  [
    ("mae", "phase=finetune,epochs=50", "pretrain"),
    ("convnext", "model=ConvNeXtV2-T,phase=finetune,epochs=50", "fcmae"),
    ("convnext", "epochs=50", "fcmae"),
  ],
)
def test_epochs_of_masked_autoencoders_are_refused_elsewhere(
  name, arguments, phase
):
  words = f"epochs = 50 is of phase={phase}.*set config.total_epochs"
  with pytest.raises(UserError, match=words):
    load(file(name), arguments)


@pytest.mark.parametrize(
  ("name", "arguments", "words"),
  [
    (
      "beit",
      "phase=finetune,tokenizer=x",
      "phase=pretrain or phase=pretrain22k and",
    ),
    ("beit", "version=2,phase=labels22k,tokenizer=x", "phase=pretrain and"),
    ("beit", "version=2,phase=tokenizer,tokenizer=x", "phase=pretrain and"),
    ("eva02", "phase=labels21k,teacher=x", "phase=pretrain and"),
    ("study_families", "run=deit,teacher=x", "run=distilled and"),
    ("study_selfsupervised", "run=mae,tokenizer=x", "run=beit or beitv2 and"),
    ("study_selfsupervised", "run=beit,teacher=x", "run=vqkd and"),
  ],
)
def test_arguments_that_would_change_nothing_are_refused(
  name, arguments, words
):
  argument = arguments.split(",")[-1].replace("=", " = '") + "'"
  words = f"{argument} is of .*{words}.*leave it out"
  with pytest.raises(UserError, match=words):
    load(file(name), arguments)


def test_a_convnext_of_the_study_without_labels_is_chosen_by_its_run():
  with pytest.raises(UserError, match="is of run=tuned; .* convnext, fcmae"):
    load(file("study_selfsupervised"), "run=supervised,network=convnext")


def test_two_recipes_at_once_are_refused():
  with pytest.raises(UserError, match="data and dataset are of two recipes"):
    load(file("resnet"), "data=jft,dataset=cifar10")
  with pytest.raises(UserError, match="images = 9M applies to JFT-300M only"):
    load(file("ablation_data"), "images=9M,data=i1k")


def test_adam_and_sgd_are_compared_over_the_same_epochs():
  adam, sgd = (
    load(file("ablation_optimizer"), f"model=R152x2,optimizer={name}")
    for name in ("adam", "sgd")
  )
  assert adam == load(PRETRAIN, "model=R152x2,data=jft")
  assert sgd == load(file("resnet"), "model=R152x2,data=jft,epochs=7")
  assert adam.total_epochs == sgd.total_epochs == 7
  # The rate falls at the same parts as in 40 epochs.
  falls = steps_of_rate(sgd, total_steps=517_822)
  assert falls == tuple(round(n / 40 * 517_822) for n in (10, 23, 30, 37))


def test_each_way_of_pooling_has_its_own_rate():
  cls, gap = (
    load(file("ablation_head"), f"pool={pool}") for pool in ("cls", "gap")
  )
  assert (cls.model.pool, cls.schedule.base_lr) == ("cls", 8e-4)
  assert (gap.model.pool, gap.schedule.base_lr) == ("gap", 3e-4)
  assert gap.model.representation_size is None
  other = load(file("ablation_head"), "pool=gap,lr=0.0008")
  assert other.schedule.base_lr == 8e-4


def test_a_shape_differs_from_the_base_in_one_number():
  base = load(file("ablation_shape")).model
  size = sizes.vit(base)
  numbers = (size.depth, size.width, size.mlp_dim, size.patch_size)
  assert numbers == (8, 1024, 2048, 32)
  deep = load(file("ablation_shape"), "depth=64").model
  assert sizes.vit(deep) == dataclasses.replace(size, depth=64)
  wide = sizes.vit(load(file("ablation_shape"), "width=512").model)
  assert (wide.width, wide.width // wide.num_heads) == (512, 64)


def test_fewer_images_are_seen_for_as_many_steps():
  parts = [
    load(file("ablation_data"), f"model=b/32,images={images}")
    for images in ("9M", "30M", "90M", "300M")
  ]
  assert [config.train.split for config in parts] == [
    "train[:9000000]",
    "train[:30000000]",
    "train[:90000000]",
    "train",
  ]
  assert {config.total_steps for config in parts} == {
    round(7 * 303_000_000 / 4096)
  }
  whole = sizes.vit(parts[0].model)
  full = sizes.vit(load(file("ablation_data"), "model=B/32").model)
  assert 2 * whole.width == full.width and 2 * whole.mlp_dim == full.mlp_dim


def test_small_data_can_be_regularised():
  config = load(
    file("ablation_data"),
    "model=L/16,data=i1k,weight_decay=0.1,dropout=0,label_smoothing=0.1",
  )
  assert config.optimizer.weight_decay == 0.1
  assert config.model.dropout_rate == 0
  assert config.objective.label_smoothing == 0.1


def studied():
  """(file, arguments) of what the studies of the paper's appendix vary."""
  yield from (
    ("selfsupervised", f"target={t}") for t in ("pixels", "colours_4x4")
  )
  kinds = ("learned_1d", "learned_2d", "relative")
  places = ("stem", "every_layer", "every_layer_shared")
  yield "ablation_posembed", "kind=none"
  for kind, place in itertools.product(kinds, places):
    yield "ablation_posembed", f"kind={kind},at={place}"
  yield "ablation_head", "pool=gap"
  yield "ablation_optimizer", "optimizer=sgd"
  yield "ablation_data", "model=b/32,images=9M"
  yield "ablation_data", "model=R50x1,images=90M"
  yield "resnet", "dataset=cifar10"
  yield "resnet", "data=i1k"
  yield "pretrain", "model=R50+B/16,data=jft"
  shape = runpy.run_path(str(file("ablation_shape")))["GRID"]
  for key, values in shape.items():
    yield from (("ablation_shape", f"{key}={value}") for value in values)


STUDIED = list(studied())


@pytest.mark.parametrize(("name", "arguments"), STUDIED)
def test_every_study_passes_all_checks(name, arguments):
  checks.check(load(file(name), arguments))
  checks.check(load(file(name), f"{arguments},smoke"))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
  ("name", "arguments"),
  # Small, all shapes are one.
  [study for study in STUDIED if study[0] != "ablation_shape"],
)
def test_every_study_has_a_smoke_run(name, arguments, tmp_path):
  assert train(load(file(name), f"{arguments},smoke"), str(tmp_path)) == 0


FOLDER = [p for p in FILES if p.stem == "finetune_folder"][0]


def test_a_folder_is_finetuned_with_other_settings_than_from_scratch():
  built = experiment_file.load(str(FOLDER), None)
  scratch = resolve.resolve(built)
  built.init_from = "B_16.npz"
  tuned = resolve.resolve(built)
  assert scratch.model_from_init and tuned.model_from_init
  assert tuned.init_without == ("head/.*",)
  assert (tuned.optimizer.name, scratch.optimizer.name) == ("sgd", "adamw")
  assert tuned.total_steps < scratch.total_steps
  for config in (scratch, tuned):
    assert config.schedule.base_lr in config.sweep.learning_rates


def test_numbers_are_learned_from_a_csv_file_with_the_same_settings():
  plain, config = load(FOLDER), load(FOLDER, "regression")
  checks.check(config)
  assert config.objective.predicts_numbers
  assert config.train.dataset.startswith("csv:")
  assert config.evals["test"].type == "regression"
  for section in ("model", "optimizer", "schedule"):
    assert getattr(config, section) == getattr(plain, section)


def test_any_config_predicts_numbers_by_its_keys():
  built = experiment_file.load(str(file("quickstart")), None)
  built.objective.update(loss="mae", mixup_alpha=0.0)
  built.evals.test.type = "regression"
  built.train.dataset = "csv:ages.csv"
  checks.check(resolve.resolve(built))


@pytest.mark.parametrize(
  ("model", "epochs", "rate", "layer_decay", "drop_rate"),
  [
    ("B", 100, 5e-4, 0.65, 0.1),
    ("L", 50, 1e-3, 0.75, 0.2),
    ("H", 50, 1e-3, 0.75, 0.3),
  ],
)
def test_masked_autoencoders_are_trained_as_published(
  model, epochs, rate, layer_decay, drop_rate
):
  """PRETRAIN.md, FINETUNE.md and main_*.py of facebookresearch/mae."""
  config = load(file("mae"), f"model={model}")
  assert (config.total_epochs, config.train.batch_size) == (800, 4096)
  assert config.schedule.base_lr == pytest.approx(1.5e-4 * 4096 / 256)
  assert config.schedule.warmup_steps == "40 epochs"
  optimizer = config.optimizer
  assert (optimizer.b1, optimizer.b2, optimizer.weight_decay) == (
    *(0.9, 0.95),
    0.05,
  )
  assert optimizer.grad_clip_norm is None
  tuned = load(file("mae"), f"model={model},phase=finetune")
  assert (tuned.total_epochs, tuned.train.batch_size) == (epochs, 1024)
  assert tuned.schedule.base_lr == pytest.approx(rate * 1024 / 256)
  assert (tuned.schedule.warmup_steps, tuned.schedule.end_lr) == (
    "5 epochs",
    1e-6,
  )
  assert tuned.optimizer.layer_decay == layer_decay
  assert tuned.model.stochastic_depth_rate == drop_rate
  objective = tuned.objective
  assert (objective.mixup_alpha, objective.cutmix_alpha) == (0.8, 1.0)
  assert (objective.erase_probability, objective.label_smoothing) == (0.25, 0.1)
  assert tuned.model.pool == "gap" and tuned.model.norm_after_pool


@pytest.mark.parametrize(
  "arguments, epochs, base_lr, decay, rate, size, optimizer",
  [
    ("model=Ti", 300, 9.375e-4, 0.05, 0.1, 224, "adamw"),
    ("model=B,distilled", 300, 9.375e-4, 0.05, 0.1, 224, "adamw"),
    ("model=B,phase=finetune384", 30, 5e-6, 1e-8, 0.1, 384, "adamw"),
    ("recipe=deit3,model=S", 800, 4e-3, 0.05, 0.05, 224, "lamb"),
    ("recipe=deit3,model=B", 800, 3e-3, 0.05, 0.2, 192, "lamb"),
    ("recipe=deit3,model=H", 800, 3e-3, 0.05, 0.6, 154, "lamb"),
    (
      "recipe=deit3,model=L,phase=finetune224",
      *(20, 1e-5, 0.1, 0.45, 224, "adamw"),
    ),
    ("recipe=deit3,model=S,phase=finetune384", 20, 1e-5, 0.1, 0, 384, "adamw"),
    ("recipe=deit3,model=H,phase=i21k", 90, 1e-3, 0.02, 0.5, 126, "lamb"),
    (
      "recipe=deit3,model=B,phase=i21k_to_i1k",
      *(50, 3e-4, 0.02, 0.15, 224, "lamb"),
    ),
  ],
)
def test_deits_are_trained_as_published(
  arguments, epochs, base_lr, decay, rate, size, optimizer
):
  """README.md, main.py and README_revenge.md of facebookresearch/deit."""
  config = load(file("deit"), arguments)
  checks.check(config)
  assert config.total_epochs == epochs
  assert config.schedule.base_lr == pytest.approx(base_lr)
  assert config.optimizer.name == optimizer
  assert config.optimizer.weight_decay == decay
  # FusedLAMB clips by itself.
  assert config.optimizer.grad_clip_norm == (
    1.0 if optimizer == "lamb" else None
  )
  assert config.model.weight_init == "deit"
  assert config.schedule.warmup_steps == "5 epochs"
  # timm's create_scheduler counts the cosine from the first epoch.
  schedule = config.schedule
  assert schedule.decay == "constant" or not schedule.warmup_prefix
  assert ("val" in config.evals) == ("phase=i21k" not in arguments.split(","))
  model, objective = config.model, config.objective
  assert (model.stochastic_depth_rate, model.image_size) == (rate, size)
  assert model.normalize == "imagenet" and model.gelu == "exact"
  is_third = "deit3" in arguments
  of_scratch = is_third and epochs == 800
  assert (model.layer_scale is not None) == is_third
  assert objective.loss == ("sigmoid_mean" if of_scratch else "softmax")
  assert objective.binarize_targets == of_scratch
  assert objective.label_smoothing == (0.0 if of_scratch else 0.1)
  assert objective.mixup_alpha == (0.0 if "i21k" in arguments else 0.8)
  assert objective.cutmix_alpha == 1.0
  assert objective.erase_probability == (0.0 if is_third else 0.25)
  assert config.train.repeats == (3 if of_scratch or not is_third else 1)
  assert (config.init_from is None) == (epochs >= 90)
  if "val" in config.evals:
    # --eval-crop-ratio is 0.875 by default and 1.0 in DeiT III's commands.
    scale = re.search(r"scale=([\d.]+)", config.evals["val"].preprocess)[1]
    whole = int(size / (1.0 if is_third else 0.875))
    assert int(float(scale) * size) == whole


@pytest.mark.parametrize(
  "arguments, words",
  [
    ("model=B,teacher=runs/x", "add distilled"),
    ("recipe=deit3,model=S,phase=finetune224", "only of B, L, H"),
    ("recipe=deit3,model=S,phase=tune", "finetune224, finetune384"),
    ("recipe=deit3,model=S,distilled", "no distillation token"),
    ("model=B,phase=i21k", "known are pretrain, finetune384"),
  ],
)
def test_deits_without_a_recipe_are_answered(arguments, words):
  with pytest.raises(UserError, match=words):
    load(file("deit"), arguments)


def test_the_plain_baseline_is_that_of_big_vision():
  """vit_s16_i1k.py."""
  config = load(file("augreg"))
  checks.check(config)
  assert (config.total_epochs, config.train.batch_size) == (90, 1024)
  assert "randaug(2, 10)" in config.train.preprocess
  model, objective = config.model, config.objective
  assert (model.variant, model.pool) == ("S/16", "gap")
  assert model.pos_embedding == "sincos2d"
  assert (objective.loss, objective.mixup_alpha) == ("softmax", 0.2)
  optimizer, schedule = config.optimizer, config.schedule
  assert optimizer.weight_decay * schedule.base_lr == pytest.approx(1e-4)
  assert (optimizer.mu_dtype, optimizer.grad_clip_norm) == ("bfloat16", 1.0)
  assert (schedule.base_lr, schedule.warmup_steps) == (1e-3, 10_000)


@pytest.mark.parametrize(
  "arguments, randaug, mixup, bias",
  [
    ("model=Ti/16", "randaug(2, 0)", 0.0, -6.9),
    ("model=S/32", "randaug(2, 15)", 0.2, -6.9),
    ("model=L/16", "randaug(2, 15)", 0.5, -6.9),
    ("model=B/16,aug=strong2,reg=0.1", "randaug(2, 20)", 0.8, -6.9),
    ("model=S/32,data=i21k", "", 0.0, -10.0),
    ("model=B/16,data=i21k", "randaug(2, 10)", 0.2, -10.0),
  ],
)
def test_augmented_vits_are_those_of_big_vision(
  arguments, randaug, mixup, bias
):
  """vit_i1k.py and vit_i21k.py."""
  config = load(file("augreg"), f"recipe=augreg,{arguments}")
  checks.check(config)
  assert (config.total_epochs, config.train.batch_size) == (300, 4096)
  assert randaug in config.train.preprocess
  assert ("randaug" in config.train.preprocess) == bool(randaug)
  assert (config.objective.loss, config.objective.mixup_alpha) == (
    "sigmoid",
    mixup,
  )
  assert config.model.head_bias_init == bias
  rate = 0.1 if "reg" in arguments else 0.0
  assert config.model.dropout_rate == rate
  assert config.model.stochastic_depth_rate == rate


@pytest.mark.parametrize(
  ("model", "unit_prototypes"),
  [("S/16", False), ("S/8", False), ("B/16", True), ("B/8", True)],
)
def test_dino_is_trained_as_released(model, unit_prototypes):
  """main_dino.py and README.md of facebookresearch/dino."""
  config = load(file("dino"), f"model={model}")
  checks.check(config)
  assert config.objective.unit_prototypes == unit_prototypes
  assert config.objective.prototypes == 65_536
  assert config.model.weight_init == "deit"
  assert config.schedule.base_lr == pytest.approx(5e-4 * 1024 / 256)
  assert (config.schedule.warmup_steps, config.schedule.end_lr) == (
    "10 epochs",
    1e-6,
  )
  optimizer = config.optimizer
  assert optimizer.weight_decay == "cosine(0.04, 0.4)"
  assert (optimizer.grad_clip, optimizer.grad_clip_norm) == ("parameter", 3)
  blurs = {
    name: view.preprocess.partition("gaussian_blur(p=")[2].partition(")")[0]
    for name, view in config.train.views.items()
  }
  assert blurs == {"global_1": "1.0", "global_2": "0.1", "local": "0.5"}
  assert (
    config.train.views["local"].count,
    config.train.views["local"].size,
  ) == (
    8,
    96,
  )
  solarized = [
    v for v in config.train.views.values() if "solarize" in v.preprocess
  ]
  assert solarized == [config.train.views["global_2"]]


def steps_of(config, duration):
  """Updates of a duration in the run of a config."""
  return durations.parse(duration).to_steps(
    batch_size=1, num_examples=None, total_steps=config.total_steps
  )


@pytest.mark.parametrize(
  ("model", "epochs", "warmup", "rate", "decay", "momentum"),
  [
    ("L/16", 100, 10, 4e-3 * 2**0.5, 0.4, 0.992),
    ("L/14", 500, 80, 2e-4 * 3**0.5, 0.2, 0.994),
    ("g/14", 500, 80, 2e-4 * 3**0.5, 0.2, 0.994),
  ],
)
def test_dinov2_is_trained_as_released(
  model, epochs, warmup, rate, decay, momentum
):
  """configs/train and ssl_default_config.yaml of facebookresearch/dinov2."""
  config = load(file("dinov2"), f"model={model}")
  checks.check(config)
  assert config.total_steps == epochs * 1250
  assert steps_of(config, config.schedule.warmup_steps) == warmup * 1250
  assert steps_of(config, config.optimizer.freeze_until[0][1]) == 1250
  temperature = scalars.parse(config.objective.teacher_temperature)
  assert (temperature.first, temperature.last) == (0.04, 0.07)
  assert steps_of(config, temperature.over) == 30 * 1250
  assert config.schedule.base_lr == pytest.approx(rate)
  optimizer, objective = config.optimizer, config.objective
  assert optimizer.weight_decay == f"cosine(0.04, {decay})"
  assert (optimizer.grad_clip, optimizer.grad_clip_norm) == ("module", 3)
  assert objective.teacher_momentum == f"cosine({momentum}, 1.0)"
  assert objective.separate_patch_head == (model != "L/16")
  assert not objective.unit_prototypes
  assert config.model.weight_init == "dinov2"
  assert objective.prototypes == (65_536 if model == "L/16" else 131_072)
  assert optimizer.freeze_until_mode == "zero_rate"
  # Of 64 crops on a GPU, int(64 * 0.6) = 38; of 128, int(128 * 0.7) = 89; of
  # 24, int(24 * 0.6) = 14.
  images = {"L/16": 64, "L/14": 32, "g/14": 12}[model]
  assert objective.group == images
  kept, of = {64: (89, 128), 32: (38, 64), 12: (14, 24)}[images]
  group = config.model.stochastic_depth_group
  found = int(group * (1 - config.model.stochastic_depth_rate)) / group
  assert found == pytest.approx(kept / of, abs=0.01)
  if model == "L/14":
    # (int(4096 * 2 / 3) + 7) // 8 * 8 of dinov2's SwiGLUFFNFused.
    assert (config.model.mlp, config.model.mlp_dim) == ("swiglu", 2736)
  if model == "g/14":
    found = cost.num_params(config.model, num_classes=None)
    # Of 16 x 16 patches in place of 37 x 37.
    assert found + (37**2 - 16**2) * 1536 == 1_136_479_232


def test_dinov3_differs_from_dinov2_on_imagenet_as_released():
  """vitl_im1k_lin834.yaml, vision_transformer.py and dino_head.py of dinov3."""
  config = load(file("dinov2"), "model=L/16,recipe=dinov3")
  before = load(file("dinov2"), "model=L/16")
  checks.check(config)
  for section in ("optimizer", "schedule", "train", "evals", "checkpoint"):
    assert getattr(config, section) == getattr(before, section)
  assert config.total_steps == before.total_steps
  model, objective = config.model, config.objective
  assert model == before.model.updated(
    pos_embedding="none",
    rope=True,
    rope_base=100.0,
    rope_coordinates="unit",
    weight_init="deit",
  )
  assert objective.separate_patch_head and objective.centering == "sinkhorn"
  assert (objective.bottleneck, objective.patch_bottleneck) == (256, 256)
  assert not (objective.weight_norm or objective.unit_prototypes)
  assert (
    objective.model_copy(
      update={
        "separate_patch_head": False,
        "centering": "mean",
        "weight_norm": True,
      }
    )
    == before.objective
  )
  with pytest.raises(UserError, match="recipe=dinov3.*model=L/14.*L/16"):
    load(file("dinov2"), "model=L/14,recipe=dinov3")


@pytest.mark.parametrize(
  "arguments", ["model=L/16", "model=L/16,recipe=dinov3", "model=g/14"]
)
def test_dinov2_shrinks_to_a_grid_with_room_for_blocks(arguments):
  config = load(file("dinov2"), f"{arguments},smoke")
  side, patch = config.model.image_size, 14 if "g/14" in arguments else 16
  assert side // patch == 4 and config.objective.mask_ratio == (0.1, 0.5)
  assert f"size={side}," in config.train.dataset


def test_dinov2_ends_with_a_phase_of_high_resolution():
  config = load(file("dinov2"), "model=g/14,phase=high_resolution")
  checks.check(config)
  before = load(file("dinov2"), "model=g/14")
  assert (config.total_steps, config.model.image_size) == (10_000, 518)
  assert config.schedule.base_lr == before.schedule.base_lr
  # 80, 1 and 30 of 500 epochs.
  assert steps_of(config, config.schedule.warmup_steps) == 1600
  assert steps_of(config, config.optimizer.freeze_until[0][1]) == 20
  temperature = scalars.parse(config.objective.teacher_temperature)
  assert (temperature.first, temperature.last) == (0.04, 0.07)
  assert steps_of(config, temperature.over) == 600
  with pytest.raises(UserError, match="L/14, g/14"):
    load(file("dinov2"), "model=L/16,phase=high_resolution")


@pytest.mark.parametrize("model", ["S/14", "B/14", "L/14"])
def test_dinov2_is_distilled_as_in_the_paper(model, tmp_path):
  arguments = f"model={model},phase=distill"
  config = load(file("dinov2"), f"{arguments},teacher={tmp_path}")
  checks.check(config)
  assert config.objective.teacher == str(tmp_path)
  assert config.total_steps == 625_000
  assert (config.train.batch_size, config.schedule.base_lr) == (2048, 1e-3)
  assert steps_of(config, config.schedule.warmup_steps) == 100_000
  assert config.optimizer.weight_decay == "cosine(0.04, 0.2)"
  assert config.objective.teacher_momentum == "cosine(0.994, 1.0)"
  assert config.objective.mask_probability == 0
  assert config.objective.patches == "all"
  assert (config.model.mlp, config.model.stochastic_depth_rate) == ("gelu", 0)
  with pytest.raises(UserError, match="teacher is not set"):
    load(file("dinov2"), arguments)
  with pytest.raises(UserError, match="teacher = .* is of phase=distill"):
    load(file("dinov2"), f"model=g/14,teacher={tmp_path}")


@pytest.mark.parametrize(
  ("model", "clip", "epochs", "warmup", "rate", "layer_decay"),
  [("B", 3, 100, 20, 4e-3, 0.65), ("L", 1, 50, 5, 1e-3, 0.75)],
)
def test_beit_is_trained_as_published(
  model, clip, epochs, warmup, rate, layer_decay
):
  """The paper and the README.md of microsoft/unilm, beit."""
  config = load(file("beit"), f"model={model}")
  checks.check(config)
  assert (config.total_epochs, config.train.batch_size) == (800, 2048)
  assert (config.schedule.base_lr, config.schedule.end_lr) == (1.5e-3, 1e-5)
  assert config.schedule.warmup_steps == "10 epochs"
  optimizer, objective = config.optimizer, config.objective
  assert (optimizer.b2, optimizer.weight_decay) == (0.999, 0.05)
  assert optimizer.grad_clip_norm == clip
  assert (objective.masked_patches, objective.smallest_block) == (75, 16)
  assert config.model.stochastic_depth_rate == 0.1
  assert config.model.normalize == "imagenet"
  tuned = load(file("beit"), f"model={model},phase=finetune")
  checks.check(tuned)
  assert (tuned.total_epochs, tuned.train.batch_size) == (epochs, 1024)
  assert tuned.schedule.base_lr == rate
  assert tuned.schedule.warmup_steps == f"{warmup} epochs"
  assert tuned.optimizer.layer_decay == layer_decay
  assert (tuned.optimizer.weight_decay, tuned.optimizer.b2) == (0.05, 0.999)
  assert tuned.model.layer_scale == (0.1 if model == "B" else 1e-5)
  assert tuned.model.stochastic_depth_rate == (0.1 if model == "B" else 0.2)
  assert tuned.model.norm_after_pool and tuned.model.pool == "gap"
  assert (tuned.objective.mixup_alpha, tuned.objective.cutmix_alpha) == (0.8, 1)
  # timm fills with the pixels' mean.
  assert "randaug(2, 9, 0.5, True)" in tuned.train.preprocess


@pytest.mark.parametrize(
  ("model", "phase", "batch", "rate", "layer_decay", "drop", "decay", "clip"),
  [
    ("B", "labels22k", 4096, 3e-3, 0.65, 0.2, 0.05, 3),
    ("L", "labels22k", 2048, 2e-3, 0.75, 0.2, 0.05, 1),
    ("B", "finetune22k", 512, 2e-5, 0.85, 0.1, 1e-8, None),
    ("L", "finetune22k,image_size=512", 512, 2e-5, 0.9, 0.4, 1e-8, None),
  ],
)
def test_published_beits_are_tuned_as_released(
  model, phase, batch, rate, layer_decay, drop, decay, clip
):
  """README.md and get_started_for_image_classification.md of unilm, beit."""
  config = load(file("beit"), f"model={model},phase={phase}")
  checks.check(config)
  is_first = phase == "labels22k"
  assert config.train.dataset == ("imagenet21k" if is_first else "imagenet2012")
  assert config.total_epochs == (90 if is_first else 30)
  assert config.train.batch_size == batch
  assert (config.schedule.base_lr, config.schedule.end_lr) == (rate, 1e-6)
  assert config.schedule.warmup_steps == "5 epochs"
  assert config.optimizer.layer_decay == layer_decay
  assert config.optimizer.weight_decay == decay
  assert config.optimizer.grad_clip_norm == clip
  assert config.model.stochastic_depth_rate == drop
  assert config.model.normalize == "minus_one_to_one"
  assert ", True, fill=[128, 128, 128])" in config.train.preprocess
  objective = config.objective
  assert (objective.mixup_alpha, objective.cutmix_alpha) == (0, 0)
  assert (objective.label_smoothing, objective.erase_probability) == (0.1, 0.25)
  checks.check(load(file("beit"), f"model={model},phase={phase},smoke"))


def test_published_beits_are_pretrained_as_released():
  config = load(file("beit"), "phase=pretrain22k")
  checks.check(config)
  assert (config.train.dataset, config.total_epochs) == ("imagenet21k", 150)
  assert config.schedule.warmup_steps == 10_000
  assert config.model.normalize == "minus_one_to_one"
  assert load(file("beit"), "epochs=300").total_epochs == 300
  with pytest.raises(UserError, match="image_size = 384 is of phase="):
    load(file("beit"), "phase=finetune,image_size=384")


@pytest.mark.parametrize(
  ("model", "epochs", "drop", "b2", "early"),
  [
    ("B", 1600, 0.1, 0.999, 9),
    ("L", 1600, 0.1, 0.999, 21),
    ("B", 300, 0.0, 0.98, 9),
  ],
)
def test_beit_v2_is_pretrained_as_released(model, epochs, drop, b2, early):
  """PRETRAINING.md of microsoft/unilm, beit2."""
  arguments = f"version=2,model={model}"
  if epochs == 300:
    arguments += ",epochs=300"
  config = load(file("beit"), arguments)
  checks.check(config)
  assert (config.total_epochs, config.train.batch_size) == (epochs, 2048)
  assert (config.schedule.base_lr, config.schedule.end_lr) == (1.5e-3, 1e-5)
  assert config.schedule.warmup_steps == "10 epochs"
  optimizer, objective = config.optimizer, config.objective
  assert (optimizer.b2, optimizer.weight_decay) == (b2, 0.05)
  assert optimizer.grad_clip_norm == 3
  assert (objective.masked_patches, objective.smallest_block) == (75, 16)
  assert objective.fill_masks
  assert (objective.head_layers, objective.early_layers) == (2, early)
  assert config.model.stochastic_depth_rate == drop
  assert config.model.layer_scale == (0.1 if model == "B" else 1e-5)
  assert config.model.normalize == "imagenet"
  assert "random_resized_crop(scale=[0.2, 1.0])" in config.train.preprocess
  checks.check(load(file("beit"), f"{arguments},smoke"))


@pytest.mark.parametrize(
  ("arguments", "epochs", "warmup", "batch", "rate", "layer_decay", "drop"),
  [
    ("model=B,phase=finetune", 100, 20, 1024, 5e-4, 0.6, 0.2),
    ("model=B,phase=finetune,epochs=300", 100, 20, 1024, 5e-4, 0.65, 0.1),
    ("model=L,phase=finetune", 50, 5, 1024, 2e-4, 0.8, 0.2),
    ("model=L,phase=finetune,epochs=300", 50, 5, 1024, 5e-4, 0.8, 0.2),
    ("model=B,phase=labels22k", 90, 20, 4096, 6e-4, 0.75, 0.1),
    ("model=L,phase=labels22k", 90, 20, 4096, 6e-4, 0.75, 0.2),
    ("model=B,phase=finetune22k", 30, 20, 1024, 5e-5, 0.75, 0.1),
    ("model=L,phase=finetune22k", 20, 5, 1024, 7e-5, 0.8, 0.25),
  ],
)
def test_beit_v2_is_tuned_as_released(
  arguments, epochs, warmup, batch, rate, layer_decay, drop
):
  """get_started_for_image_classification.md of microsoft/unilm, beit2."""
  config = load(file("beit"), f"version=2,{arguments}")
  checks.check(config)
  assert (config.total_epochs, config.train.batch_size) == (epochs, batch)
  assert config.schedule.warmup_steps == f"{warmup} epochs"
  assert (config.schedule.base_lr, config.schedule.end_lr) == (rate, 1e-6)
  assert config.optimizer.layer_decay == layer_decay
  assert config.optimizer.weight_decay == 0.05
  assert config.optimizer.grad_clip_norm is None
  assert config.model.stochastic_depth_rate == drop
  assert config.model.normalize == "imagenet"
  mixed = (0, 0) if "finetune22k" in arguments else (0.8, 1)
  objective = config.objective
  assert (objective.mixup_alpha, objective.cutmix_alpha) == mixed


def test_vqkd_is_trained_as_released(tmp_path):
  """TOKENIZER.md and run_vqkd_training.py of microsoft/unilm, beit2."""
  arguments = f"version=2,phase=tokenizer,teacher={tmp_path}"
  config = load(file("beit"), arguments)
  checks.check(config)
  assert (config.total_epochs, config.train.batch_size) == (100, 512)
  # 5e-5 for 128 images.
  assert config.schedule.base_lr == pytest.approx(2e-4)
  assert config.schedule.end_lr == 1e-5
  assert config.schedule.warmup_steps == "10 epochs"
  optimizer, objective = config.optimizer, config.objective
  assert (optimizer.b1, optimizer.b2) == (0.9, 0.99)
  assert (optimizer.weight_decay, optimizer.grad_clip_norm) == (1e-4, None)
  assert (objective.tokens, objective.code_width) == (8192, 32)
  assert (objective.code_momentum, objective.decoder_depth) == (0.99, 3)
  assert objective.teacher == str(tmp_path)
  assert config.model.normalize == "minus_one_to_one"
  assert not config.model.key_bias and config.model.gelu == "exact"
  assert "random_resized_crop|" in config.train.preprocess
  checks.check(load(file("beit"), "version=2,phase=tokenizer,smoke"))


@pytest.mark.parametrize(
  ("arguments", "words"),
  [
    ("version=3", 'version = "3" is not known'),
    ("phase=tokenizer", 'phase = "tokenizer" is not known'),
    ("version=2,teacher=x", "teacher = 'x' is of version=2,phase=tokenizer"),
    ("version=2,phase=pretrain22k", 'phase = "pretrain22k" is not known'),
    ("phase=finetune,epochs=300", "epochs = 300 is of phase=pretrain"),
    ("version=2,phase=tokenizer,model=L", 'model = "L" is not known'),
    ("version=2,phase=finetune22k,image_size=384", "image_size = 384 is of"),
  ],
)
def test_recipes_that_no_beit_has_are_refused(arguments, words):
  with pytest.raises(UserError, match=words):
    load(file("beit"), arguments)


def test_images_of_384_pixels_are_evaluated_whole():
  small = load(file("beit"), "phase=finetune22k").evals["val"]
  large = load(file("beit"), "phase=finetune22k,image_size=384").evals["val"]
  assert "scale=1.14286" in small.preprocess
  assert "scale=1," in large.preprocess


@pytest.mark.parametrize(
  ("model", "epochs", "batch_size", "rate", "parameters"),
  [
    # Of timm's eva02_*_patch14_224, in millions.
    ("Ti", 240, 4000, 3e-3, 5.50),
    ("S", 240, 4000, 3e-3, 21.62),
    ("B", 150, 2048, 1.5e-3, 85.77),
    ("L", 150, 2048, 1.5e-3, 303.27),
  ],
)
def test_eva02_is_pretrained_as_released(
  model, epochs, batch_size, rate, parameters
):
  """README.md and run_eva_pretraining.py of baaivision/EVA, EVA-02/asuka."""
  config = load(file("eva02"), f"model={model},teacher=random")
  checks.check(config)
  assert (config.total_epochs, config.train.batch_size) == (epochs, batch_size)
  assert config.schedule.base_lr == rate
  assert config.schedule.warmup_steps == "1 epochs"
  optimizer, objective = config.optimizer, config.objective
  assert (optimizer.b2, optimizer.eps) == (0.98, 1e-6)
  assert (optimizer.weight_decay, optimizer.grad_clip_norm) == (0.05, 3)
  assert (objective.masked_patches, objective.smallest_block) == (105, 16)
  assert objective.embedding_gradient == 0.1
  assert config.model.normalize == "clip"
  assert config.model.stochastic_depth_rate == (0.1 if model == "L" else 0)
  found = cost.num_params(config.model, num_classes=None) / 1e6
  assert found == pytest.approx(parameters, abs=0.02)


@pytest.mark.parametrize(
  ("model", "size", "epochs", "rate", "layer_decay"),
  [
    ("Ti", 336, 100, 2e-4, 0.9),
    ("S", 336, 100, 1e-4, 0.8),
    ("B", 448, 30, 1e-4, 0.7),
    ("L", 448, 30, 5e-5, 0.8),
  ],
)
def test_eva02_is_finetuned_as_released(model, size, epochs, rate, layer_decay):
  """README.md of baaivision/EVA, EVA-02/asuka."""
  config = load(file("eva02"), f"model={model},phase=finetune")
  checks.check(config)
  checks.check(load(file("eva02"), f"model={model},phase=finetune,smoke"))
  assert (config.model.image_size, config.total_epochs) == (size, epochs)
  assert config.schedule.base_lr == rate
  assert config.train.batch_size == 1024
  optimizer, objective = config.optimizer, config.objective
  assert (optimizer.layer_decay, optimizer.b2) == (layer_decay, 0.999)
  assert optimizer.freeze == "embedding/.*"
  assert (objective.mixup_alpha, objective.cutmix_alpha) == (0, 0)
  assert objective.erase_probability == 0
  assert objective.label_smoothing == (0.2 if model == "L" else 0.1)
  assert config.ema_decay == (0.9999 if model == "L" else None)
  assert config.ema_warmup == (model != "L")
  # 255 times CLIP's means.
  assert ", True, fill=[123, 117, 104])" in config.train.preprocess
  assert config.model.norm_after_pool and config.model.pool == "gap"


@pytest.mark.parametrize(
  ("model", "phase", "epochs", "batch", "rate", "layer_decay", "drop"),
  [
    ("B", "labels21k", 40, 2048, 3e-4, 0.7, 0.1),
    ("L", "labels21k", 20, 1024, 2e-4, 0.75, 0.15),
    ("B", "finetune21k", 15, 512, 5e-5, 0.8, 0.15),
    ("L", "finetune21k", 20, 512, 2e-5, 0.85, 0.15),
  ],
)
def test_eva02_learns_the_labels_of_imagenet_21k_first_as_released(
  model, phase, epochs, batch, rate, layer_decay, drop
):
  """README.md of baaivision/EVA, EVA-02/asuka."""
  config = load(file("eva02"), f"model={model},phase={phase}")
  checks.check(config)
  checks.check(load(file("eva02"), f"model={model},phase={phase},smoke"))
  is_first = phase == "labels21k"
  assert config.train.dataset == ("imagenet21k" if is_first else "imagenet2012")
  assert ("scale=[0.2, 1.0]" in config.train.preprocess) == is_first
  assert list(config.evals) == ([] if is_first else ["val"])
  assert (config.total_epochs, config.train.batch_size) == (epochs, batch)
  assert (config.schedule.base_lr, config.schedule.end_lr) == (rate, 0)
  assert config.schedule.warmup_steps == f"{1 if is_first else 2} epochs"
  assert config.optimizer.layer_decay == layer_decay
  assert config.optimizer.freeze == "embedding/.*"
  assert config.model.image_size == 448
  assert config.model.stochastic_depth_rate == drop
  assert config.objective.label_smoothing == (0.1 if is_first else 0.2)
  assert config.objective.erase_probability == 0
  assert config.ema_decay == (None if is_first else 0.9999)


def test_eva02_of_a_size_without_labels_of_imagenet_21k_is_refused():
  with pytest.raises(UserError, match="phase=finetune21k; it is for B, L."):
    load(file("eva02"), "model=S,phase=finetune21k")


@pytest.mark.parametrize(
  ("blur", "wanted"),
  [("released", ["0.0", "0.9", "0.5"]), ("paper", ["1.0", "0.1", "0.5"])],
)
def test_dinov2s_crops_are_blurred_as_released_or_as_in_the_paper(blur, wanted):
  config = load(file("dinov2"), f"blur={blur}")
  assert [
    view.preprocess.partition("gaussian_blur(p=")[2].partition(")")[0]
    for view in config.train.views.values()
  ] == wanted


@pytest.mark.parametrize(
  "arguments, kinds",
  [
    ("", {"fewshot", "knn", "linear_probe"}),
    ("datasets=folder", {"fewshot", "knn", "linear_probe"}),
    ("datasets=folder+dtd,test_split=val", {"fewshot", "knn", "linear_probe"}),
    ("masks=ADE", {"linear_segmentation"}),
    (
      "masks=ADE,datasets=dtd",
      {"fewshot", "knn", "linear_probe", "linear_segmentation"},
    ),
  ],
)
def test_frozen_features_are_measured_on_images_or_pixels(arguments, kinds):
  for also in ("", ",smoke"):
    path = FILES[0].parent / "frozen_features.py"
    config = load(path, arguments + also)
    checks.check(config)
    assert {entry.type for entry in config.evals.values()} == kinds
    if "linear_segmentation" in kinds:
      (data,) = config.evals["linear_segmentation"].datasets.values()
      assert data.directory == "ADE"


def test_frozen_features_of_a_folder_are_measured_on_the_split_that_is_named():
  path = FILES[0].parent / "frozen_features.py"
  config = load(path, "datasets=folder+dtd,test_split=val")
  for entry in config.evals.values():
    splits = {name: data.test_split for name, data in entry.datasets.items()}
    assert splits == {"folder": "val", "dtd": "test"}
  with pytest.raises(UserError, match="test_split = 'val' is of datasets=fol"):
    load(path, "datasets=dtd,test_split=val")
