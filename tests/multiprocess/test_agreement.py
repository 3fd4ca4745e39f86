"""Real processes tell each other a few words."""

import socket
import subprocess
import sys

import pytest

COUNT = 3
WORKER = """
import sys, time
import jax
number, port = int(sys.argv[1]), sys.argv[2]
jax.distributed.initialize(f"localhost:{port}", 3, number)
from jax._src import distributed
from vit_jax.processes import agreement
for turn in range(20):
  time.sleep(0.01 * (number * turn % 3))
  expected = [f"{turn} {i}" for i in range(3)]
  assert agreement.gather(f"{turn} {number}") == expected
  collected = agreement.collect(f"{turn} {number}")
  assert collected == (expected if number == 0 else None)
assert agreement.gather("end") == ["end"] * 3
if number == 0:
  left = distributed.global_state.client.key_value_dir_get("vit_jax/turn")
  assert len(left) <= 1, left
print("done")
"""


@pytest.mark.slow
def test_words_of_all_come_in_order_and_leave_nothing_behind(repo):
  with socket.socket() as free:
    free.bind(("localhost", 0))
    port = free.getsockname()[1]
  workers = [
    subprocess.Popen(
      [sys.executable, "-c", WORKER, str(number), str(port)],
      cwd=repo,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
    )
    for number in range(COUNT)
  ]
  for worker in workers:
    out, err = worker.communicate(timeout=200)
    assert worker.returncode == 0 and "done" in out, err
