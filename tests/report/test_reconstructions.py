"""Images of a reconstruction evaluator in a report."""

import json

import numpy as np
import pytest

from tests.report import workdirs
from vit_jax.report import load, render


@pytest.fixture
def workdir(tmp_path):
  """A run that drew two images at two steps; one picture is lost."""
  records = workdirs.learning_records()
  run = workdirs.write_run(tmp_path / "run", records=records)
  for step in (100, 200):
    place = run / "evaluations" / "val" / str(step)
    (place / "images").mkdir(parents=True)
    picture = workdirs.png(np.full((8, 8, 3), 7, np.uint8))
    for name in ("3", "3-masked", "3-reconstruction", "5", "5-masked"):
      (place / "images" / f"{name}.png").write_bytes(picture)
    entries = [{"id": 3, "loss": 0.25}, {"id": 5, "loss": 0.5}]
    (place / "reconstruction.json").write_text(json.dumps(entries))
  return run


def test_the_newest_step_is_read(workdir):
  (found,) = load.load_run(workdir).reconstructions
  assert (found.name, found.step) == ("val", 200)
  first, second = found.images
  assert (first.id, first.loss) == (3, 0.25)
  assert first.reconstruction.startswith(b"\x89PNG")
  assert second.masked and second.reconstruction is None


def test_the_page_shows_each_image_three_times_with_its_loss(workdir):
  page = render.render(load.load_run(workdir))
  assert "Reconstructed by val" in page
  assert 'alt="What was predicted of image 3"' in page
  # A lost picture is named in its place.
  assert ">What was predicted of image 5<" in page
  assert "<p>0.250</p>" in page and "<p>0.500</p>" in page


def test_a_damaged_list_leaves_a_note(workdir):
  path = workdir / "evaluations" / "val" / "200" / "reconstruction.json"
  path.write_text('[{"id": 3}, {"id": 5, "loss": 0.5}]')
  run = load.load_run(workdir)
  assert [image.id for image in run.reconstructions[0].images] == [5]
  assert any("val: an image is damaged" in note for note in run.notes)
