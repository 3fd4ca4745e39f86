"""Bounds of kernels: whose it is, and each against counts by hand."""

import dataclasses

import pytest

from vit_jax.aot import kernels
from vit_jax.aot.hlo_text import Shape
from vit_jax.sharding.topologies import Accelerator, find_accelerator

V5E = find_accelerator("tpu v5e")
# Four units of 128 x 128 at 1 GHz; all arrays cross the memory at once.
TPU = Accelerator(4 * 2 * 128**2 * 1e9, 1e9, 1e30, 0.0, clock=1e9)


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


def attention(direction, batch, length, heads, head_size):
  array = Shape("bf16", (batch, length, heads * head_size))
  num_operands, num_results = {"forward": (3, 1), "backward": (4, 3)}[direction]
  return kernels.Call(
    f"short_attention_{direction}_{head_size}",
    (array,) * num_operands,
    (array,) * num_results,
  )


@pytest.mark.parametrize(
  ("call", "expected"),
  [
    # Two products of 128 rows with one square.
    (attention("forward", 1, 128, 1, 128), 2 * 128 / 4),
    # A head of 64 costs what one of 128 does, 100 tokens are 104 rows.
    (attention("forward", 1, 100, 1, 64), 2 * 104 / 4),
    # 197 tokens: 200 rows with two squares, in 3 images of 12 heads.
    (attention("forward", 3, 197, 12, 64), 3 * 12 * 2 * 2 * 200 / 4),
    (attention("backward", 3, 197, 12, 64), 3 * 12 * 5 * 2 * 200 / 4),
    # The 257th token wants a third square.
    (attention("backward", 1, 257, 16, 80), 16 * 5 * 3 * 264 / 4),
  ],
)
def test_products_are_counted_in_whole_squares(call, expected):
  assert kernels.short_attention_cycles(call, TPU) == pytest.approx(expected)


def test_larger_units_take_more_at_a_time():
  large = dataclasses.replace(TPU, matrix_side=256)  # One unit, then.
  bound = kernels.short_attention_cycles(
    attention("forward", 1, 197, 1, 64), large
  )
  assert bound == pytest.approx(2 * 200)


def test_a_slow_memory_is_the_bound():
  slow = dataclasses.replace(TPU, hbm_bandwidth=1e9)  # A byte a cycle.
  call = attention("backward", 2, 197, 12, 64)
  assert kernels.short_attention_cycles(call, slow) == 7 * 2 * 197 * 768 * 2


def test_a_device_that_is_half_a_chip_has_half_of_its_rates():
  half = dataclasses.replace(TPU, devices_per_chip=2)
  call = attention("forward", 1, 197, 12, 64)
  assert kernels.short_attention_cycles(call, half) == pytest.approx(
    2 * kernels.short_attention_cycles(call, TPU)
  )


def test_attention_of_a_b16_step_on_v5e():
  # 12 layers and heads, 64 images: seven products of 2 x 200 rows, 4 units.
  total = 12 * sum(
    kernels.bound(attention(direction, 64, 197, 12, 64), V5E)
    for direction in ("forward", "backward")
  )
  assert total == pytest.approx(12 * 12 * 64 * 7 * 100, rel=5e-3)


def test_v6e_has_units_of_256():
  assert find_accelerator("TPU v6 lite").matrix_side == 256
  assert find_accelerator("TPU v6e").matrix_side == 256
  assert V5E.matrix_side == find_accelerator("TPU v4").matrix_side == 128


def convolution(direction, side, *shape):
  array = Shape("bf16", shape)
  taps = Shape("f32", (side**2 + 1, 8, shape[-1]))
  if direction == "forward":
    operands, results = (array, taps), (array,)
  else:
    operands, results = (array, taps, array), (array, taps)
  return kernels.Call(f"depthwise_conv_{direction}_{side}", operands, results)


@pytest.mark.parametrize(
  ("call", "operations"),
  [
    # A register for each place, a multiplication and an addition for each tap.
    (convolution("forward", 3, 5, 7, 8, 128), 5 * 7 * 9 * 2),
    (convolution("backward", 3, 5, 7, 8, 128), 5 * 7 * 9 * 4),
    # 17 images are three registers, 130 channels two.
    (convolution("forward", 7, 2, 1, 17, 130), 2 * 6 * 49 * 2),
  ],
)
def test_operations_are_counted_in_whole_registers(call, operations):
  assert kernels.depthwise_conv_cycles(call, TPU) == operations / 4
  older = dataclasses.replace(TPU, vector_slots=2)
  assert kernels.bound(call, older) == operations / 2


def test_a_slow_memory_bounds_a_convolution():
  slow = dataclasses.replace(TPU, hbm_bandwidth=1e9)  # A byte a cycle.
  call = convolution("forward", 3, 5, 7, 8, 128)
  moved = 2 * 2 * 5 * 7 * 8 * 128 + 4 * 10 * 8 * 128
  assert kernels.depthwise_conv_cycles(call, slow) == moved


def test_slots_of_vector_units():
  slots = {
    kind: find_accelerator(f"TPU {kind}").vector_slots
    for kind in ("v3", "v4", "v5 lite", "v5p", "v6 lite")
  }
  # A device is a core on v3, two on v4 and v5p, and one on the others.
  assert slots == {"v3": 2, "v4": 4, "v5 lite": 4, "v5p": 8, "v6 lite": 4}
