"""Queries of a retrieval evaluator in a report."""

import json

import numpy as np
import pytest

from tests.report import workdirs
from vit_jax.report import load, render


def answer(right, **what):
  return {"right": right, "similarity": 0.25, **what}


QUERIES = {
  "text_to_image": [
    {
      "text": "a <b>dog</b> on grass",
      "right": True,
      "answers": [answer(True, image=3), answer(False, image=8)],
    }
  ],
  "image_to_text": [
    {
      "image": 3,
      "right": False,
      "answers": [answer(False, text="a cat"), answer(True, text="my dog")],
    }
  ],
}


@pytest.fixture
def workdir(tmp_path):
  """A run that evaluated two datasets of the evaluator `find` twice."""
  records = workdirs.learning_records()
  run = workdirs.write_run(tmp_path / "run", records=records)
  for dataset in ("flickr", "5"):
    for step in (100, 200):
      place = run / "evaluations" / "find" / dataset / str(step)
      (place / "images").mkdir(parents=True)
      picture = workdirs.png(np.full((8, 8, 3), 7, np.uint8))
      (place / "images" / "3.png").write_bytes(picture)
      (place / "retrieval.json").write_text(json.dumps(QUERIES))
  return run


def test_the_newest_step_of_each_dataset_is_read(workdir):
  found = load.load_run(workdir).retrievals
  assert [(one.name, one.step) for one in found] == [
    ("find/5", 200),
    ("find/flickr", 200),
  ]
  (query,) = found[1].text_to_image
  assert query.right and query.text == "a <b>dog</b> on grass"
  assert [one.id for one in query.answers] == [3, 8]
  assert query.answers[0].image.startswith(b"\x89PNG")
  assert query.answers[1].image is None


def test_the_page_shows_queries_with_their_answers(workdir):
  page = render.render(load.load_run(workdir))
  assert "Found by find/flickr" in page
  assert "a &lt;b&gt;dog&lt;/b&gt; on grass" in page
  assert '<span class="absent">Image 8</span>' in page
  assert "my dog" in page and "0.250" in page


def test_a_damaged_query_is_a_note(workdir):
  place = workdir / "evaluations" / "find" / "flickr" / "200"
  damaged = json.loads(json.dumps(QUERIES))
  del damaged["image_to_text"][0]["right"]
  damaged["text_to_image"][0]["answers"] = 3
  (place / "retrieval.json").write_text(json.dumps(damaged))
  run = load.load_run(workdir)
  assert sum("a query is damaged" in note for note in run.notes) == 2
  render.render(run)
  (place / "retrieval.json").write_text("{")
  run = load.load_run(workdir)
  assert any("retrieval.json could not be read" in n for n in run.notes)
  render.render(run)
