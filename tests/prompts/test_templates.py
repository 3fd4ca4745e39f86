"""Templates: CLIP's, a file's, and sentences."""

import pytest

from vit_jax.errors import UserError
from vit_jax.prompts import templates


@pytest.mark.parametrize(
  ("name", "count"), [("clip80", 80), ("clip7", 7), ("cifar18", 18)]
)
def test_the_published_lists_are_whole(name, count):
  found = templates.read([name], key="k")
  assert len(found) == len(set(found)) == count
  assert all(one.count("{}") == 1 for one in found)


def test_the_seven_are_among_the_eighty():
  few, all_ = (templates.read([n], key="k") for n in ("clip7", "clip80"))
  assert set(few) < set(all_)


def test_sources_are_joined_in_their_order(tmp_path):
  path = tmp_path / "mine.txt"
  path.write_text("a {} at night\n\nthe {}.\n")
  found = templates.read(["{}", str(path), "an x-ray of a {}"], key="k")
  assert found == ["{}", "a {} at night", "the {}.", "an x-ray of a {}"]


@pytest.mark.parametrize(
  ("sources", "words"),
  [
    ([], "is empty"),
    (["{"], "must have one {}"),
    (["{} and {}"], "must have one {}"),
    (["clip79"], "no file clip79"),
    (["a photo"], "'a photo' must have one {}"),
  ],
)
def test_what_is_no_template_is_a_sentence(sources, words):
  with pytest.raises(UserError, match=words):
    templates.read(sources, key="config.evals.z.templates")


def test_a_line_without_a_place_for_the_name_is_quoted(tmp_path):
  path = tmp_path / "mine.txt"
  path.write_text("a {}\na photo\n")
  with pytest.raises(UserError, match="mine.txt: the template 'a photo'"):
    templates.read([str(path)], key="k")
