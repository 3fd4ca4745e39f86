"""Whether a run may go on."""

import pytest

from tests import experiments
from vit_jax.checkpoint import resume
from vit_jax.config import defaults, named_sections
from vit_jax.errors import UserError

VERSIONS = {"jax": "1", "python": "3"}


def metadata(fingerprint="digits", versions=VERSIONS, **changes):
  return resume.metadata(
    experiments.config(**changes), fingerprint=fingerprint, versions=versions
  )


SAVED = metadata()


def check(saved=SAVED, **changes):
  resume.check_same(
    saved,
    metadata(**changes),
    allow_change=changes.get("allow_change", ""),
    workdir="runs/x",
  )


@pytest.mark.parametrize(
  "changes",
  [
    {},
    {"log_every_steps": 7},
    {"checkpoint__every_steps": 5, "checkpoint__keep_last": 9},
    {"mesh__fsdp": 2},
    {"data_dir": "/another/disk"},
    {"log__to": ("wandb",), "log__name": "again"},
    {"evals__test__every_steps": 1},
    {"evals": {}},
    {"paper_row__cells": ("5::cifar10=eval/test/top1",)},
    {"seed": 1, "total_steps": 9, "allow_change": "seed, config.total_steps"},
    {"total_steps": 9, "max_epochs": 3.0, "allow_change": "total_steps"},
    {"total_steps": None, "total_epochs": 3.0, "allow_change": "total_epochs"},
    {"versions": {"jax": "2"}, "allow_change": "versions"},
    {"versions": VERSIONS | {"jax": "2"}, "allow_change": "versions.jax"},
    {"model__width": 64, "model__depth": 1, "allow_change": "model"},
    {"fingerprint": "cats", "allow_change": "dataset_fingerprint"},
  ],
)
def test_free_and_allowed_keys_may_change(changes):
  check(**changes)


@pytest.mark.parametrize(
  ("changes", "line"),
  [
    ({"seed": 1}, "seed: was 0, is 1"),
    ({"optimizer__name": "sgd"}, 'optimizer.name: was "adamw", is "sgd"'),
    ({"ema_decay": 0.9}, "ema_decay: was unset, is 0.9"),
    ({"model__width": 64}, "model.width: was 32, is 64"),
    ({"fingerprint": "cats"}, 'dataset_fingerprint: was "digits", is "cats"'),
    (
      {"versions": VERSIONS | {"jax": "2"}},
      'versions.jax: was "1", is "2"',
    ),
    ({"versions": {"jax": "1"}}, 'versions.python: was "3", is unset'),
    ({"seed": 1, "allow_change": "see"}, "seed: was 0, is 1"),
  ],
)
def test_any_other_key_is_named_with_both_values(changes, line):
  with pytest.raises(UserError) as error:
    check(**changes)
  assert line in str(error.value)
  key = line.partition(":")[0]
  assert f"--config.allow_change={key}" in str(error.value)


def test_what_the_starts_of_a_run_changed_is_kept():
  now = metadata(seed=1, log_every_steps=7, allow_change="seed")
  assert resume.changed(SAVED, SAVED) == []
  assert resume.changed(SAVED, now) == ["seed"]
  # The next start, with the seed of the second and without allow_change.
  saved = now | {resume.CHANGED: ["seed"]}
  assert resume.changed(saved, metadata(seed=1)) == ["seed"]
  wider = metadata(seed=1, model__dropout_rate=0.1)
  assert resume.changed(saved, wider) == ["model.dropout_rate", "seed"]


def test_changed_keys_of_evaluators_that_affect_metrics_are_kept():
  new = defaults.default_eval(type="classification", split="train")
  now = metadata(
    evals__test__split="train", evals__test__every_steps=1, evals__new=new
  )
  assert resume.differences(SAVED, now) == []
  assert resume.changed(SAVED, now) == ["evals.test.split"]
  assert resume.changed_evaluators(SAVED, now) == [
    'evals.test.split: was "test", is "train"'
  ]
  assert resume.changed_evaluators(SAVED, metadata(evals={})) == []
  # A run that is over is described with its new evaluators and its old seed.
  both = metadata(seed=1, evals__test__split="train", allow_change="seed")
  assert resume.changed(SAVED, both, is_over=True) == ["evals.test.split"]


def test_other_data_in_another_directory_are_refused_with_both_places():
  with pytest.raises(UserError) as error:
    check(fingerprint="cats", data_dir="/another/disk")
  message = str(error.value)
  assert 'dataset_fingerprint: was "digits", is "cats"' in message
  assert 'config.data_dir was unset, is "/another/disk"' in message
  assert message.endswith("--config.allow_change=dataset_fingerprint.")


def test_other_data_in_the_same_directory_say_what_going_on_costs():
  with pytest.raises(UserError, match="some examples come twice, others not"):
    check(fingerprint="cats")


def test_all_keys_that_differ_are_named_at_once():
  with pytest.raises(UserError, match="allow_change=model.width,seed"):
    check(seed=1, model__width=64)


def test_the_advice_keeps_what_is_allowed_already():
  with pytest.raises(UserError, match=r"allow_change=seed,model\.width\.$"):
    check(seed=1, model__width=64, allow_change="seed")


@pytest.mark.parametrize("allow_change", ["", "model.width"])
def test_no_key_is_offered_where_the_saved_state_has_no_place(allow_change):
  with pytest.raises(UserError) as error:
    resume.check_same(
      SAVED,
      metadata(model__width=64),
      allow_change=allow_change,
      workdir="runs/x",
      misfits="its parameters would change (cls was (32,), is (64,))",
    )
  message = str(error.value)
  assert message.endswith(
    "The run in runs/x cannot resume with this config: its parameters would"
    " change (cls was (32,), is (64,)). Begin another with a new --workdir and"
    " --config.init_from=runs/x; what cannot be taken over from it is named in"
    " --config.init_without."
  )
  assert ("model.width: was 32, is 64" in message) == (not allow_change)
  assert "--config.allow_change" not in message


def test_a_key_that_is_newer_than_the_checkpoint_counts_as_its_default():
  older = {**SAVED, "config": dict(SAVED["config"])}
  del older["config"]["ema_decay"]
  check(saved=older)
  with pytest.raises(UserError, match="ema_decay: was unset, is 0.5"):
    check(saved=older, ema_decay=0.5)


@pytest.mark.parametrize(
  ("family", "keys"),
  [
    ("vit", dict(variant="Ti/8")),
    ("convnext", dict(variant="T")),
    ("swin", dict(variant="T")),
    ("pvt", dict(variant="b0")),
    ("resnet", dict(variant="R50x1")),
  ],
)
def test_two_towers_go_on_whatever_the_family_of_their_images(family, keys):
  model = named_sections.section(
    "model", name="two_towers", image_size=64, image={"name": family}, **keys
  )
  config = experiments.config().model_copy(update={"model": model})

  def of(config):
    return resume.metadata(config, fingerprint="x", versions=VERSIONS)

  assert resume.differences(of(config), of(config)) == []
  wider = model.text.model_copy(update={"width": 999})
  changed = config.model_copy(
    update={"model": model.model_copy(update={"text": wider})}
  )
  (line,) = resume.differences(of(config), of(changed))
  assert line.startswith("model.text.width: was ")


@pytest.mark.parametrize(
  "name",
  [
    "",
    "schedule, config.seed,",
    "schedule.base_lr",
    "objective.mask_ratio",
    "model.image.gelu",
    "model.text",
    "versions",
    "versions.jax",
    "constants",
    "dataset_fingerprint",
    "evals.test.split",
    "evals.gone.preprocess",
    "train.views.local.size",
    "train.views",
  ],
)
def test_keys_groups_and_names_of_entries_may_be_allowed(name):
  for saved in (SAVED, None):
    resume.check_allowed(metadata(allow_change=name), saved)


@pytest.mark.parametrize(
  ("name", "hint"),
  [
    ("shcedule", "did you mean 'schedule'?"),
    ("seed,schedule.base_rl", "did you mean 'schedule.base_lr'?"),
    ("lr", "did you mean 'schedule.base_lr'?"),
    ("version", "did you mean 'versions'?"),
    ("qqq", "such as 'schedule.base_lr'"),
  ],
)
def test_an_unknown_key_may_not_be_allowed(name, hint):
  for saved in (SAVED, None):
    with pytest.raises(UserError) as error:
      resume.check_allowed(metadata(allow_change=name), saved)
    wrong = name.rpartition(",")[2]
    assert f"config.allow_change: {wrong!r} is not a key" in str(error.value)
    assert hint in str(error.value)


def test_a_key_of_the_saved_config_alone_stays_allowed():
  """Also after the first save that no longer has it."""
  older = {**SAVED["config"], "removed": {"key": 1}}
  current = metadata(allow_change="removed.key")
  resume.check_allowed(current, {**SAVED, "config": older})
  resume.check_allowed(current, current)
  with pytest.raises(UserError):
    resume.check_allowed(current, SAVED)
