"""Figures 3 to 5: every number of the paper and every run is in them."""

import html
import json
import re
import xml.etree.ElementTree

import pytest

from tests.report.tables import workdirs
from vit_jax.paper import results
from vit_jax.report.tables import output, page, runs, scatters
from vit_jax.report.tables.measuring import Measured, Measurement


def titles(figure):
  found = re.findall(r'class="(hollow|marker)[^"]*"><title>([^<]*)', figure.svg)
  found = [(kind, html.unescape(title)) for kind, title in found]
  return [title for kind, title in found if kind == "hollow"], [
    title for kind, title in found if kind == "marker" and ":" in title
  ]


def test_figure_5_has_all_of_table_6_twice():
  mean, imagenet = scatters.against_cost(Measured({}))
  for figure in (mean, imagenet):
    printed, measured = titles(figure)
    assert len(printed) == len(results.TABLE_6.rows) and measured == []
  assert "R50x1, 7 epochs, the paper's: 77.54%" in titles(imagenet)[0]
  # Table 7 prints this mean.
  assert "R50x1, 7 epochs, the paper's: 89.33%" in titles(mean)[0]


def test_a_mean_needs_all_its_columns():
  index = results.TABLE_6.rows.index(results.TABLE_6.find("R50x1"))
  some = {(index, "imagenet"): Measurement((77.0, 78.0), ("a", "b"))}
  mean, imagenet = scatters.against_cost(Measured(some))
  assert titles(mean)[1] == []
  assert titles(imagenet)[1] == ["R50x1, 7 epochs, ours: 77.50%"]
  every = {(index, k): Measurement((80.0,), ("a",)) for k in results.AVERAGED}
  mean, _ = scatters.against_cost(Measured(every))
  assert titles(mean)[1] == ["R50x1, 7 epochs, ours: 80.00%"]


def test_figure_3_has_table_5_on_imagenet():
  (figure,) = scatters.against_pretraining(Measured({}))
  printed, _ = titles(figure)
  assert len(printed) == len(results.TABLE_5.rows)
  assert "ViT-H/14, ImageNet-21k, the paper's: 85.13%" in printed


def few(directory, images, value, **more):
  return workdirs.pretrain(
    directory,
    "configs/pretrain.py:model=B/16,data=jft",
    metrics={scatters.FEWSHOT: value},
    train__split=f"train[:{images}]",
    **more,
  )


def test_figure_4_averages_seeds(tmp_path):
  for seed, value in enumerate((0.4, 0.5)):
    few(tmp_path / f"s{seed}", 9_000_000, value, seed=seed)
  few(tmp_path / "more", 30_000_000, 0.6)
  (figure,), remarks = scatters.against_examples(runs.find(tmp_path, {})[0])
  _, measured = titles(figure)
  assert [t.rpartition("pixels, ")[2] for t in measured] == [
    "9,000,000 images: s0, s1",
    "30,000,000 images: more",
  ]
  assert figure.svg.count('class="bar') == 1 and remarks == []


def test_figure_4_has_the_best_of_a_run(tmp_path):
  """As the paper stops its runs early."""
  run = few(tmp_path / "a", 9_000_000, 0.2)
  lines = [
    json.dumps({"step": step, scatters.FEWSHOT: value}) + "\n"
    for step, value in ((1, 0.3), (2, 0.45), (3, None), (4, 0.2))
  ]
  (run / "metrics.jsonl").write_text("".join(lines))
  (one,) = runs.find(tmp_path, {})[0]
  assert one.largest[scatters.FEWSHOT] == 0.45
  assert one.metrics[scatters.FEWSHOT] == 0.2
  other = few(tmp_path / "b", 9_000_000, 0.45, seed=1)
  (figure,), _ = scatters.against_examples(runs.find(tmp_path, {})[0])
  assert 'class="bar' in figure.svg
  (other / "metrics.jsonl").unlink()  # Its summary has no such metric.
  (figure,), _ = scatters.against_examples(runs.find(tmp_path, {})[0])
  assert 'class="bar' not in figure.svg


def test_figure_4_tells_networks_and_datasets_apart(tmp_path):
  few(tmp_path / "usual", 9_000_000, 0.4)
  few(tmp_path / "gap", 9_000_000, 0.5, model__pool="gap")
  workdirs.pretrain(
    tmp_path / "masked",
    "configs/selfsupervised.py",
    metrics={scatters.FEWSHOT: 0.6},
  )
  (figure,), (remark,) = scatters.against_examples(runs.find(tmp_path, {})[0])
  assert remark == "masked is left out: it is trained by masked_patch."
  assert [title.rpartition(", 9,")[0] for title in titles(figure)[1]] == [
    "ViT-B/16 at 224 pixels",
    "ViT-B/16 at 224 pixels, pool gap",
  ]
  few(tmp_path / "other", 9_000, 0.5, train__dataset="imagenet2012")
  (figure,), _ = scatters.against_examples(runs.find(tmp_path, {})[0])
  assert (
    "ViT-B/16 at 224 pixels, imagenet2012, 9,000 images: other"
    in (titles(figure)[1])
  )


def test_figure_4_says_which_runs_it_leaves_out(tmp_path):
  few(tmp_path / "half", 9_000_000, 0.4, status="preempted")
  few(tmp_path / "own", 9_000_000, 0.4, train__dataset="mine")
  workdirs.pretrain(
    tmp_path / "unknown",
    metrics={scatters.FEWSHOT: 0.5},
    train__dataset="mine",
  )
  figures, remarks = scatters.against_examples(runs.find(tmp_path, {})[0])
  assert len(figures) == 1
  assert len(remarks) == 2
  assert "half is left out: it is 'preempted'" in remarks[0]
  assert "unknown is left out: the number of images in 'train'" in remarks[1]


def test_the_page_has_figure_4_and_what_it_leaves_out(tmp_path):
  few(tmp_path / "whole", 9_000_000, 0.4)
  few(tmp_path / "half", 9_000_000, 0.4, status="preempted", seed=1)
  text = output.render(5, "html", runs=str(tmp_path))
  assert text.count("<figure>") == 2
  assert "9,000,000 images: whole<" in text
  assert "half is left out: it is &#39;preempted&#39;" in text


def test_figure_4_shows_any_metric(tmp_path):
  workdirs.pretrain(tmp_path / "a", metrics={"eval/val/top1": 0.25})
  found, _ = runs.find(tmp_path, {})
  assert scatters.against_examples(found) == ([], [])
  (figure,), _ = scatters.against_examples(found, "eval/val/top1")
  assert "14,000,000 images: a" in titles(figure)[1][0]


@pytest.mark.parametrize("make", [scatters.against_cost])
def test_a_file_of_its_own_is_xml_with_both_plots(make):
  text = page.standalone(make(Measured({})))
  root = xml.etree.ElementTree.fromstring(text)
  assert root.tag == "{http://www.w3.org/2000/svg}svg"
  inner = root.findall("{http://www.w3.org/2000/svg}svg")
  assert [float(one.get("x")) for one in inner][0] == 0
  assert float(inner[1].get("x")) > float(inner[0].get("width"))
