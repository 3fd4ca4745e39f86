"""A run that is started again with something changed."""

import pytest

from tests import experiments
from vit_jax import versions
from vit_jax.errors import UserError
from vit_jax.train import train
from vit_jax.training.experiment import Experiment


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
  made = tmp_path_factory.mktemp("run")
  assert train(experiments.config(total_steps=2, evals={}), str(made)) == 0
  return made


@pytest.mark.parametrize(
  ("changes", "line"),
  [
    ({"seed": 1}, "seed: was 0, is 1"),
    ({"model__width": 64}, "model.width: was 32, is 64"),
    (
      {"train__dataset": "generated:classes=4,size=8,examples=65"},
      'dataset_fingerprint: was "generated',
    ),
  ],
)
def test_what_changed_is_named_before_anything_compiles(
  workdir, monkeypatch, changes, line
):
  monkeypatch.setattr(Experiment, "compile", None)
  config = experiments.config(total_steps=2, evals={}, **changes)
  with pytest.raises(UserError) as error:
    train(config, str(workdir))
  assert line in str(error.value)


def test_another_version_is_named_and_may_be_allowed(workdir, monkeypatch):
  installed = versions.installed() | {"jax": "0.0.1"}
  monkeypatch.setattr(versions, "installed", lambda: installed)
  config = experiments.config(total_steps=2, evals={})
  with pytest.raises(UserError, match='versions.jax: was ".*", is "0.0.1"'):
    train(config, str(workdir))
  config = experiments.config(total_steps=2, evals={}, allow_change="versions")
  assert train(config, str(workdir)) == 0
