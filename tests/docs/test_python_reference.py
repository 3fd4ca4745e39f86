"""The reference of the Python interface: public objects and seams."""

import pytest

import vit_jax
from vit_jax import registry

REGISTRIES = (
  registry.FAMILIES,
  registry.OBJECTIVES,
  registry.EVALUATORS,
  registry.TRACKERS,
)


@pytest.fixture
def pages(hook) -> dict[str, str]:
  return hook("python_reference").pages()


def members(page: str, name: str) -> str:
  """The methods that the page shows of an object."""
  _, _, options = page.partition(f"      heading: {name}\n")
  (line,) = (
    line
    for line in options.splitlines()[:3]
    if line.startswith("      members:")
  )
  return line


@pytest.mark.parametrize("entries", REGISTRIES)
def test_every_record_that_can_be_registered_is_described(pages, entries):
  kind = type(entries.get(entries.names()[0]))
  home = f"::: {kind.__module__}.{kind.__qualname__}\n"
  assert home in pages["reference/extending.md"]


@pytest.mark.parametrize("name", ["Classifier", "Regressor"])
def test_what_can_be_called_shows_its_call(pages, name):
  assert "__call__" in vars(getattr(vit_jax, name))
  shown = members(pages["reference/python.md"], f"vit_jax.{name}")
  assert '"__call__"' in shown


def test_every_public_name_is_there(pages):
  for name in vit_jax.__all__:
    assert f"      heading: vit_jax.{name}\n" in pages["reference/python.md"]
