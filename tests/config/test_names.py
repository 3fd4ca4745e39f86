"""Names of models, and models described."""

import pytest

from vit_jax.config import names


@pytest.mark.parametrize(
  ("name", "description"),
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
