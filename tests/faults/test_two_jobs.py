"""Two jobs that are started on one workdir."""

import signal

import pytest

from tests.faults import runs


@pytest.mark.slow
def test_the_second_job_is_refused_and_a_killed_one_is_replaced(repo, tmp_path):
  first = runs.start(repo, tmp_path, total_steps=500, **runs.SELDOM)
  runs.wait_for_step(first, tmp_path, 2)
  _, said = runs.end(
    runs.start(repo, tmp_path, total_steps=500, **runs.SELDOM), code=1
  )
  assert f"{tmp_path} is in use by process {first.pid} on host" in said
  assert first.poll() is None
  first.send_signal(signal.SIGKILL)
  first.communicate()
  _, said = runs.end(runs.start(repo, tmp_path))
  assert f"was held by process {first.pid}" in said
  assert runs.saved_steps(tmp_path)[-1] == runs.STEPS
  assert not (tmp_path / "run.lock").exists()
