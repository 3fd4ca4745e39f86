"""Models by name."""

import pytest

from vit_jax import registry
from vit_jax.config import named_sections, names
from vit_jax.errors import UserError


@pytest.mark.parametrize("name", names.known())
def test_every_listed_name_is_found(name):
  model = names.find(name)
  assert registry.FAMILIES.get(model.name).size(model)


def test_names_are_listed_once():
  assert len(set(names.known())) == len(names.known())


@pytest.mark.parametrize(
  "name, keys",
  [
    ("ViT-B/16", dict(variant="B/16")),
    ("B/16", dict(variant="B/16")),
    ("ViT-S/7", dict(variant="S/7")),
    ("R50+B/16", dict(variant="R50+B/16")),
    ("R50+ViT-B/16", dict(variant="R50+B/16")),
    ("R50x1+ViT-L/32", dict(variant="R50+L/32")),
    ("BiT-R50x1", dict(name="resnet", variant="R50x1")),
    ("R152x2", dict(name="resnet", variant="R152x2")),
    ("BiT-R101x5", dict(name="resnet", variant="R101x5")),
  ],
)
def test_name_and_its_other_spellings(name, keys):
  assert names.find(name) == named_sections.section("model", **keys)


@pytest.mark.parametrize(
  "name, nearest",
  [
    ("ViT-X/16", "ViT-"),
    ("vit-b/16", "ViT-B/16"),
    ("ViT-B", "ViT-B/"),
    ("R50+B/8", "R50+B/"),
    ("BiT-R51x1", "BiT-R"),
    ("resnet50", ""),
    ("", ""),
  ],
)
def test_unknown_name_gets_the_nearest(name, nearest):
  with pytest.raises(UserError, match="Did you mean") as error:
    names.find(name)
  assert f"'{name}'" in str(error.value)
  assert f"Did you mean '{nearest}" in str(error.value)


@pytest.mark.parametrize(
  "name, description",
  [
    ("B/16", "ViT-B/16 at 384 pixels"),
    ("R50+B/16", "R50+B/16 at 384 pixels"),
    ("R50x1", "BiT-R50x1 at 384 pixels"),
  ],
)
def test_a_model_with_a_name_is_described_by_it(name, description):
  model = names.find(name).model_copy(update={"image_size": 384})
  assert names.describe(model) == description


def test_a_model_without_a_name_is_described_by_its_sizes():
  model = names.find("Ti/4").model_copy(update={"width": 96, "depth": 4})
  assert "width 96, depth 4, patches of 4 pixels" in names.describe(model)
