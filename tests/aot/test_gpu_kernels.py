"""What a GPU's kernels read, write and multiply, of programs by hand."""

import pytest

from vit_jax.aot import hlo_cost, hlo_text
from vit_jax.aot.gpu_kernels import ATTENTION, COPIES, FUSIONS, PRODUCTS
from vit_jax.sharding.topologies import Accelerator

# A FLOP a second and a byte a second, of 10 and 100.
GPU = Accelerator(100.0, 1e9, 10.0, 0.0)


def cost(body: str, others: str = "") -> hlo_cost.Cost:
  entry = f"ENTRY %main (x: f32[8]) -> f32[8] {{\n{body}}}\n"
  text = f"HloModule m\n\n{others}\n{entry}"
  return hlo_cost.cost(hlo_text.parse(text), accelerator=GPU, num_devices=1)


def test_a_product_is_counted_without_its_work_space():
  dimensions = '{"lhs_contracting_dimensions":["1"]}'
  found = cost(
    "  %a = bf16[64,32]{1,0} parameter(0)\n"
    "  %b = bf16[32,16]{1,0} parameter(1)\n"
    "  ROOT %c = (bf16[64,16]{1,0}, s8[33554432]{0}) custom-call(%a, %b),"
    ' custom_call_target="__cublas$lt$matmul", backend_config='
    '{"gemm_backend_config":{"dot_dimension_numbers":' + dimensions + "}}\n"
  )
  assert found.flops == 2 * 64 * 32 * 16
  moved = 2 * (64 * 32 + 32 * 16 + 64 * 16)
  assert found.by_kernel() == {PRODUCTS: {"count": 1, "bytes": moved}}
  # Products are the slower of the two here.
  assert found.seconds == pytest.approx(max(found.flops / 100, moved / 10))


@pytest.mark.parametrize(
  ("target", "products"),
  [("__cudnn$fmhaSoftmax", 2), ("__cudnn$fmhaSoftmaxBackward", 5)],
)
def test_attention_is_two_products_forward_and_five_backward(target, products):
  found = cost(
    "  %q = bf16[2,24,3,64]{3,2,1,0} parameter(0)\n"
    "  %k = bf16[2,8,3,64]{3,2,1,0} parameter(1)\n"
    "  %v = bf16[2,8,3,64]{3,2,1,0} parameter(2)\n"
    "  ROOT %r = (bf16[2,3,24,64]{3,1,2,0}, u8[0]{0}) custom-call(%q, %k, %v),"
    f' custom_call_target="{target}"\n'
  )
  assert found.flops == products * 2 * 2 * 3 * 24 * 8 * 64
  assert found.gpu_bytes[ATTENTION] == 2 * (2 * 2 * 24 + 2 * 2 * 8) * 3 * 64


FUSED = """\
%slicing (p: f32[12,100], i: s32[]) -> f32[1,100] {
  %p = f32[12,100]{1,0} parameter(0)
  %i = s32[] parameter(1)
  %s = f32[1,100]{1,0} dynamic-slice(%p, %i, %i), dynamic_slice_sizes={1,100}
  ROOT %e = f32[1,100]{1,0} exponential(%s)
}

%placing (p: f32[12,100], x: f32[1,100], i: s32[]) -> f32[12,100] {
  %p = f32[12,100]{1,0} parameter(0)
  %x = f32[1,100]{1,0} parameter(1)
  %i = s32[] parameter(2)
  ROOT %u = f32[12,100]{1,0} dynamic-update-slice(%p, %x, %i, %i)
}

%adding (p: f32[12,100], x: f32[12,100]) -> f32[12,100] {
  %p = f32[12,100]{1,0} parameter(0)
  %x = f32[12,100]{1,0} parameter(1)
  ROOT %a = f32[12,100]{1,0} add(%p, %x)
}
"""


@pytest.mark.parametrize(
  ("call", "num_bytes"),
  [
    # The layer that is taken is read and written, the others are not.
    ("f32[1,100]{1,0} fusion(%p, %i), calls=%slicing", 400 + 4 + 400),
    ("f32[12,100]{1,0} fusion(%p, %x, %i), calls=%placing", 400 + 4 + 400),
    ("f32[12,100]{1,0} fusion(%p, %p), calls=%adding", 3 * 4800),
  ],
)
def test_a_fusion_moves_the_parts_that_it_takes_and_gives(call, num_bytes):
  found = cost(
    f"""\
  %p = f32[12,100]{{1,0}} parameter(0)
  %x = f32[1,100]{{1,0}} parameter(1)
  %i = s32[] parameter(2)
  ROOT %r = {call}
""",
    FUSED,
  )
  assert found.gpu_bytes == {FUSIONS: num_bytes}
  assert found.seconds == pytest.approx(num_bytes / 10)


def test_kernels_of_a_loop_count_as_often_as_it_runs():
  found = cost(
    "  %x = f32[8]{0} parameter(0)\n"
    "  %t = (s32[], f32[8]{0}) tuple(%x, %x)\n"
    "  ROOT %w = (s32[], f32[8]{0}) while(%t), condition=%cond, body=%body,"
    ' backend_config={"known_trip_count":{"n":"5"}}\n',
    """\
%cond (p: (s32[], f32[8])) -> pred[] {
  %p = (s32[], f32[8]{0}) parameter(0)
  ROOT %c = pred[] constant(true)
}

%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %p = (s32[], f32[8]{0}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = f32[8]{0} get-tuple-element(%p), index=1
  %y = f32[8]{0} copy(%x)
  ROOT %t = (s32[], f32[8]{0}) tuple(%i, %y)
}
""",
  )
  assert found.by_kernel() == {COPIES: {"count": 5, "bytes": 5 * 64}}
  assert found.cycles == 0
