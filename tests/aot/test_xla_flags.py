"""Compiler options by device."""

import pytest

from tests import experiments
from vit_jax.aot import step_compilation, topology, xla_flags
from vit_jax.config import schema

WHOLE = schema.Mesh(fsdp=1)
# Wide enough that the compiler would rather send activations.
WIDE = {
  "model__width": 256,
  "model__mlp_dim": 1024,
  "model__dtype": "bfloat16",
  "model__image_size": 32,
}


@pytest.mark.parametrize("kind", ["TPU v5 lite", "tpu v5e"])
def test_both_names_of_a_chip_have_its_options(monkeypatch, kind):
  monkeypatch.setattr(xla_flags, "OPTIONS", {"tpu v5e": {"xla_size": "64"}})
  assert xla_flags.options(kind, WHOLE) == {"xla_size": "64"}


@pytest.mark.parametrize("kind", ["cpu", "TPU v4", "TPU v5"])
def test_other_devices_have_none(monkeypatch, kind):
  monkeypatch.setattr(xla_flags, "OPTIONS", {"tpu v5e": {"xla_size": "64"}})
  assert xla_flags.options(kind, WHOLE) == {}


def test_parameters_are_gathered_once_where_memory_is_no_reason(monkeypatch):
  monkeypatch.setattr(xla_flags, "OPTIONS", {"tpu v5e": {"xla_size": "64"}})
  shared, divided = schema.Mesh(), schema.Mesh(data=1, fsdp=-1)
  once = {"xla_size": "64", **xla_flags.GATHER_ONCE}
  assert xla_flags.options("TPU v5e", shared) == once
  assert xla_flags.options("TPU v3", shared) == xla_flags.GATHER_ONCE
  assert xla_flags.options("TPU v5e", divided) == {"xla_size": "64"}
  assert xla_flags.options("NVIDIA H100", shared) == {}


@pytest.mark.parametrize(
  "kind, found",
  [
    ("NVIDIA H100 80GB HBM3", {"xla_gpu_enable_triton_gemm": False}),
    ("NVIDIA A100-SXM4-80GB", {}),
    ("cpu", {}),
  ],
)
def test_products_are_cublas_where_that_was_measured(kind, found):
  assert xla_flags.options(kind, WHOLE) == found


@pytest.mark.parametrize("name", ["v3:2x2", "v4:2x2x1", "v5e:2x2", "v6e:2x2"])
def test_parameters_split_over_all_chips_are_gathered(
  libtpu, monkeypatch, name
):
  """Activations are not passed around, and no product is made twice."""
  monkeypatch.setattr("vit_jax.sharding.rules.FSDP_MIN_BYTES", 0)
  where = topology.parse(name)
  images = 16 * where.num_devices

  def compiled(**mesh):
    config = experiments.config(
      **WIDE, **mesh, train__batch_size=images, model__scan_layers=True
    )
    options = xla_flags.options(where.device_kind, config.mesh)
    return step_compilation.compile_step(config, where, options).record()

  split, whole = compiled(mesh__data=1, mesh__fsdp=-1), compiled(mesh__fsdp=1)
  assert "all-gather" in split["collectives"]
  assert "collective-permute" not in split["collectives"]
  assert split["flops_per_device"] == pytest.approx(
    whole["flops_per_device"], rel=0.02
  )
