"""Compiles one config ahead of time, for the benchmarks that compile many."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]


def compile_to(
  path: pathlib.Path, config: str, topology: str, *overrides: str
) -> str:
  """Runs `vit_jax.compile` in a process of its own; returns why that failed.

  Args:
    path: JSON file for the figures, which is there as a whole or not at all.
    config: Value of `--config`.
    topology: Value of `--topology`.
    *overrides: Further arguments, such as '--config.model.remat=full'.

  Returns:
    All that the process wrote to stderr, 'killed' if that was nothing, or ''
    if the figures were written.
  """
  partial = path.with_suffix(".part")
  ran = subprocess.run(
    [
      *(sys.executable, "-m", "vit_jax.compile"),
      f"--config={config}",
      f"--topology={topology}",
      f"--output={partial}",
      *overrides,
    ],
    cwd=ROOT,
    env={**os.environ, "JAX_PLATFORMS": "cpu"},
    stdout=subprocess.DEVNULL,
    stderr=subprocess.PIPE,
    text=True,
  )
  if ran.returncode or not partial.exists():
    return ran.stderr.strip() or "killed"
  partial.rename(path)
  return ""
