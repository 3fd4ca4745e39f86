"""Whether a run may go on."""

import pytest

from tests import experiments
from vit_jax.checkpoint import resume
from vit_jax.errors import UserError

SAVED = resume.metadata(
  experiments.config(), fingerprint="digits", versions={"jax": "1"}
)


def check(fingerprint="digits", **changes):
  resume.check_same(
    SAVED,
    experiments.config(**changes),
    fingerprint=fingerprint,
    workdir="runs/x",
  )


@pytest.mark.parametrize(
  "changes",
  [
    {},
    {"log_every_steps": 7},
    {"checkpoint__every_steps": 5, "checkpoint__keep_last": 9},
    {"mesh__fsdp": 2},
    {"evals__test__every_steps": 1},
    {"evals": {}},
    {"seed": 1, "total_steps": 9, "allow_change": "seed, config.total_steps"},
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
  ],
)
def test_any_other_key_is_named_with_both_values(changes, line):
  with pytest.raises(UserError) as error:
    check(**changes)
  assert line in str(error.value)
  key = line.partition(":")[0]
  assert f"--config.allow_change={key}" in str(error.value)


def test_all_keys_that_differ_are_named_at_once():
  with pytest.raises(UserError, match="allow_change=model.width,seed"):
    check(seed=1, model__width=64)
