"""Predicted numbers in a report."""

import json

import numpy as np
import pytest

from tests.report import workdirs
from vit_jax.config import evaluator_declarations, schema
from vit_jax.report import load, overview, regressions, render
from vit_jax.report.figures import predicted

EVALUATORS = evaluator_declarations.declarations(
  schema.Config(evals={"test": schema.RegressionEval(type="regression")})
)


@pytest.fixture
def arrays():
  rng = np.random.default_rng(0)
  label = rng.normal([30, 1.7], [9, 0.1], (200, 2)).astype(np.float32)
  error = rng.normal(0, [3, 0.02], label.shape)
  return label, (label + error).astype(np.float32)


@pytest.fixture
def workdir(tmp_path, arrays):
  """A run that predicted two numbers of 200 images, at two steps."""
  label, prediction = arrays
  metrics = {"mae": 1.5, "rmse": 2.25, "r2": 0.9, "num_examples": 200}
  records = [
    {"step": 100, "train/loss": 0.5},
    {"step": 200, **{f"eval/test/{k}": v for k, v in metrics.items()}},
    {"step": 200, "eval/test/age/rmse": 4.0, "eval/test/height/rmse": 0.5},
  ]
  config = workdirs.CONFIG | {"evals": {"test": {"type": "regression"}}}
  run = workdirs.write_run(
    tmp_path / "run", config=config, records=records, evaluators=EVALUATORS
  )
  for step in (100, 200):
    place = run / "evaluations" / "test" / str(step)
    (place / "images").mkdir(parents=True)
    np.savez(
      place / "predictions.npz",
      example_id=np.arange(200),
      label=label,
      prediction=prediction,
    )
    examples = [
      {
        "id": number,
        "image": f"images/{number}.png",
        "name": f"photos/{number}.jpg",
        "kind": kind,
        "label": label[number].tolist(),
        "prediction": prediction[number].tolist(),
      }
      for number, kind in ((0, "sample"), (7, "mistake"))
    ]
    picture = workdirs.png(np.full((8, 8, 3), 7, np.uint8))
    (place / "images" / "7.png").write_bytes(picture)
    content = {"numbers": ["age", "height"], "examples": examples}
    (place / "regression.json").write_text(json.dumps(content))
  return run


def test_the_newest_step_is_read_and_a_lost_picture_is_none(workdir, arrays):
  run = load.load_run(workdir)
  (found,) = run.regressions
  assert not run.evaluations and not run.notes
  assert (found.name, found.step) == ("test", 200)
  assert found.numbers == ("age", "height")
  np.testing.assert_array_equal(found.labels, arrays[0].astype(float))
  sample, mistake = found.examples
  assert sample.image is None and mistake.image.startswith(b"\x89PNG")


def test_errors_stand_beside_those_of_the_mean(workdir, arrays):
  (found,) = load.load_run(workdir).regressions
  shown = regressions.section(found)
  label, prediction = (x.astype(float)[:, 0] for x in arrays)
  row = shown.rows[0]
  for text, value in (
    (row.rmse, np.sqrt(((prediction - label) ** 2).mean())),
    (row.mae, np.abs(prediction - label).mean()),
    (row.mean, label.mean()),
    (row.mean_rmse, label.std()),
    (row.mean_mae, np.abs(label - label.mean()).mean()),
  ):
    assert float(text) == pytest.approx(value, rel=1e-3)
  ratio = ((prediction - label) ** 2).mean() / label.var()
  assert float(row.r2) == pytest.approx(1 - ratio, abs=1e-3)


def test_the_page_has_figures_cards_and_the_worst_with_their_numbers(
  workdir, arrays
):
  page = render.render(load.load_run(workdir))
  assert "Predicted against true age on test" in page
  assert "Predicted against true height on test" in page
  label, prediction = (f"{x[7, 0]:.2f}".rstrip("0") for x in arrays)
  assert f">age {prediction}" in page and f"truth {label}" in page
  assert "predictions.csv" in page
  # A picture that is lost is described in its place.
  assert "Test image 0: predicted age" in page
  (card, *_) = overview.cards(load.load_run(workdir))
  assert (card.value, card.name) == ("2.25", "RMSE, test")
  assert card.detail == "R² 0.9; MAE 1.5; 200 images"


def test_a_row_for_each_number_stands_below_their_mean(workdir):
  page = render.render(load.load_run(workdir))
  places = [
    page.index(f'<th scope="row">{name}<') for name in ("test", "test/")
  ]
  assert places == sorted(places)


@pytest.mark.parametrize(
  "content", ["{}", "[", '{"numbers": ["age"]}', '{"numbers": []}']
)
def test_damaged_predictions_leave_a_note(workdir, content):
  path = workdir / "evaluations" / "test" / "200" / "regression.json"
  path.write_text(content)
  run = load.load_run(workdir)
  assert not run.regressions
  assert any("test: the predicted numbers are damaged" in n for n in run.notes)
  render.render(run)


def test_a_damaged_example_leaves_a_note(workdir):
  path = workdir / "evaluations" / "test" / "200" / "regression.json"
  content = json.loads(path.read_text())
  content["examples"][0]["label"] = [1.0]
  path.write_text(json.dumps(content))
  run = load.load_run(workdir)
  assert [one.id for one in run.regressions[0].examples] == [7]
  assert any("test: an example is damaged" in note for note in run.notes)


def test_dots_lie_on_the_line_where_predictions_are_right():
  values = np.array([0.0, 5.0, 10.0])
  drawn = predicted.draw(values, values, unit="age", label="x")
  assert 'class="ideal"' in drawn and drawn.count("h0") == 3
  many = np.linspace(0, 1, 5000)
  drawn = predicted.draw(many, many, unit="age", label="x")
  assert drawn.count("h0") == predicted.MOST_DOTS
  nothing = np.array([np.nan])
  assert predicted.draw(nothing, nothing, unit="age", label="x") is None
