"""Trying settings."""

import dataclasses
import json

import pytest

from tests import experiments
from tests.aot import compilations
from vit_jax.aot import trials
from vit_jax.aot.hlo_cost import Cost
from vit_jax.aot.trials import Setting, Trial
from vit_jax.errors import UserError


def trial(seconds: float | None) -> Trial:
  """Of a step that takes so long; None: one that does not fit."""
  setting = Setting(4, "none", (-1, 1, 1))
  if seconds is None:
    return Trial(setting, compilations.too_large("v5e:2x2"))
  found = compilations.fits("v5e:2x2", Cost(cycles=1.5e9 * seconds))
  return Trial(setting, found)


def test_every_combination_is_tried():
  tried = trials.settings([8, 16], ["none", "full"], ["-1x1x1", "1x-1x2"])
  assert len(set(tried)) == 8
  assert {s.mesh for s in tried} == {(-1, 1, 1), (1, -1, 2)}


def test_a_mesh_may_leave_the_sharing_of_the_update_open():
  (setting,) = trials.settings([8], ["none"], ["-1xautox1"])
  changed = setting.applied(experiments.config(mesh__fsdp=2), num_devices=4)
  assert changed.mesh == experiments.config().mesh


@pytest.mark.parametrize("mesh", ["4x4", "axbxc", "autox1x1", "", "1x1x1x1"])
def test_a_mesh_has_three_sides(mesh):
  with pytest.raises(UserError, match="DATAxFSDPxTENSOR"):
    trials.settings([8], ["none"], [mesh])


def test_a_setting_changes_batch_remat_and_mesh_alone():
  config = experiments.config()
  changed = Setting(8, "full", (2, 1, 2)).applied(config, num_devices=4)
  expected = experiments.config(
    train__batch_size=32,
    model__remat="full",
    mesh__data=2,
    mesh__fsdp=1,
    mesh__tensor=2,
  )
  assert changed == expected


def test_a_setting_that_the_config_refuses_has_its_reason():
  with pytest.raises(UserError, match="config.model.remat"):
    Setting(8, "sometimes", (1, 1, 1)).applied(experiments.config(), 1)


def test_the_fastest_that_fits_is_found_and_stands_first():
  slow, fast, too_large = trial(0.5), trial(0.25), trial(None)
  refused = Trial(Setting(1, "none", (1, 1, 1)), None, "It does not divide.")
  tried = [slow, too_large, fast, refused]
  assert trials.fastest(tried) is fast
  assert trials.fastest([too_large, refused]) is None
  assert trials.fastest([]) is None
  header, first, second, *rest, reason = trials.table(tried).splitlines()
  assert "250.00 ms" in first and "500.00 ms" in second
  assert any("32.00 GiB, does not fit" in line for line in rest)
  assert header.startswith("images a device")
  assert reason == "refused: It does not divide."


def test_a_trial_is_plain_json():
  record = trial(0.25).record()
  assert json.loads(json.dumps(record)) == {**record, "mesh": [-1, 1, 1]}
  assert record["images_per_second"] == 64
  assert trial(None).record()["images_per_second"] is None


def test_a_program_for_gpus_that_needs_too_much_does_not_fit():
  """GPUs have a program and a time for what does not fit, too."""
  given = compilations.fits("h100:8", Cost(seconds=0.001))
  found = dataclasses.replace(given, hbm=given.hbm | {"total": 17 * 2**30})
  large = Trial(Setting(8, "none", (-1, 1, 1)), found)
  small = Trial(Setting(4, "none", (-1, 1, 1)), given)
  assert trials.fastest([large, small]) is small
  assert "17.00 GiB, does not fit" in trials.row(large)
