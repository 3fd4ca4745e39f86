"""Every shipped config with every key made bad: a sentence, and nothing else.

`resolve` and `checks.check` are what a command calls before it builds or writes
anything.
"""

import pathlib
import random
import re

import pytest

from tests.faults import fuzz
from vit_jax import checks
from vit_jax.config import experiment_file, resolve
from vit_jax.data import sources, spec, splits
from vit_jax.data.registry import OPS

CONFIGS = pathlib.Path(__file__).parents[2] / "configs"
FILES = sorted(p for p in CONFIGS.glob("*.py") if not p.name.startswith("_"))
# All cases of all files are more than 100,000.
NUM_CASES = [
  pytest.param(100, id="some"),
  pytest.param(400, id="more", marks=pytest.mark.slow),
  pytest.param(20_000, id="many", marks=pytest.mark.exhaustive),
]

every_config = pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
  """Nothing may be written to the working directory."""
  monkeypatch.chdir(tmp_path)
  yield
  assert not list(tmp_path.iterdir())


def check(config):
  checks.check(resolve.resolve(config))


@every_config
@pytest.mark.parametrize("num_cases", NUM_CASES)
def test_a_config_with_bad_values_is_answered_with_a_sentence(path, num_cases):
  rng = random.Random(0)
  configs = [
    experiment_file.load(str(path), arguments).to_dict()
    for arguments in (None, "smoke")
  ]
  cases = [
    (config, keys, value)
    for config in configs
    for keys in fuzz.leaves(config)
    for value in fuzz.VALUES
  ]
  assert len(cases) > 10_000
  refused = 0
  chosen = rng.sample(cases, min(num_cases, len(cases)))
  for config, keys, value in chosen:
    what = f"{'.'.join(keys)} = {value!r:.60}"
    bad = fuzz.changed(config, keys, value)
    refused += not fuzz.answers_with_a_sentence(lambda: check(bad), what)  # noqa: B023
  assert refused > len(chosen) / 2


ARGUMENTS = [
  *("1", "0", "-1", "224", "0.5", "1e999", "nan", "None", "True", "'a'"),
  *("[1,2]", "{}", "lambda: 0", "x", "a.b", "9" * 4301, "b'x'", "[[0]]"),
  *("*a", "**k", "size=16", "size=None", "area_min=-5", "scale=-1", "keys=1"),
  *("f'{1}'", "(", ")", "'", "\\", "\n", "\0", "é", "#", "((" * 150),
  *("-" * 3000 + "1", "10**10**10", "'a' * 10**10", "1 if 1 else 1"),
  "__import__('os').system('touch written')",
]


def preprocessing(rng):
  """A string that resembles one of ops."""

  def op():
    name = rng.choice([*OPS, "", "foo", "normalize", "1", "a.b", "__class__"])
    if rng.random() < 0.6:
      given = [rng.choice(ARGUMENTS) for _ in range(rng.randrange(4))]
      name += "(" + ",".join(given) + rng.choice([")", ")", ""])
    return name

  ops = [op() for _ in range(rng.randrange(4))]
  text = "|".join(["decode"] * (rng.random() < 0.7) + ops)
  if rng.random() < 0.2:
    at = rng.randrange(len(text) + 1)
    text = text[:at] + rng.choice(ARGUMENTS) + text[at:]
  return text


NUM_STRINGS = [
  pytest.param(3000, id="some"),
  pytest.param(30_000, id="many", marks=pytest.mark.exhaustive),
]


@pytest.mark.parametrize("num_cases", NUM_STRINGS)
def test_bad_preprocessing_is_answered_with_a_sentence(num_cases):
  rng = random.Random(1)
  good = 0
  for _ in range(num_cases):
    text = preprocessing(rng)
    good += fuzz.answers_with_a_sentence(
      lambda: spec.check(text, image_size=16),  # noqa: B023
      f"{text:.200}",
    )
  assert good > num_cases / 100  # Some are near enough to be right.


PIECES = [*"abct[]:+-%_ 01239/.=,;'\"\\\n\0é*(){}"]
PIECES += ["train", "test", "[:", "from_", "generated:", "classes=", "size="]
PIECES += ["folder", "digits", "cifar10", ":3.0.2", "10" * 2500, "../", "[0:0]"]


@pytest.mark.parametrize("num_cases", NUM_STRINGS)
def test_bad_datasets_and_splits_are_answered_with_a_sentence(num_cases):
  rng = random.Random(2)
  lengths = {"train": [10, 5], "test": [0]}
  for _ in range(num_cases):
    text = "".join(rng.choices(PIECES, k=rng.randrange(12)))
    for call in (
      lambda t: sources.check(t),
      lambda t: sources.check(f"generated:{t}"),
      splits.parse,
      lambda t: splits.resolve(t, lengths, dataset="toy"),
    ):
      fuzz.answers_with_a_sentence(lambda: call(text), f"{text:.200}")  # noqa: B023


def test_a_sentence_names_the_key(repo):
  config = experiment_file.load(str(CONFIGS / "quickstart.py"), None)
  config = config.to_dict()
  for keys in fuzz.leaves(config):
    name = "config." + ".".join(keys)
    bad = fuzz.changed(config, keys, object())
    with pytest.raises(Exception, match=re.escape(name)):
      check(bad)
