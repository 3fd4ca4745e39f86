"""The page that translates other projects' flags into keys of the config."""

import re

import pytest

from vit_jax.config import defaults, key_suggestions, resolve, schema

PAGE = "docs/migrating.md"
_CODE = re.compile(r"`([^`]+)`")


def rows(repo) -> list[tuple[list[str], list[str]]]:
  """Names of both columns of the tables, without values."""
  found = []
  for line in (repo / PAGE).read_text(encoding="utf-8").splitlines():
    if line.startswith("| ") and " | " in line and "`" in line:
      there, here = line.replace("\\|", "").strip("| ").split(" | ", 1)
      found.append((_CODE.findall(there), _CODE.findall(here)))
  return found


def known() -> set[str]:
  """Keys of the config, with those of every objective and evaluator."""
  keys = set(resolve.flatten(defaults.default_config().to_dict()))
  for part in vars(schema).values():
    if isinstance(part, type) and issubclass(part, schema.Eval):
      keys |= {f"evals.NAME.{name}" for name in part.model_fields}
  return keys


@pytest.fixture(scope="module")
def table(repo):
  return rows(repo)


def test_every_key_exists(table):
  keys = {
    re.sub(r"^evals\.x\.", "evals.NAME.", name.partition("=")[0])
    for _, here in table
    for name in here
    if re.fullmatch(r"[a-z_]+(\.[A-Za-z_]+)*(=.*)?", name)
  }
  sections = {"evals.NAME", *defaults.default_config()}
  keys = {key for key in keys if "." in key or key in sections}
  keys = {key for key in keys if not key.startswith("config.")}
  assert len(keys) > 60
  assert sorted(keys - known()) == []


def test_a_message_names_the_key_of_the_page(table):
  """Suggestions for foreign names are those of the page."""
  compared = 0
  for there, here in table:
    # Two towers have in sections of their own what others have in one.
    keys = [
      re.sub(r"^model\.(image|text)\.", "model.", name.partition("=")[0])
      for name in here
    ]
    for name in there:
      name = name.partition("=")[0].rpartition(".")[2]
      name = name.lstrip("-").replace("-", "_")
      key = key_suggestions.OURS.get(name)
      if key is not None and not here[0].startswith("configs/"):
        compared += 1
        assert key in keys, (name, here)
  assert compared > 40
