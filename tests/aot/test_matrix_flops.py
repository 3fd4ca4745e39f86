"""FLOPs of products and convolutions, beside XLA's own count."""

import jax
import jax.numpy as jnp
import pytest

from vit_jax.aot import hlo_text, matrix_flops


def of_text(text: str) -> int:
  module = hlo_text.parse(text)
  return sum(
    matrix_flops.flops(computation, instruction)
    for computation in module.computations.values()
    for instruction in computation
  )


def program(result: str, left: str, right: str, call: str) -> str:
  return f"""\
HloModule m

ENTRY %main (a: {left}, b: {right}) -> {result} {{
  %a = {left} parameter(0)
  %b = {right} parameter(1)
  ROOT %c = {result} {call}
}}
"""


def convolve(**options):
  dimensions = ("NHWC", "HWIO", "NHWC")
  return lambda x, k: jax.lax.conv_general_dilated(
    x, k, dimension_numbers=dimensions, **options
  )


CASES = {
  "product": (jnp.dot, (5, 7), (7, 3)),
  "batched": (
    lambda x, y: jnp.einsum("bij,bjk->bik", x, y),
    (4, 5, 7),
    (4, 7, 3),
  ),
  "patches": (
    convolve(window_strides=(4, 4), padding="VALID"),
    (2, 16, 16, 3),
    (4, 4, 3, 8),
  ),
  "padded": (
    convolve(window_strides=(2, 1), padding="SAME"),
    (2, 9, 8, 3),
    (5, 3, 3, 8),
  ),
  "dilated kernel": (
    convolve(window_strides=(1, 1), padding="SAME", rhs_dilation=(2, 3)),
    (1, 9, 8, 2),
    (3, 3, 2, 4),
  ),
  "dilated input": (
    convolve(
      window_strides=(1, 1), padding=((1, 2), (0, 1)), lhs_dilation=(2, 3)
    ),
    (1, 5, 6, 2),
    (3, 3, 2, 4),
  ),
  "groups": (
    convolve(window_strides=(1, 1), padding="SAME", feature_group_count=2),
    (1, 5, 6, 4),
    (3, 3, 2, 6),
  ),
  "groups of the batch": (
    convolve(window_strides=(1, 1), padding="VALID", batch_group_count=2),
    (4, 5, 6, 3),
    (3, 3, 3, 8),
  ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_count_is_that_of_xlas_cost_analysis(name):
  f, left, right = CASES[name]
  lowered = jax.jit(f).lower(jnp.zeros(left), jnp.zeros(right))
  assert of_text(lowered.as_text("hlo")) == lowered.cost_analysis()["flops"]


def test_a_batched_product_in_the_form_of_a_tpu_counts_its_products_only():
  # 64 x 6 products of 197 x 64 and 64 x 197: most of the window meets holes.
  text = program(
    "bf16[64,6,197,197]",
    "bf16[64,6,197,64]",
    "bf16[64,6,197,64]",
    "convolution(%a, %b), window={size=64x6 stride=63x5 lhs_dilate=64x6},"
    " dim_labels=01bf_01oi->01bf",
  )
  assert of_text(text) == 2 * 64 * 6 * 197 * 197 * 64


def test_a_product_of_merged_dimensions_counts_once():
  text = program(
    "bf16[384,1536,1]",
    "bf16[64,197,384]",
    "bf16[64,197,1536]",
    "convolution(%a, %b), window={size=64}, dim_labels=0fb_0io->bf0",
  )
  assert of_text(text) == 2 * 64 * 197 * 384 * 1536


def test_a_window_without_dimensions_is_a_plain_product():
  text = program(
    "f32[5,3]",
    "f32[5,7]",
    "f32[7,3]",
    "convolution(%a, %b), dim_labels=bf_io->bf",
  )
  assert of_text(text) == 2 * 5 * 7 * 3


def test_other_instructions_are_not_counted():
  text = program("f32[5,3]", "f32[5,3]", "f32[5,3]", "add(%a, %b)")
  assert of_text(text) == 0
