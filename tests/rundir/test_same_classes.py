"""The classes of a run that resumes."""

import pytest

from vit_jax.errors import UserError
from vit_jax.pretrained import run_files
from vit_jax.rundir import same_classes

NAMES = ["cat", "dog", "ship"]


@pytest.mark.parametrize("names", [NAMES, tuple(NAMES), None])
def test_the_same_names_go_on(tmp_path, names):
  run_files.write_class_names(tmp_path, NAMES)
  same_classes.check(tmp_path, names)


def test_data_without_names_before_may_have_them_now(tmp_path):
  same_classes.check(tmp_path, NAMES)
  run_files.write_class_names(tmp_path, None)
  same_classes.check(tmp_path, NAMES)


@pytest.mark.parametrize(
  ("names", "words"),
  [
    (["cat", "ship", "wolf"], "class 1 was 'dog' and is 'ship'"),
    (["cat", "dog"], "class 2 was 'ship' and is not there"),
    ([*NAMES, "wolf"], "class 3 was not there and is 'wolf'"),
  ],
)
def test_other_classes_are_refused(tmp_path, names, words):
  run_files.write_class_names(tmp_path, NAMES)
  with pytest.raises(UserError) as error:
    same_classes.check(tmp_path, names)
  assert words in str(error.value)
  assert f"--config.init_from={tmp_path}" in str(error.value)
