"""Time of a GPU by part of the network, from kernels and a program."""

import pytest

from benchmarks import gpu_trace

_BLOCK = "jit(step)/{}ViT/encoderblock_0/{}/reduce_sum"
_PROGRAM = "\n".join(
  f'  %{name} = f32[4]{{0}} fusion(%a), metadata={{op_name="{operation}"}}'
  for name, operation in {
    "loop_multiply_fusion.1": _BLOCK.format("jvp()/", "MlpBlock_0"),
    "input-reduce.fusion.2": _BLOCK.format("transpose(jvp())/", "LayerNorm_1"),
    "loop_select_fusion": "jit(step)/add",
  }.items()
)


def test_kernels_count_for_their_library_or_the_operation_they_are_named_for():
  found = [
    ("nvjet_sm90_tst_128x160", 3e6),
    ("void cublasLt::splitKreduce_kernel<32>", 1e6),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma", 1e6),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma", 3e6),
    ("void cudnn::fusion::convert_dq_to_16bits<true>", 1e6),
    ("memcpy128", 5e5),
    ("loop_multiply_fusion_1", 2e6),
    ("loop_multiply_fusion_1", 2e6),
    ("input_reduce_fusion_2", 1e6),
    ("loop_select_fusion", 1e6),
    ("a_kernel_that_the_program_lacks", 1e6),
  ]
  parts = gpu_trace.parts(found, _PROGRAM, 2)
  assert parts == {
    "products (cuBLAS)": 2.0,
    "attention (cuDNN), forward": 0.5,
    "attention (cuDNN), backward": 2.0,
    "MlpBlock, forward": 2.0,
    "LayerNorm, backward": 0.5,
    "copies": 0.25,
    "elsewhere": 1.0,
  }
  assert sum(parts.values()) == pytest.approx(sum(n for _, n in found) / 2e6)
