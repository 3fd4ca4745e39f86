"""The names of the package: what `vit_jax.NAME` finds, and what editors see."""

import ast
import inspect
import pathlib

import pytest

import vit_jax

SOURCE = ast.parse(pathlib.Path(vit_jax.__file__).read_text())
# What the block for type checkers imports: name -> module.
SEEN_BY_EDITORS = {
  name.asname: node.module
  for block in SOURCE.body
  if isinstance(block, ast.If)
  for node in block.body
  for name in node.names
}
NAMES = sorted(name for name in dir(vit_jax) if name in SEEN_BY_EDITORS)


def test_editors_see_every_name_that_is_imported_when_used():
  assert NAMES == sorted(SEEN_BY_EDITORS) and "load" in NAMES
  for name in dir(vit_jax):
    value = getattr(vit_jax, name)
    if callable(value) and not name.startswith("_"):
      assert name in SEEN_BY_EDITORS


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_documented_and_typed(name):
  value = getattr(vit_jax, name)
  assert value.__module__ == SEEN_BY_EDITORS[name]
  assert inspect.getdoc(value)
  signature = inspect.signature(value)
  for parameter in signature.parameters.values():
    assert parameter.annotation is not inspect.Parameter.empty


def test_an_unknown_name_is_an_attribute_error():
  with pytest.raises(AttributeError, match="has no attribute 'laod'"):
    _ = vit_jax.laod
