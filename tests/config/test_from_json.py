"""A run's config.json as a config to start from."""

import pytest

from tests import experiments
from vit_jax.config import defaults, from_json, resolve
from vit_jax.errors import UserError


@pytest.fixture
def path(tmp_path):
  """The config of a run, with tuples, evaluators and optional keys in it."""
  config = experiments.config(
    ema_decay=0.9,
    optimizer__lr_multipliers=(("head/.*", 2.0),),
    schedule__warmup_steps="16 examples",
    evals__shots=defaults.default_eval(
      type="fewshot",
      datasets={"own": defaults.default_fewshot_dataset(dataset="digits")},
    ),
  )
  path = tmp_path / "config.json"
  path.write_text(resolve.dump(config))
  return path


def test_it_resolves_to_what_it_was_made_of(path):
  again = resolve.resolve(from_json.get_config(str(path)))
  assert again == resolve.load(path.read_text())


def test_its_keys_can_be_overridden_with_any_type(path):
  config = from_json.get_config(str(path))
  config.lock()
  config.schedule.warmup_steps = 3
  config.ema_decay = None
  config.evals.test.every_steps = "2 epochs"
  assert resolve.resolve(config).schedule.warmup_steps == 3


@pytest.mark.parametrize(
  ("text", "sentence"),
  [
    ("{", "not complete JSON"),
    ('{"tortal_steps": 3}', 'Did you mean "config.total_steps"'),
  ],
)
def test_a_file_that_does_not_fit_is_a_sentence(tmp_path, text, sentence):
  path = tmp_path / "config.json"
  path.write_text(text)
  with pytest.raises(UserError, match=sentence):
    from_json.get_config(str(path))


def test_a_file_that_is_not_there_is_a_sentence(tmp_path):
  with pytest.raises(UserError, match="cannot be read: No such file"):
    from_json.get_config(str(tmp_path / "config.json"))
