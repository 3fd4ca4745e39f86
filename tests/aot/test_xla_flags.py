"""Compiler options by device."""

import pytest

from vit_jax.aot import xla_flags
from vit_jax.aot.xla_flags import Flag
from vit_jax.sharding import topologies


@pytest.mark.parametrize("kind", ["TPU v5 lite", "tpu v5e"])
def test_both_names_of_a_chip_have_its_options(monkeypatch, kind):
  flag = Flag("64", "room for tiles", "2 % fewer cycles")
  monkeypatch.setattr(xla_flags, "FLAGS", {"tpu v5e": {"xla_size": flag}})
  assert xla_flags.options(kind) == {"xla_size": "64"}


@pytest.mark.parametrize("kind", ["cpu", "TPU v4", "TPU v5"])
def test_other_devices_have_none(monkeypatch, kind):
  flag = Flag("64", "room for tiles", "2 % fewer cycles")
  monkeypatch.setattr(xla_flags, "FLAGS", {"tpu v5e": {"xla_size": flag}})
  assert xla_flags.options(kind) == {}


def test_parameters_split_over_all_chips_are_gathered():
  for kind in ("TPU v4", "TPU v5 lite", "TPU v5", "TPU v6 lite"):
    assert "xla_jf_spmd_threshold_for_windowed_einsum_mib" in (
      xla_flags.options(kind)
    )
  assert xla_flags.options("TPU v3") == {}


def test_every_option_has_its_reason_and_figure():
  for name, flags in xla_flags.FLAGS.items():
    assert name in topologies.ACCELERATORS
    assert all(flag.reason and flag.figure for flag in flags.values())
