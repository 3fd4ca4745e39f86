"""A process that was stopped for a while, as by a closed lid, goes on."""

import os
import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
from vit_jax.processes import start
start.initialize()
print("joined", flush=True)
input()
print("awake", flush=True)
"""


@pytest.mark.exhaustive
def test_two_minutes_of_sleep_do_not_end_a_lone_run(repo):
  process = subprocess.Popen(
    [sys.executable, "-c", PROGRAM],
    cwd=repo,
    env={**os.environ, "JAX_PLATFORMS": "cpu"},
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
  )
  assert process.stdout.readline() == "joined\n"
  process.send_signal(signal.SIGSTOP)
  time.sleep(130)  # jax gives a process up after 100.
  process.send_signal(signal.SIGCONT)
  time.sleep(10)  # It would be told so by now.
  output, _ = process.communicate("\n", timeout=300)
  assert output == "awake\n"
  assert process.returncode == 0
