"""Milliseconds of a GPU by the part of the network that they were spent on.

From a trace of jax's profiler. Kernels of cuBLAS and cuDNN bear no name of an
operation and count as a whole; those of XLA are named after their instruction
in the compiled program, and that after the last operation in it.
"""

import collections
import pathlib
import re
from collections.abc import Iterable, Iterator

MODULES = re.compile(
  r"LayerNorm|encoder_norm|MlpBlock|MultiHeadDotProductAttention|embedding"
  r"|add_positions|head"
)
_INSTRUCTION = re.compile(
  r'^\s*(?:ROOT )?%?([\w.\-]+) = .*?op_name="([^"]*)"', re.MULTILINE
)
_LIBRARIES = {
  "products (cuBLAS)": re.compile("nvjet|cublas|gemm|cutlass", re.IGNORECASE),
  "attention (cuDNN), forward": re.compile("sdpa.*fprop"),
  "attention (cuDNN), backward": re.compile("sdpa|cudnn"),
  "copies": re.compile("memcpy|memset", re.IGNORECASE),
}


def kernels(directory: pathlib.Path) -> Iterator[tuple[str, float]]:
  """Name and nanoseconds of everything that GPUs did in the newest trace."""
  from jax.profiler import ProfileData

  *_, newest = sorted(directory.rglob("*.xplane.pb"))
  for plane in ProfileData.from_file(str(newest)).planes:
    if "GPU" in plane.name:
      for line in plane.lines:
        if line.name.startswith("Stream"):
          for event in line.events:
            yield event.name, event.duration_ns


def parts(
  found: Iterable[tuple[str, float]], program: str, steps: int
) -> dict[str, float]:
  """Milliseconds of a step by part, the most first.

  Args:
    found: Kernels, see `kernels`.
    program: Text of the compiled program.
    steps: Number of steps in the trace.
  """
  operations = {
    re.sub(r"[.\-]", "_", name): operation
    for name, operation in _INSTRUCTION.findall(program)
  }
  total = collections.Counter[str]()
  for name, nanoseconds in found:
    total[_part(name, operations.get(name, ""))] += nanoseconds / 1e6 / steps
  return dict(total.most_common())


def _part(kernel: str, operation: str) -> str:
  for part, pattern in _LIBRARIES.items():
    if pattern.search(kernel):
      return part
  modules = MODULES.findall(operation)
  if not modules:
    return "elsewhere"
  way = "backward" if "transpose(" in operation else "forward"
  return f"{modules[-1]}, {way}"
