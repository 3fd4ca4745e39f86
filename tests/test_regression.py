"""Runs that predict numbers, from the CSV file to the number of a new image."""

import csv
import io
import json

import numpy as np
import pytest
from PIL import Image

import vit_jax
from tests import experiments
from tests.models import networks
from vit_jax import convert, predict, records
from vit_jax.config import best_metric
from vit_jax.errors import UserError
from vit_jax.evaluate import evaluate
from vit_jax.pretrained import reading
from vit_jax.train import train
from vit_jax.training import dry_run

# Levels of red and green of grey images: numbers far from 0 in other units.
UNITS = np.array([[0.01, 300.0], [-2.0, 40_000.0]])


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
  """A CSV file of 96 noisy pictures with two numbers, and these by file."""
  folder = tmp_path_factory.mktemp("pictures")
  rng = np.random.default_rng(0)
  rows, values = [("image", "warmth", "weight", "split")], {}
  for number in range(96):
    level = rng.uniform(40, 215, 3)
    pixels = level + rng.normal(0, 12, (8, 8, 3))
    image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    image.save(folder / f"{number}.png")
    warmth, weight = level[:2] * UNITS[:, 0] + UNITS[:, 1]
    split = "train" if number < 64 else "test"
    rows.append((f"{number}.png", f"{warmth:.6f}", f"{weight:.4f}", split))
    values[f"{number}.png"] = float(rows[-1][1]), float(rows[-1][2])
  text = io.StringIO()
  csv.writer(text).writerows(rows)
  (folder / "numbers.csv").write_text(text.getvalue())
  return folder, values


def config_of(folder, **changes):
  return experiments.config(
    **{
      "data_dir": str(folder),
      "train__dataset": "csv:numbers.csv,target=warmth,target=weight",
      "train__preprocess": "decode|resize|flip_lr",
      "objective__loss": "mse",
      "evals__test__type": "regression",
      **changes,
    }
  )


@pytest.fixture(scope="module")
def finished(pictures, tmp_path_factory):
  """The workdir of a run of six steps."""
  folder, _ = pictures
  workdir = tmp_path_factory.mktemp("finished")
  config = config_of(folder, ema_decay=0.5, checkpoint__keep_best="test/rmse")
  assert train(config, str(workdir)) == 0
  return workdir


def test_a_dry_run_refuses_a_head_of_other_numbers_too(
  pictures, finished, tmp_path
):
  swapped = "csv:numbers.csv,target=weight,target=warmth"
  config = config_of(
    pictures[0], init_from=str(finished), train__dataset=swapped
  )
  for start in (
    lambda: "".join(dry_run.describe(config, None)),
    lambda: train(config, str(tmp_path / "new")),
  ):
    with pytest.raises(UserError, match="predicts the numbers warmth, weight"):
      start()


def lines(workdir):
  return records.read_lines(workdir / "metrics.jsonl")


def losses(workdir):
  return {
    x["step"]: x["train/loss"] for x in lines(workdir) if "train/loss" in x
  }


def logged(workdir):
  return [x for x in lines(workdir) if "eval/test/rmse" in x]


def test_a_run_starts_at_the_variance_and_measures_in_the_files_units(
  pictures, finished
):
  folder, values = pictures
  truth = np.array([values[f"{number}.png"] for number in range(64, 96)])
  # The batch's mean of standardised squares.
  assert losses(finished)[1] == pytest.approx(1, abs=0.5)
  last = logged(finished)[-1]
  for place, name in enumerate(("warmth", "weight")):
    rmse, r2 = (last[f"eval/test/{name}/{key}"] for key in ("rmse", "r2"))
    deviation = truth[:, place].std()
    assert 0.2 * deviation < rmse < 1.5 * deviation
    assert r2 == pytest.approx(1 - (rmse / deviation) ** 2, abs=1e-4)


def test_evaluating_its_checkpoint_gives_what_training_logged(
  pictures, finished
):
  folder, _ = pictures
  alone = evaluate(config_of(folder, ema_decay=0.5), str(finished))
  last = logged(finished)[-1]
  assert alone.keys() == last.keys()
  for name, value in last.items():
    assert alone[name] == pytest.approx(value, rel=1e-5, abs=1e-6)


def test_less_error_is_a_better_checkpoint(pictures, finished):
  folder, _ = pictures
  config = config_of(folder, checkpoint__keep_best="test/rmse")
  assert best_metric.find(config).lower
  config = config_of(folder, checkpoint__keep_best="test/r2")
  assert not best_metric.find(config).lower
  best = min(logged(finished), key=lambda line: line["eval/test/rmse"])
  assert reading.locate(f"{finished}/best")[1] == best["step"]


def predictions(finished):
  """File -> numbers, as the last evaluation found them."""
  place = finished / "evaluations" / "test" / "6" / "predictions.csv"
  rows = list(csv.DictReader(place.open()))
  return {
    row["name"].rpartition("/")[2]: (
      float(row["warmth, predicted"]),
      float(row["weight, predicted"]),
    )
    for row in rows
  }


def test_numbers_of_files_are_those_of_the_evaluation(pictures, finished):
  folder, _ = pictures
  expected = predictions(finished)
  files = [str(folder / f"{number}.png") for number in range(64, 96)]
  regressor = vit_jax.Regressor(finished)
  assert regressor.names == ("warmth", "weight")
  for file, found in zip(files, regressor(files), strict=True):
    wanted = expected[file.rpartition("/")[2]]
    assert tuple(found) == ("warmth", "weight")
    np.testing.assert_allclose(tuple(found.values()), wanted, rtol=1e-5)


@pytest.mark.parametrize("form", ["npz", "workdir"])
def test_every_form_predicts_the_same_numbers(
  pictures, finished, tmp_path, form
):
  folder, _ = pictures
  path = str(tmp_path / ("x.npz" if form == "npz" else "x"))
  convert.convert(str(finished), path, to=form)
  image = str(folder / "70.png")
  (found,), (wanted,) = (
    vit_jax.Regressor(one)([image]) for one in (path, finished)
  )
  assert found == pytest.approx(wanted, rel=1e-6)
  metrics = evaluate(config_of(folder), path)
  metrics.pop("step", None)
  expected = logged(finished)[-1]
  for name, value in metrics.items():
    assert value == pytest.approx(expected[name], rel=1e-5, abs=1e-6)


def test_an_exported_function_gives_numbers(pictures, finished, tmp_path):
  from jax import export

  folder, _ = pictures
  path = tmp_path / "x.stablehlo"
  convert.convert(str(finished), str(path))
  function = export.deserialize(bytearray(path.read_bytes()))
  pixels = np.asarray(Image.open(folder / "70.png"))[None]
  (wanted,) = vit_jax.Regressor(finished)(folder / "70.png")
  np.testing.assert_allclose(
    np.asarray(function.call(pixels))[0], list(wanted.values()), rtol=1e-5
  )


def test_a_saved_model_may_say_that_it_predicts_numbers(
  pictures, finished, tmp_path
):
  folder, _ = pictures
  model, params = vit_jax.load(finished)
  path = str(tmp_path / "x.npz")
  vit_jax.save(path, model, params, numbers=["a", "b"])
  (found,) = vit_jax.Regressor(path)(folder / "70.png")
  (wanted,) = vit_jax.Regressor(finished)(folder / "70.png")
  assert list(found) == ["a", "b"]
  assert list(found.values()) == pytest.approx(list(wanted.values()))
  with pytest.raises(UserError, match="numbers has 1 names and the head 2"):
    vit_jax.save(path, model, params, numbers=["a"])
  with pytest.raises(UserError, match="give class_names or numbers"):
    names = ["a", "b"]
    vit_jax.save(path, model, params, class_names=names, numbers=names)


def test_predict_prints_numbers_by_their_columns(pictures, finished, capsys):
  folder, _ = pictures
  files = [str(folder / "70.png"), str(folder / "71.png")]
  found = vit_jax.Regressor(finished)(files)
  assert predict.predict(str(finished), files) == 0
  shown = capsys.readouterr().out.splitlines()
  assert shown[0] == files[0] and len(shown) == 6
  words = [line.split() for line in shown[1:3]]
  assert [name for _, name in words] == ["warmth", "weight"]
  assert [float(value) for value, _ in words] == pytest.approx(
    list(found[0].values()), rel=1e-5
  )
  assert predict.predict(str(finished), files, form="csv") == 0
  rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
  assert rows[0] == ["path", "warmth", "weight"]
  assert [row[0] for row in rows[1:]] == files
  assert float(rows[2][2]) == pytest.approx(found[1]["weight"], rel=1e-5)
  assert predict.predict(str(finished), files, form="json") == 0
  document = json.loads(capsys.readouterr().out)
  assert document["activation"] == "none"
  assert [one["numbers"] for one in document["images"]] == found


def test_classes_of_a_regression_and_numbers_of_a_classifier_are_refused(
  finished, tmp_path
):
  with pytest.raises(UserError, match="predicts numbers, warmth, weight, and"):
    vit_jax.Classifier(finished)
  model = networks.tiny(num_classes=2)
  path = str(tmp_path / "x.npz")
  vit_jax.save(path, model, networks.random_params(model))
  with pytest.raises(UserError, match="predicts no numbers; use vit_jax.Class"):
    vit_jax.Regressor(path)


def test_evaluating_it_as_a_classifier_is_refused(pictures, finished):
  folder, _ = pictures
  config = experiments.config(train__dataset="generated:classes=2,size=8")
  with pytest.raises(
    UserError, match="predicts numbers, and config.evals asks"
  ):
    evaluate(config, str(finished))


def test_a_new_head_is_of_classes(finished, tmp_path):
  path = str(tmp_path / "x.npz")
  convert.convert(str(finished), path, num_classes=3)
  weights = reading.read(path)
  assert weights.activation == "softmax" and weights.class_names is None


def test_a_run_that_starts_from_it_goes_on_with_its_head(
  pictures, finished, tmp_path
):
  """Its numbers, though the new run has another mean and deviation."""
  folder, _ = pictures
  config = config_of(
    folder,
    init_from=str(finished),
    train__split="train[:50%]",
    schedule__base_lr=1e-9,
    total_steps=2,
    evals__test__every_steps=1,
  )
  assert train(config, str(tmp_path)) == 0
  first, last = logged(tmp_path)[0], logged(finished)[-1]
  for name, value in last.items():
    if name != "step":
      assert first[name] == pytest.approx(value, rel=1e-3, abs=1e-4)


def test_a_run_that_starts_from_another_network_has_a_new_head(
  pictures, finished, tmp_path
):
  folder, values = pictures
  config = config_of(
    folder,
    init_from=str(finished),
    init_without=("head/.*",),
    schedule__base_lr=1e-9,
    total_steps=2,
    evals__test__every_steps=1,
  )
  assert train(config, str(tmp_path)) == 0
  truth = np.array([values[f"{number}.png"] for number in range(96)])
  mean, test = truth[:64].mean(axis=0), truth[64:]
  expected = np.sqrt(((test - mean) ** 2).mean(axis=0))
  line = logged(tmp_path)[0]
  found = [line[f"eval/test/{name}/rmse"] for name in ("warmth", "weight")]
  np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_the_report_shows_the_numbers_and_the_mean(finished):
  page = (finished / "report" / "index.html").read_text()
  assert "Predicted against true warmth on test" in page
  assert "RMSE of the mean" in page and "Worst mistakes." in page
  assert "RMSE, test" in page


@pytest.mark.slow
def test_a_longer_run_that_goes_on_equals_one_that_never_stopped(
  pictures, tmp_path
):
  folder, _ = pictures
  whole, parts = tmp_path / "whole", tmp_path / "parts"
  changes = {
    "schedule__decay": "constant",
    "model__dropout_rate": 0.1,
    "objective__mixup_alpha": 0.2,
    "ema_decay": 0.5,
  }
  train(config_of(folder, total_steps=7, **changes), str(whole))
  train(config_of(folder, total_steps=3, **changes), str(parts))
  longer = config_of(
    folder, total_steps=7, allow_change="total_steps", **changes
  )
  train(longer, str(parts))
  assert losses(parts) == losses(whole)
  assert logged(parts)[-1] == logged(whole)[-1]


@pytest.mark.slow
def test_it_learns(pictures, tmp_path):
  """R² of 32 pictures that were not seen; guessing the mean has 0."""
  folder, _ = pictures
  config = config_of(
    folder, total_steps=60, log_every_steps=20, evals__test__every_steps=60
  )
  assert train(config, str(tmp_path)) == 0
  (line,) = logged(tmp_path)
  assert line["eval/test/warmth/r2"] > 0.5
  assert line["eval/test/weight/r2"] > 0.5
