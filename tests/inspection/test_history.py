"""Which steps of a run are compared."""

import logging

import numpy as np
import pytest

from tests.checkpoint import runs
from tests.models.networks import random_params, tiny
from vit_jax.inspection import history
from vit_jax.models import build


@pytest.fixture
def workdir(tmp_path):
  """A run of four steps, each with parameters of its own."""
  model = tiny(depth=1)
  params = {step: random_params(model, seed=step) for step in (1, 5, 7, 20)}
  runs.write(tmp_path / "run", build.config_of(model), params)
  return tmp_path / "run"


def test_steps_are_spread_between_the_first_and_the_last(workdir):
  assert history.steps(str(workdir), 9) == [1, 5, 7, 20]
  assert history.steps(str(workdir), 3) == [1, 7, 20]
  assert history.steps(str(workdir), 2) == [1, 20]
  assert history.steps(str(workdir / "checkpoints"), 2) == [1, 20]


def test_a_step_or_a_published_file_has_no_history(workdir):
  assert history.steps(str(workdir / "checkpoints" / "5"), 9) == []
  assert history.steps("somewhere/B_16.npz", 9) == []


def test_networks_are_those_of_their_steps(workdir):
  found = list(history.networks(str(workdir), [5, 20]))
  assert [step for step, _ in found] == [5, 20]
  for step, network in found:
    np.testing.assert_array_equal(
      network.params["embedding"]["kernel"],
      random_params(tiny(depth=1), seed=step)["embedding"]["kernel"],
    )


def test_a_damaged_step_is_left_out_with_a_word(workdir, caplog):
  (workdir / "checkpoints" / "7" / "state" / "manifest.ocdbt").unlink()
  with caplog.at_level(logging.WARNING):
    found = [step for step, _ in history.networks(str(workdir), [5, 7, 20])]
  assert found == [5, 20]
  assert "Step 7 is left out" in caplog.text and "damaged" in caplog.text
