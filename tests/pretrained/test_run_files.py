"""The names of a run's classes, from its data to whoever reads its workdir."""

import pytest

from vit_jax.errors import UserError
from vit_jax.pretrained import run_files


@pytest.mark.parametrize("names", [("cat", "Hündin", 'a "b"\n<c>'), None])
def test_names_come_back_as_they_were_written(tmp_path, names):
  run_files.write_class_names(tmp_path, names)
  assert run_files.read_class_names(tmp_path) == names


def test_a_workdir_without_the_file_knows_no_names(tmp_path):
  assert run_files.read_class_names(tmp_path) is None


@pytest.mark.parametrize("text", ["", "[", "{}", "[1, 2]", '"cat"', "3"])
def test_another_thing_in_the_file_is_told_by_its_path(tmp_path, text):
  (tmp_path / run_files.CLASSES).write_text(text)
  with pytest.raises(UserError, match="classes.json"):
    run_files.read_class_names(tmp_path)
