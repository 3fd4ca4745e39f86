"""Which kernel a custom call is, and which bound it has."""

import pytest

from vit_jax.aot import kernels
from vit_jax.aot.hlo_text import Shape
from vit_jax.sharding.topologies import find_accelerator

V5E = find_accelerator("tpu v5e")


def call(name: str) -> kernels.Call:
  return kernels.Call(name, (Shape("f32", (2, 3)),), (Shape("f32", (2,)),))


@pytest.mark.parametrize(
  ("name", "cycles"), [("short", 1), ("short_forward", 1), ("short_back", 2)]
)
def test_the_longest_known_beginning_of_the_name_counts(
  monkeypatch, name, cycles
):
  monkeypatch.setattr(
    kernels,
    "BOUNDS",
    {"short": lambda call, chip: 1.0, "short_back": lambda call, chip: 2.0},
  )
  assert kernels.bound(call(name), V5E) == cycles


def test_a_stranger_has_no_bound(monkeypatch):
  monkeypatch.setattr(kernels, "BOUNDS", {"short": lambda call, chip: 1.0})
  assert kernels.bound(call("long"), V5E) is None
