"""Errors of predicted numbers against scikit-learn, whatever the batches."""

import csv
import json

import jax
import numpy as np
import pytest
from etils import epath
from sklearn import metrics as oracle

from tests.evaluators import numbers
from vit_jax.config import named_sections, schema
from vit_jax.errors import UserError
from vit_jax.evaluators import regression

NAMES = ("age", "height")


@pytest.fixture
def problem(make_problem):
  """Images, their two numbers, and a linear model that is roughly right."""
  images, _, state = make_problem(num_classes=2)
  outputs = predicted(images, state)
  noise = np.random.default_rng(3).normal(0.1, 0.5, outputs.shape)
  labels = outputs + noise * outputs.std(axis=0)
  return images, labels, state


def predicted(images, state):
  pixels = images.reshape(len(images), -1).astype(np.float64) / 255
  return pixels @ np.asarray(state.eval_params["kernel"], np.float64)


@pytest.fixture
def run(make_split, make_context):
  """run(images, labels, state, ...) -> metrics."""

  def make(images, labels, state, *, names=NAMES, workdir=None, **keys):
    mesh = keys.get("mesh")
    split = numbers.of(make_split(images, labels[:, 0], **keys), labels, names)
    context = make_context(
      mesh=mesh, workdir=workdir, num_classes=len(names), class_names=names
    )
    evaluator = regression.Regression("test", split, context)
    assert evaluator.num_examples == len(labels)
    with jax.transfer_guard("disallow"):
      return evaluator.run(state, 7)

  return make


def test_metrics_equal_those_of_scikit_learn(problem, run):
  images, labels, state = problem
  outputs = predicted(images, state)
  found = run(images, labels, state)
  for place, name in enumerate(NAMES):
    pair = labels[:, place], outputs[:, place]
    for metric, expected in (
      ("mae", oracle.mean_absolute_error(*pair)),
      ("rmse", oracle.root_mean_squared_error(*pair)),
      ("r2", oracle.r2_score(*pair)),
    ):
      assert found[f"eval/test/{name}/{metric}"] == pytest.approx(
        expected, rel=1e-5
      )
  for metric in ("mae", "rmse", "r2"):
    each = [found[f"eval/test/{name}/{metric}"] for name in NAMES]
    assert found[f"eval/test/{metric}"] == pytest.approx(np.mean(each))
  assert found["eval/test/num_examples"] == 53
  assert 0 < found["eval/test/r2"] < 1
  assert len(found) == 4 + 2 * 3
  assert all(type(value) is float for value in found.values())


def test_one_number_has_its_metrics_once(make_problem, run):
  images, _, state = make_problem(num_classes=1)
  labels = predicted(images, state) + np.arange(53.0)[:, None]
  found = run(images, labels, state, names=("age",))
  assert set(found) == {
    f"eval/test/{name}" for name in ("mae", "rmse", "r2", "num_examples")
  }
  assert found["eval/test/mae"] == pytest.approx(26, rel=1e-5)
  assert found["eval/test/rmse"] == pytest.approx(
    np.sqrt(np.mean(np.arange(53.0) ** 2)), rel=1e-5
  )


@pytest.mark.parametrize("num_devices", [1, 4])
@pytest.mark.parametrize("batch_size", [4, 52, 56, 100])
@pytest.mark.parametrize("shuffled", [False, True])
def test_batches_and_devices_change_nothing(
  problem, run, make_mesh, num_devices, batch_size, shuffled
):
  images, labels, state = problem
  expected = run(images, labels, state)
  mesh = make_mesh(num_devices)
  params = jax.device_put(
    state.eval_params,
    jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()),
  )
  found = run(
    images,
    labels,
    type(state)(params),
    mesh=mesh,
    batch_size=batch_size,
    shuffled=shuffled,
  )
  assert found.keys() == expected.keys()
  for name, value in expected.items():
    assert found[name] == pytest.approx(value, rel=1e-6), name


def test_errors_beside_large_numbers_are_exact_in_float64():
  """Sums of squares in float32 would lose the errors of the last examples."""
  rng = np.random.default_rng(0)
  label = 1e5 + rng.normal(0, 1e3, (20_000, 1))
  error = rng.normal(0, 1e-1, (20_000, 1))
  label = label.astype(np.float32)
  prediction = (label + error).astype(np.float32)
  found = regression.measure(label, prediction)
  exact = prediction.astype(np.longdouble) - label
  assert found["mae"][0] == pytest.approx(
    float(np.abs(exact).mean()), rel=1e-12
  )
  assert found["rmse"][0] == pytest.approx(
    float(np.sqrt((exact**2).mean())), rel=1e-12
  )


def test_always_answering_the_mean_has_an_r2_of_zero_and_the_truth_of_one():
  label = np.random.default_rng(0).normal(3, 2, (40, 2)).astype(np.float32)
  mean = np.tile(label.astype(float).mean(axis=0), (40, 1))
  found = regression.measure(label, mean)
  np.testing.assert_allclose(found["r2"], 0, atol=1e-12)
  np.testing.assert_allclose(
    found["rmse"], label.astype(float).std(axis=0), rtol=1e-12
  )
  assert regression.measure(label, label)["r2"].tolist() == [1, 1]


def test_numbers_that_never_change_have_no_r2():
  label = np.stack([np.full(3, 0.1), np.arange(3.0)], axis=1)
  found = regression.measure(label, label + 1)
  assert np.isnan(found["r2"][0]) and np.isfinite(found["r2"][1])
  assert found["mae"].tolist() == [1, 1]


def test_files_hold_every_prediction_and_the_worst_images(
  problem, run, tmp_path
):
  images, labels, state = problem
  run(images, labels, state, workdir=epath.Path(tmp_path), batch_size=20)
  place = tmp_path / "evaluations" / "test" / "7"
  outputs = predicted(images, state)
  with np.load(place / "predictions.npz") as arrays:
    assert arrays["example_id"].tolist() == list(range(53))
    np.testing.assert_allclose(arrays["label"], labels, rtol=1e-6)
    np.testing.assert_allclose(arrays["prediction"], outputs, rtol=1e-4)
  distance = np.sqrt(
    (((outputs - labels) / labels.std(axis=0)) ** 2).mean(axis=1)
  )
  worst = np.argsort(-distance)
  found = json.loads((place / "regression.json").read_text())
  assert found["numbers"] == list(NAMES)
  mistakes = [one for one in found["examples"] if one["kind"] == "mistake"]
  assert [one["id"] for one in mistakes] == worst[:24].tolist()
  assert mistakes[0]["name"] == f"image {worst[0]}"
  np.testing.assert_allclose(mistakes[0]["label"], labels[worst[0]], rtol=1e-6)
  assert (
    len([one for one in found["examples"] if one["kind"] == "sample"]) == 24
  )
  assert (place / mistakes[0]["image"]).read_bytes().startswith(b"\x89PNG")
  rows = list(csv.reader((place / "predictions.csv").open()))
  assert rows[0] == [
    "name",
    "age",
    "age, predicted",
    "height",
    "height, predicted",
  ]
  assert [row[0] for row in rows[1:]] == [f"image {i}" for i in worst]
  assert float(rows[1][1]) == pytest.approx(labels[worst[0], 0], rel=1e-6)


def entry_of(**keys):
  return named_sections.section("evals", type="regression", **keys)


@pytest.mark.parametrize(
  ("dataset", "known", "message"),
  [
    ("generated:classes=3,size=8", NAMES, "has no numbers to predict, which"),
    (
      "generated:targets=2,size=8",
      NAMES,
      "has the numbers red, green, and the model predicts age, height",
    ),
    (
      "generated:targets=1,size=8",
      None,
      "has 1 numbers, and the model predicts 2",
    ),
  ],
)
def test_numbers_that_the_model_does_not_predict_are_refused(
  make_context, dataset, known, message
):
  entry = entry_of(dataset=dataset, batch_size=4)
  context = make_context(
    num_classes=2, class_names=known, config=schema.Config()
  )
  with pytest.raises(UserError, match=f"config.evals.test: .*{message}"):
    regression.build("test", entry, context)
