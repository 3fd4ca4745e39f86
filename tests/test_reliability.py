"""Every promise of the pages on reliability is kept by a test that exists."""

import ast
import re

import pytest


@pytest.fixture(scope="module", params=["notes/reliability", "buckets"])
def page(repo, request):
  return (repo / "docs" / f"{request.param}.md").read_text()


def test_the_tests_it_names_exist(repo, page):
  named = re.findall(r"`(tests/\S+\.py)::(\w+)`", page)
  assert len(named) > 10
  for path, name in named:
    tree = ast.parse((repo / path).read_text())
    functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    assert name in functions, f"{path} has no {name}"


def test_every_row_names_one(page):
  rows = [line for line in page.splitlines() if line.startswith("| ")]
  promises = [row for row in rows if not row.startswith("| promise")]
  assert promises
  for row in promises:
    assert "`tests/" in row, row


@pytest.mark.parametrize("name", ["reliability", "notes/reliability"])
def test_the_keys_it_names_exist(repo, name):
  page = (repo / "docs" / f"{name}.md").read_text()
  from vit_jax.config import resolve, schema

  known = resolve.flatten(schema.Config().model_dump())
  named = set(re.findall(r"(?:config\.)?((?:faults|profile)\.\w+)", page))
  assert named and named <= known.keys()
