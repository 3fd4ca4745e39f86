"""Experiment files: finding, loading and explaining them."""

import pytest

from vit_jax.config import experiment_file
from vit_jax.errors import UserError


@pytest.mark.parametrize(
  ("text", "end"),
  [
    ("def f():\n  assert False\ndef get_config():\n  f()", "line 2): Assert"),
    ("import json\n\njson.loads('{')", "line 3): JSONDecodeError"),
    ("import math\nimport broken", "line 2): SyntaxError"),
    ("import os\nos.chdir('/')\n1 / 0", "line 3): ZeroDivisionError"),
  ],
)
def test_the_line_is_the_config_files_also_by_a_relative_path(
  tmp_path, monkeypatch, text, end
):
  (tmp_path / "experiment.py").write_text(text)
  (tmp_path / "broken.py").write_text("x = (")
  monkeypatch.syspath_prepend(tmp_path)
  monkeypatch.chdir(tmp_path)
  with pytest.raises(UserError) as error:
    experiment_file.load("experiment.py", None)
  assert f"(experiment.py, {end}" in str(error.value)


@pytest.mark.parametrize(
  ("value", "sentence"),
  [
    ("FrozenConfigDict({})", "FrozenConfigDict, whose keys cannot be"),
    (
      "ConfigDict({'train': {'seed': config_dict.required_placeholder(int)}})",
      "config.train.seed in .*: required_placeholder is read before",
    ),
  ],
)
def test_a_config_whose_keys_cannot_be_overridden_is_refused(
  tmp_path, value, sentence
):
  path = tmp_path / "experiment.py"
  path.write_text(
    "from ml_collections import ConfigDict, FrozenConfigDict, config_dict\n"
    f"def get_config(): return {value}"
  )
  with pytest.raises(UserError, match=sentence):
    experiment_file.load(str(path), None)


def test_arguments_that_a_config_does_not_take_are_named(tmp_path):
  path = tmp_path / "experiment.py"
  path.write_text("def get_config(): pass")
  with pytest.raises(UserError, match="takes no argument, and 'smoke' is"):
    experiment_file.load(str(path), "smoke")
