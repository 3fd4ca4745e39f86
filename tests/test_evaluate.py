"""The evaluate command on checkpoints of every form."""

import json

import jax
import numpy as np
import pytest

from tests import experiments
from vit_jax import convert
from vit_jax.checkpoint import load, save
from vit_jax.errors import UserError
from vit_jax.evaluate import evaluate
from vit_jax.train import train

EXACT = {"model__gelu": "exact"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
  """A run, and the metrics of its last evaluation."""
  workdir = tmp_path_factory.mktemp("run")
  assert train(experiments.config(total_steps=3, **EXACT), str(workdir)) == 0
  lines = (workdir / "metrics.jsonl").read_text().splitlines()
  evaluated = [json.loads(x) for x in lines if "eval/test/top1" in x]
  return str(workdir), evaluated[-1]


FORMS = {"model.npz": None, "model": None, "run": "workdir"}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_run_has_the_runs_metrics(finished, tmp_path, name):
  workdir, logged = finished
  path = str(tmp_path / name)
  convert.convert(workdir, path, to=FORMS[name])
  metrics = evaluate(experiments.config(**EXACT), path)
  # A published file does not say how many updates it has seen.
  assert metrics.pop("step", 3) == logged["step"] == 3
  assert ("step" in evaluate(experiments.config(**EXACT), path)) == (
    name == "run"
  )
  for key, value in metrics.items():
    assert value == pytest.approx(logged[key], rel=1e-5), key


def test_the_model_is_the_checkpoints_where_the_config_says_so(
  finished, tmp_path
):
  workdir, logged = finished
  path = str(tmp_path / "model.npz")
  convert.convert(workdir, path)
  other = experiments.config(
    model_from_init=True, model__depth=1, model__width=64, model__pool="gap"
  )
  for checkpoint in (workdir, path):
    metrics = evaluate(other, checkpoint)
    assert metrics["eval/test/loss"] == pytest.approx(
      logged["eval/test/loss"], rel=1e-5
    )


def test_a_checkpoint_of_another_model_is_a_table(finished):
  workdir, _ = finished
  with pytest.raises(UserError) as error:
    evaluate(experiments.config(model__width=64, **EXACT), workdir)
  assert "(32," in str(error.value) and "(64," in str(error.value)


def test_a_checkpoint_of_other_classes_is_refused(finished, tmp_path):
  workdir, _ = finished
  path = str(tmp_path / "other.npz")
  module, params = load.load(workdir, num_classes=9)
  params = jax.tree.map(np.asarray, params)
  save.save(path, module, params)
  with pytest.raises(UserError, match="is not of this model"):
    evaluate(experiments.config(**EXACT), path)
