"""The names of a run's classes, from its data to whoever reads its workdir."""

import pytest

from vit_jax.errors import UserError
from vit_jax.pretrained import class_names


@pytest.mark.parametrize("names", [("cat", "Hündin", 'a "b"\n<c>'), None])
def test_names_come_back_as_they_were_written(tmp_path, names):
  class_names.write(tmp_path, names)
  assert class_names.read(tmp_path) == names


def test_a_workdir_without_the_file_knows_no_names(tmp_path):
  assert class_names.read(tmp_path) is None


@pytest.mark.parametrize("text", ["", "[", "{}", "[1, 2]", '"cat"', "3"])
def test_another_thing_in_the_file_is_told_by_its_path(tmp_path, text):
  (tmp_path / class_names.FILE).write_text(text)
  with pytest.raises(UserError, match="classes.json"):
    class_names.read(tmp_path)
