import html
import html.parser
import json
import re
import subprocess
import sys

import pytest

from tests.report import workdirs
from vit_jax.report import load, panels, render

VOID = {"meta", "link", "img", "wbr", "br"}


class Page(html.parser.HTMLParser):
  """Tags, attributes and text of a page; open tags must match closing ones."""

  def __init__(self, text: str):
    super().__init__()
    self.elements, self.text, self._open = [], "", []
    self.feed(text)
    self.close()
    assert not self._open

  def handle_starttag(self, tag, attrs):
    self.elements.append((tag, dict(attrs)))
    if tag not in VOID:
      self._open.append(tag)

  def handle_endtag(self, tag):
    assert self._open.pop() == tag

  def handle_data(self, data):
    self.text += data

  def all(self, tag):
    return [attributes for name, attributes in self.elements if name == tag]


def page_of(workdir) -> Page:
  with open(render.write_report(workdir), encoding="utf-8") as file:
    return Page(file.read())


def test_the_report_is_one_file_in_the_workdir(finished):
  path = render.write_report(finished)
  assert path == str(finished / "report/index.html")
  render.write_report(finished)  # A second one takes its place.
  assert [p.name for p in (finished / "report").iterdir()] == ["index.html"]


def test_nothing_is_asked_of_the_network(finished):
  path = render.write_report(finished)
  text = open(path, encoding="utf-8").read()
  assert not re.search(r"https?:|//\w+\.|url\(|@import", text)
  page = Page(text)
  for attributes in (a for _, a in page.elements):
    for name in ("src", "href"):
      assert (attributes.get(name) or "data:").startswith(("data:", "#"))
  assert not page.all("script")


def test_the_numbers_are_those_of_the_records(finished):
  page = page_of(finished)
  records = workdirs.learning_records()
  last = {k: v for r in records for k, v in r.items() if k != "step"}
  shown = {float(a["value"]) for a in page.all("data")}
  assert set(last.values()) <= shown
  assert f"{100 * last['eval/test/top1']:.2f}%" in page.text
  mean = 100 * last["fewshot/digits/10shot"]
  std = 100 * last["fewshot/digits/10shot_std"]
  assert f"{mean:.1f} ± {std:.1f}" in page.text
  for text in ("302,890 parameters", "1,500 steps", "2\u00a0×\u00a0cpu"):
    assert text in page.text


def test_command_of_a_run_with_changes_is_that_of_its_last_start(tmp_path):
  workdir = workdirs.write_run(
    tmp_path, config=workdirs.CONFIG, records=workdirs.learning_records()
  )
  assert "Command that reproduces it" in page_of(workdir).text
  summary = json.loads((workdir / "summary.json").read_text())
  summary["changed_keys"] = ["schedule.base_lr", "seed"]
  (workdir / "summary.json").write_text(json.dumps(summary))
  shown = page_of(workdir).text
  assert "Command that reproduces it" not in shown
  assert "other values of schedule.base_lr, seed." in shown


def test_changed_evaluators_are_named_with_their_curves_alone(tmp_path):
  workdir = workdirs.write_run(
    tmp_path, config=workdirs.CONFIG, records=workdirs.learning_records()
  )
  summary = json.loads((workdir / "summary.json").read_text())
  summary["changed_keys"] = ["evals.test.split", "seed"]
  (workdir / "summary.json").write_text(json.dumps(summary))
  shown = page_of(workdir).text
  assert "Earlier steps were trained with other values of seed." in shown
  assert "were evaluated with other values of evals.test.split." in shown
  noted = [
    panel.title
    for panel in panels.panels(load.load_run(workdir))
    if "measured with other evals.test.split." in panel.caption
  ]
  assert noted == ["Loss", "Accuracy"]


def test_config_command_timings_and_versions_are_there(finished):
  page = page_of(finished)
  assert json.dumps(workdirs.CONFIG, indent=2) in page.text
  summary = json.loads((finished / "summary.json").read_text())
  shown = page.text.replace(" \\\n  ", " ")
  assert summary["command"] in shown
  for name, version in summary["versions"].items():
    assert name in page.text and version in page.text
  assert {74.3, 9.8} <= {float(a["value"]) for a in page.all("data")}


def test_the_time_of_all_starts_is_accounted_for(tmp_path):
  workdir = workdirs.write_run(
    tmp_path, config=workdirs.CONFIG, records=workdirs.learning_records()
  )
  summary = json.loads((workdir / "summary.json").read_text())
  summary["goodput"] = {
    "starts": 3,
    "goodput": 0.8125,
    "total_seconds": 320.0,
    "step_seconds": 260.0,
    "lost_seconds": 42.0,
    "compile_seconds": 18.0,
  }
  (workdir / "summary.json").write_text(json.dumps(summary))
  page = page_of(workdir)
  assert "81.2%" in page.text and "goodput" in page.text
  assert "42 s of work were lost" in page.text
  assert "wall clock, over 3 starts" in page.text
  assert {320.0, 260.0, 42.0, 18.0} <= {
    float(a["value"]) for a in page.all("data")
  }


def test_names_are_escaped(tmp_path):
  evil = "<script>alert('x')</script>"
  config = json.loads(json.dumps(workdirs.CONFIG))
  config["train"]["dataset"] = evil
  config["evals"] = {evil.replace("/", ""): {"type": "classification"}}
  name = evil.replace("/", "")
  records = [
    {
      "step": 100 * k,
      f"eval/{name}/top1": 0.5,
      f"eval/{name}/loss": 0.5,
      f"fewshot/{evil}/1shot": 0.5,
    }
    for k in (1, 2)
  ]
  workdir = workdirs.write_run(tmp_path, config=config, records=records)
  workdirs.write_outcomes(
    workdir, name=name, classes=[f'{evil}" onload="{k}' for k in range(10)]
  )
  summary = json.loads((workdir / "summary.json").read_text())
  summary |= {"command": evil, "versions": {evil: evil}, "status": evil}
  summary["changed_keys"] = [evil]
  (workdir / "summary.json").write_text(json.dumps(summary))
  page = page_of(workdir)
  assert not page.all("script")
  assert not [a for _, a in page.elements if "onload" in a]
  assert page.text.count(evil) > 10


def test_every_image_says_what_it_shows(finished):
  page = page_of(finished)
  images = page.all("img")
  assert len(images) == 24 + min(24, _num_mistakes(finished))
  assert all(image["alt"].startswith("Test image") for image in images)
  assert any("wrong, the truth is" in image["alt"] for image in images)
  figures = [a for a in page.all("svg") if "role" in a]
  assert len(figures) >= 9
  assert all(a["role"] == "img" and a["aria-label"] for a in figures)


def _num_mistakes(workdir) -> int:
  path = workdir / "evaluations/test/1500/examples.json"
  kinds = [entry["kind"] for entry in json.loads(path.read_text())]
  return kinds.count("mistake")


def test_verdicts_need_no_colour(finished):
  text = page_of(finished).text
  assert text.count("✓") > 20 and text.count("✗") >= _num_mistakes(finished)
  assert text.count("truth: ") >= _num_mistakes(finished)


def states(tmp_path):
  """Runs with pieces missing, by what they are."""
  records = workdirs.learning_records()
  one = records[:1]
  broken = [{"step": k, "train/loss": None, "train/top1": 0.1} for k in (1, 2)]
  return {
    "config only": {},
    "one line": {"records": one, "status": None},
    "under way": {"records": records[:40], "status": "running"},
    "no config": {"config": None, "records": records},
    "never finite": {"records": broken, "status": "failed"},
    "no few-shot": {
      "records": [
        {k: v for k, v in r.items() if not k.startswith("fewshot")}
        for r in records
      ]
    },
    "null results": {
      "records": [
        *one,
        {"step": 10, "eval/test/top1": None, "fewshot/digits/10shot": None},
      ]
    },
  }


@pytest.mark.parametrize("state", states(None))
def test_a_run_in_any_state_renders(tmp_path, state):
  workdir = workdirs.write_run(tmp_path, **states(tmp_path)[state])
  page = page_of(workdir)
  assert "What was run" in page.text or state == "no config"
  shown = page.text.replace("NaN", "")
  assert not re.search(r"\b(None|nan|inf)\b", shown.split("Provenance")[0])


@pytest.mark.parametrize("piece", ["summary.json", "config.json"])
def test_a_torn_json_file_is_noted(finished, piece):
  (finished / piece).write_text('{"step": 15')
  assert f"{piece} could not be read" in page_of(finished).text


@pytest.mark.parametrize(
  ("num_classes", "num_labels", "matrix", "pairs"),
  [
    (2, 1, True, False),
    (30, 1, True, False),
    (31, 1, False, True),
    (300, 1, False, True),
    (40, 3, False, False),
  ],
)
def test_many_classes_give_pairs_instead_of_a_matrix(
  tmp_path, num_classes, num_labels, matrix, pairs
):
  workdir = workdirs.write_run(tmp_path)
  workdirs.write_outcomes(
    workdir, num_classes=num_classes, num_labels=num_labels
  )
  text = page_of(workdir).text
  assert ("Confusion matrix." in text) == matrix
  assert ("Most confused classes." in text) == pairs


def test_a_model_without_mistakes_renders(tmp_path):
  workdir = workdirs.write_run(tmp_path)
  workdirs.write_outcomes(workdir, accuracy=2.0)
  text = page_of(workdir).text
  assert (
    "450 of 450 images right (100.00%); mean over the classes 100.00%" in text
  )
  assert "Worst mistakes" not in text


def test_a_long_run_stays_a_small_page(tmp_path):
  records = workdirs.learning_records(total_steps=60_000, every=2)
  workdir = workdirs.write_run(tmp_path, records=records)
  text = open(render.write_report(workdir), encoding="utf-8").read()
  assert len(text) < 400_000


def test_rendering_imports_neither_jax_nor_tensorflow(finished):
  code = (
    "import sys; from vit_jax.report import render;"
    f" render.write_report({str(finished)!r});"
    " print([m for m in ('jax', 'tensorflow', 'flax', 'matplotlib')"
    " if m in sys.modules])"
  )
  done = subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, check=True
  )
  assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
  ("status", "said"),
  [
    ("diverged", "loss or gradient not finite after step 60"),
    ("finished", "finished, step 60"),
  ],
)
def test_the_state_is_said_with_the_updates_done(tmp_path, status, said):
  """The update that is not finite is the next one, and is not applied."""
  lines = [{"step": 60, "train/loss": 1.0}]
  workdir = workdirs.write_run(tmp_path, records=lines, status=status)
  assert said in page_of(workdir).text
