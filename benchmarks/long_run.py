"""Checks memory, open files and throughput over a long run.

  python benchmarks/long_run.py [--steps=20000] [--output=JSON]

Trains a tiny model for many quick steps, with saves and evaluations, in a
process of its own that is looked at from outside (Linux). Compares the last
tenth of the run with the second one, when it has warmed up; exits 1 if memory
grew by more than 2 %, files or threads by any, or steps took 10 % longer.
Seconds are those of the processor, so that a busy machine counts less.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def look(pid: int) -> dict[str, float]:
  """Resident bytes, open files, threads and processor seconds of a process."""
  process = pathlib.Path(f"/proc/{pid}")
  fields = (process / "stat").read_text().rpartition(")")[2].split()
  return {
    "resident_bytes": int((process / "statm").read_text().split()[1])
    * PAGE_BYTES,
    "open_files": len(list((process / "fd").iterdir())),
    "threads": int(fields[17]),
    "processor_seconds": (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND,
  }


def last_step(metrics: pathlib.Path) -> int:
  """The step of the last whole line; 0 if there is none."""
  if not metrics.exists():
    return 0
  with metrics.open("rb") as file:
    file.seek(max(0, metrics.stat().st_size - 2000))
    lines = file.read().split(b"\n")[:-1]
  return json.loads(lines[-1])["step"] if lines else 0


def watch(steps: int, workdir: pathlib.Path) -> list[dict[str, float]]:
  """Trains; returns what was seen about 200 times."""
  command = [
    *(sys.executable, "-m", "vit_jax.train"),
    "--config=configs/quickstart.py:smoke",
    f"--workdir={workdir}",
    f"--config.total_steps={steps}",
    f"--config.log_every_steps={max(1, steps // 200)}",
    f"--config.checkpoint.every_steps={max(1, steps // 40)}",
    f"--config.evals.test.every_steps={max(1, steps // 20)}",
    f"--config.evals.fewshot.every_steps={steps}",
  ]
  process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
  seen: list[dict[str, float]] = []
  while process.poll() is None:
    step = last_step(workdir / "metrics.jsonl")
    if step >= (seen[-1]["step"] + steps // 200 if seen else 1):
      seen.append({"step": step, "at": time.monotonic(), **look(process.pid)})
    time.sleep(0.05)
  if process.returncode:
    sys.exit(f"The run ended with {process.returncode}.")
  return seen


def compare(seen: list[dict[str, float]], steps: int) -> dict[str, float]:
  """Compares the last tenth of the run with the second."""
  result: dict[str, float] = {"steps": steps}
  tenths = {
    "early": [x for x in seen if 0.1 <= x["step"] / steps <= 0.2],
    "late": [x for x in seen if 0.9 <= x["step"] / steps <= 1.0],
  }
  for name, part in tenths.items():
    for key in ("resident_bytes", "open_files", "threads"):
      result[f"{name}_{key}"] = statistics.median(x[key] for x in part)
    count = part[-1]["step"] - part[0]["step"]
    for key, clock in (("processor", "processor_seconds"), ("wall", "at")):
      seconds = part[-1][clock] - part[0][clock]
      result[f"{name}_{key}_ms_per_step"] = 1000 * seconds / count
  return result


def failures(result: dict[str, float]) -> list[str]:
  """The keys that grew by more than they may."""
  limits = {
    "resident_bytes": 1.02,
    "open_files": 1.0,
    "threads": 1.0,
    "processor_ms_per_step": 1.1,
  }
  return [
    key
    for key, limit in limits.items()
    if result[f"late_{key}"] > limit * result[f"early_{key}"]
  ]


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--steps", type=int, default=20_000)
  parser.add_argument("--output", help="JSON file for the figures.")
  arguments = parser.parse_args()
  with tempfile.TemporaryDirectory() as directory:
    seen = watch(arguments.steps, pathlib.Path(directory) / "run")
  result = compare(seen, arguments.steps)
  text = json.dumps(result, indent=2)
  print(text)
  if arguments.output:
    pathlib.Path(arguments.output).write_text(text + "\n")
  grown = failures(result)
  if grown:
    sys.exit(f"Grew over the run: {', '.join(grown)}.")


if __name__ == "__main__":
  main()
