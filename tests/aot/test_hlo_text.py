"""Reading compiled programs."""

import jax
import jax.numpy as jnp
import pytest

from vit_jax.aot import hlo_text
from vit_jax.aot.hlo_text import Shape

# As XLA:TPU writes it: layouts with parentheses, comments inside of tuples.
TEXT = """\
HloModule jit_step, is_scheduled=true, num_partitions=4

%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %p = (s32[]{:T(128)}, f32[8]{0:T(128)S(1)}) parameter(0)
  ROOT %t = (s32[]{:T(128)}, /*index=1*/f32[8]{0:T(128)}) tuple(%p, %p)
}

ENTRY %main.3_spmd (x: f32[8], y: bf16[2,3]) -> f32[8] {
  %x = f32[8]{0:T(128)} parameter(0), metadata={op_name="x (first)"}
  %y = bf16[2,3]{1,0:T(8,128)(2,1)S(1)} parameter(1)
  %call.1 = f32[8]{0} fusion(%x, /*index=1*/%y), kind=kLoop, calls=%fused.1
  ROOT %done = f32[8]{0} conditional(%x, %y), branch_computations={%a, %b.2}
}
"""


def test_instructions_are_found_in_their_computations():
  module = hlo_text.parse(TEXT)
  assert set(module.computations) == {"body", "main.3_spmd"}
  assert module.entry == "main.3_spmd"
  entry = module[module.entry]
  assert [i.opcode for i in entry] == [
    *("parameter", "parameter", "fusion", "conditional")
  ]
  assert entry.root == "done"
  assert entry.parameters == {0: "x", 1: "y"}


def test_types_are_read_without_layouts_and_comments():
  module = hlo_text.parse(TEXT)
  pair = (Shape("s32", ()), Shape("f32", (8,)))
  assert module["body"]["p"].shapes == pair
  assert module["body"]["t"].shapes == pair
  entry = module[module.entry]
  assert entry["y"].shapes == (Shape("bf16", (2, 3)),)
  assert entry.operand_shapes(entry["call.1"]) == (
    Shape("f32", (8,)),
    Shape("bf16", (2, 3)),
  )


def test_called_computations_are_named_by_their_attribute():
  entry = hlo_text.parse(TEXT)["main.3_spmd"]
  assert entry["call.1"].called("calls") == ["fused.1"]
  assert entry["done"].called("branch_computations") == ["a", "b.2"]
  assert entry["x"].called("calls") == []


@pytest.mark.parametrize(
  ("shape", "num_bytes"),
  [
    (Shape("f32", ()), 4),
    (Shape("bf16", (3, 5)), 30),
    (Shape("pred", (7,)), 7),
    (Shape("s4", (3,)), 2),
    (Shape("f8e4m3fn", (6,)), 6),
    (Shape("c64", (2,)), 16),
    (Shape("f32", (0, 9)), 0),
    (Shape("token", ()), 0),
  ],
)
def test_bytes_follow_from_the_type(shape, num_bytes):
  assert shape.num_bytes == num_bytes


def test_a_text_that_is_no_program_is_refused():
  with pytest.raises(ValueError, match="no ENTRY"):
    hlo_text.parse("module @jit_step {}")


def test_what_xla_writes_here_is_read_to_the_last_instruction():
  def f(x):
    return jax.lax.fori_loop(0, 3, lambda i, y: jnp.sin(y @ y), x).sum()

  text = jax.jit(f).lower(jnp.ones((4, 4))).compile().as_text()
  module = hlo_text.parse(text)
  read = sum(len(c.instructions) for c in module.computations.values())
  assert read == sum(" = " in line for line in text.splitlines()[1:])
