"""Runs of the studies in docs/: one command of vit_jax after another."""

import json
import pathlib
import subprocess
import sys
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]


def command(
  name: str,
  config: str,
  data_dir: str,
  workdir: pathlib.Path,
  *overrides: str,
) -> None:
  """Runs `python -m vit_jax.NAME`; finished runs return at once.

  Args:
    name: 'train' or 'sweep'.
    config: File in `configs/` with its arguments, 'study_small.py:part=4'.
    data_dir: An image folder.
    workdir: Directory of the run.
    *overrides: Flags like '--config.seed=1'.
  """
  run(
    name,
    f"--config={ROOT / 'configs'}/{config}",
    f"--config.data_dir={data_dir}",
    f"--workdir={workdir}",
    *overrides,
  )


def run(name: str, *arguments: str) -> None:
  """Runs `python -m vit_jax.NAME ARGUMENTS` from the repository's root."""
  subprocess.run(
    [sys.executable, "-m", f"vit_jax.{name}", *arguments], cwd=ROOT, check=True
  )


def metrics(workdir: pathlib.Path) -> dict[str, Any]:
  """The last metrics of a finished run."""
  return json.loads((workdir / "summary.json").read_text())["metrics"]
