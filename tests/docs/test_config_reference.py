"""The reference of the config: every key, with what the schema says of it."""

import re

import pytest

from vit_jax.config import named_sections, resolve
from vit_jax.config.defaults import default_config
from vit_jax.config.schema import Config, Train


@pytest.fixture
def pages(hook) -> dict[str, str]:
  return hook("config_reference").pages()


def row(pages: dict[str, str], key: str) -> str:
  """The line of the tables that is reached by a link to the key."""
  (line,) = (
    line
    for page in pages.values()
    for line in page.splitlines()
    if f"{{ #{key} }}" in line
  )
  return line


def test_every_key_of_an_experiment_is_there(pages):
  known = set(resolve.flatten(default_config().to_dict()))
  # Parts of a network, whose keys are those of all families.
  known = {key for key in known if not key.startswith("model.image.")}
  known -= {"evals", "train.views"}
  text = "\n".join(pages.values())
  assert known <= set(re.findall(r"\| `([\w.]+)`\{", text))


@pytest.mark.parametrize("group", named_sections.NAMED)
def test_every_registered_name_has_its_own_keys(pages, group):
  page = pages[f"reference/config_{group}.md"]
  assert re.findall(r"^## (.*)", page, re.MULTILINE) == [
    "Always",
    *named_sections.sections(group),
  ]


def test_a_row_says_what_the_schema_says(pages):
  line = row(pages, "train.batch_size")
  assert "integer ≥ 1" in line
  assert f"`{Train().batch_size}`" in line
  meaning = Train.model_fields["batch_size"].description
  assert meaning.replace("[P]", r"\[P\]") in line


def test_bounds_and_choices_are_shown(pages):
  assert "number in [0, 1)" in row(pages, "optimizer.b1")
  assert "`'constant'`, `'linear'`, `'cosine'`" in row(pages, "schedule.decay")
  assert "`'lamb'`, `'lion'`" in row(pages, "optimizer.name")
  assert "integer in [1, 1000] or `None`" in row(pages, "model.vit.depth")
  assert "[duration](config.md#durations)" in row(
    pages, "schedule.warmup_steps"
  )


def test_links_to_keys_are_unique(pages):
  for page in pages.values():
    links = re.findall(r"\{ #([\w.]+) \}", page)
    assert len(links) == len(set(links))


def test_pipes_of_ops_stay_in_their_cell(pages):
  assert "`'decode\\|inception_crop\\|flip_lr'`" in row(
    pages, "train.preprocess"
  )


def test_keys_of_one_config_are_described_once(pages):
  page = pages["reference/config.md"]
  for name in Config.model_fields:
    if name not in named_sections.NAMED:
      assert page.count(f"`{name}`{{ #") + page.count(f"\n## {name}\n") == 1, (
        name
      )
