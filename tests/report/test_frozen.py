from tests.report import comparisons, workdirs
from vit_jax.report import frozen, load, render


def run_with(tmp_path, metrics):
  config = {**workdirs.CONFIG, "evals": comparisons.EVALS}
  records = [{"step": 10, **metrics}]
  return load.load_run(
    workdirs.write_run(tmp_path, config=config, records=records)
  )


def test_datasets_are_rows_and_classifiers_columns(tmp_path):
  metrics = {
    "knn/digits/k20": 0.7,
    "knn/digits/k5": 0.8,
    "linear_probe/digits/top1": 0.9,
    "linear_probe/digits/l2": 1e-3,
    "linear_probe/pets/top1": 0.6,
  }
  table = frozen.table(run_with(tmp_path, metrics))
  assert table.heads == ("k = 5", "k = 20", "linear probe")
  assert table.rows == {"digits": (0.8, 0.7, 0.9), "pets": (None, None, 0.6)}
  text = " ".join(table.protocol)
  assert "exp(cosine / 0.07)" in text and "logistic regression" in text


def test_no_metrics_give_no_table(tmp_path):
  assert frozen.table(run_with(tmp_path, {"train/loss": 1.0})) is None


def test_the_report_of_a_run_has_them_and_the_l2_of_few_shots(tmp_path):
  page = render.render(run_with(tmp_path, comparisons.metrics()))
  assert '<data value="0.95">95.00</data>' in page
  assert "k = 20" in page and "exp(cosine / 0.07)" in page
  assert "Its l2 is 1024, fixed beforehand." in page
