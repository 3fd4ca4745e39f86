"""What a misspelt key, or a key of another framework, is answered with."""

import pytest

from vit_jax.config import key_suggestions, resolve, schema

KNOWN = [
  f"config.{key}" for key in resolve.flatten(schema.Config().model_dump())
]
KNOWN += [
  "config.objective.loss",
  "config.objective.mixup_alpha",
  "config.evals.test.split",
  "config.evals.test.l2",
]


@pytest.mark.parametrize(
  ("key", "meant"),
  [
    ("lr", "schedule.base_lr"),
    ("optimizer.learning_rate", "schedule.base_lr"),
    ("train.epochs", "total_epochs"),
    ("max_steps", "total_steps"),
    ("per_device_train_batch_size", "train.batch_size"),
    ("train.img_size", "model.image_size"),
    ("drop_path", "model.stochastic_depth_rate"),
    ("mixup", "objective.mixup_alpha"),
    ("max_grad_norm", "optimizer.grad_clip_norm"),
    ("pretrained", "init_from"),
    ("wandb", "log.to"),
    ("mlflow", "log.to"),
    ("train.trackio", "log.to"),
    ("report_to", "log.to"),
    ("wandb.project", "log.project"),
    ("input.data", "train.dataset"),
    ("run_name", "log.name"),
    ("sampler", "train.sampling"),
    ("train.weighted_sampler", "train.sampling"),
    ("regression", "objective.loss"),
    ("objective.mse", "objective.loss"),
    ("model.hidden_size", "model.width"),
    ("num_hidden_layers", "model.depth"),
    ("model.init_values", "model.layer_scale"),
    ("grad_checkpointing", "model.remat"),
    ("optimizer.betas", "optimizer.b1"),
    ("patience", "early_stopping"),
    ("train.aug_repeats", "train.repeats"),
    # Misspelt.
    ("modle.width", "model.width"),
    ("mehs.data", "mesh.data"),
    ("schedule.base_rl", "schedule.base_lr"),
    ("tortal_steps", "total_steps"),
    ("batchsize", "train.batch_size"),
    ("evals.test.splt", "evals.test.split"),
    ("widht", "model.width"),
  ],
)
def test_names_of_other_frameworks_and_misspelt_ones_lead_to_ours(key, meant):
  found = key_suggestions.nearest(f"config.{key}", KNOWN)
  assert found == f"config.{meant}"


@pytest.mark.parametrize("key", ["notes", "zzz", "evals.test.zzz"])
def test_what_is_like_no_key_has_no_suggestion(key):
  assert key_suggestions.nearest(f"config.{key}", KNOWN) is None


@pytest.mark.parametrize(
  ("key", "section", "some"),
  [
    ("mesh.zzz", "config.mesh", ["data", "fsdp", "tensor", "rules"]),
    ("train.zzz.qqq", "config.train", ["batch_size", "dataset"]),
    ("evals.test.zzz", "config.evals.test", ["split"]),
    ("evals.zzz.qqq", "config.evals", ["test.*"]),
    ("zzz", "config", ["total_steps", "train.*", "model.*"]),
  ],
)
def test_what_is_like_no_key_is_answered_with_those_of_its_section(
  key, section, some
):
  said = key_suggestions.unknown(f"config.{key}", 7, KNOWN)
  start = f'Unknown key "config.{key}" (7). Keys of {section}: '
  assert said.startswith(start)
  inside = said.removeprefix(start).removesuffix(".").split(", ")
  assert set(some) <= set(inside) and len(set(inside)) == len(inside)


def test_every_name_of_ours_exists():
  missing = {
    name
    for name in key_suggestions.OURS.values()
    if f"config.{name}" not in KNOWN and not name.startswith("objective.")
  }
  assert not missing
