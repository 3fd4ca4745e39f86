"""Hosts compared with one another."""

import json

import jax
import pytest

from vit_jax.processes import agreement
from vit_jax.processes.slow_hosts import SlowHosts


@pytest.fixture
def others(monkeypatch):
  """others(data seconds, ...): processes 1 and on of a run."""

  def others(*seconds):
    texts = [
      json.dumps([f"host{i}", 1.0, data])
      for i, data in enumerate(seconds, start=1)
    ]
    monkeypatch.setattr(jax, "process_count", lambda: 1 + len(seconds))
    monkeypatch.setattr(agreement, "collect", lambda text: [text, *texts])

  return others


def test_one_host_has_nobody_to_be_compared_with():
  assert SlowHosts().compare(1.0, 0.5) == {}


def test_the_slowest_host_is_named(others):
  others(0.02, 0.01, 0.6)
  hosts = SlowHosts()
  metrics = hosts.compare(1.5, 0.03)
  assert metrics == {
    "perf/host_step_seconds_max": 1.5,
    "perf/host_step_seconds_median": 1.0,
    "perf/host_data_seconds_max": 0.6,
    "perf/host_data_seconds_median": 0.025,
    "perf/slowest_process": 3,
  }
  assert hosts.slowest == "host3 (process 3)"


def test_a_straggler_is_told_of_once(others, caplog):
  hosts = SlowHosts()
  others(0.02, 0.6)
  for _ in range(3):
    hosts.compare(1.0, 0.01)
  assert caplog.text.count("host2 (process 2) holds the others up") == 1
  others(0.02, 0.01)
  hosts.compare(1.0, 0.01)
  others(0.02, 0.6)
  hosts.compare(1.0, 0.01)
  assert caplog.text.count("holds the others up") == 2


def test_a_wait_that_is_nothing_beside_the_step_is_not_told_of(others, caplog):
  others(0.0001, 0.05)
  SlowHosts().compare(1.0, 0.0001)
  assert "holds" not in caplog.text


def test_other_processes_get_nothing(monkeypatch):
  monkeypatch.setattr(jax, "process_count", lambda: 2)
  monkeypatch.setattr(agreement, "collect", lambda text: None)
  assert SlowHosts().compare(1.0, 0.1) == {}
