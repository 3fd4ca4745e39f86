"""Which evaluator speaks for a run."""

import pytest

from vit_jax.config import main_evaluator, schema

CLASSIFICATION = schema.ClassificationEval(type="classification")
FEWSHOT = schema.FewshotEval(type="fewshot")


@pytest.mark.parametrize(
  ("evals", "name"),
  [
    ({"real": CLASSIFICATION, "test": CLASSIFICATION}, "test"),
    ({"few": FEWSHOT, "real": CLASSIFICATION, "v2": CLASSIFICATION}, "real"),
    ({"test": FEWSHOT, "real": CLASSIFICATION}, "real"),
    ({"test": FEWSHOT}, None),
    ({}, None),
  ],
)
def test_test_comes_first_then_the_order_of_the_config(evals, name):
  assert main_evaluator.find(schema.Config(evals=evals)) == name
