"""Traces by config, and of a job that is asked for one."""

import gzip
import json
import os
import signal

import jax
import jax.numpy as jnp
import pytest
from etils import epath

from vit_jax.config import schema
from vit_jax.rundir.profiling import Profiler


@jax.jit
def double(state, batch):
  return state + batch, {"loss": jnp.sum(state)}


def run(profiler, steps, ask_after=()):
  step, state = profiler.watched(double, 10), jnp.ones(3)
  for number in range(steps):
    state, _ = step(state, state)
    if number in ask_after:
      os.kill(os.getpid(), signal.SIGUSR1)


def traces(workdir):
  """First step of each trace -> names of its events."""
  found = {}
  for path in workdir.glob("profiles/*/**/perfetto_trace.json.gz"):
    with gzip.open(path) as file:
      events = json.load(file)["traceEvents"]
    names = {event.get("name") for event in events}
    found[int(path.relative_to(workdir).parts[1])] = names
  return found


def profiler(tmp_path, **settings):
  return Profiler(schema.Profile(**settings), epath.Path(tmp_path))


def test_without_being_asked_nothing_is_traced(tmp_path):
  with profiler(tmp_path) as quiet:
    run(quiet, 5)
  assert not list(tmp_path.iterdir())


def test_a_range_of_steps_is_traced(tmp_path):
  with profiler(tmp_path, first_step=12, num_steps=2) as watching:
    run(watching, 5)
  found = traces(tmp_path)
  assert list(found) == [12]
  assert any(name and name.startswith("train") for name in found[12])


def test_a_signal_asks_for_the_next_steps(tmp_path):
  before = signal.getsignal(signal.SIGUSR1)
  with profiler(tmp_path, num_steps=2) as watching:
    run(watching, 8, ask_after=(1, 5))
  assert sorted(traces(tmp_path)) == [13, 17]
  assert signal.getsignal(signal.SIGUSR1) == before


def test_a_run_that_ends_early_keeps_its_trace(tmp_path):
  with (
    pytest.raises(KeyError),
    profiler(tmp_path, first_step=11, num_steps=9) as watching,
  ):
    run(watching, 2)
    raise KeyError
  assert list(traces(tmp_path)) == [11]


def test_a_trace_that_cannot_be_written_does_not_end_the_run(tmp_path, caplog):
  (tmp_path / "profiles").write_text("a file")
  with profiler(tmp_path, first_step=11) as watching:
    run(watching, 3)
  assert "No trace of step 11" in caplog.text
