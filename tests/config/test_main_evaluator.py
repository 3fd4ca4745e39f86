"""Which evaluator speaks for a run, and how its images are prepared."""

import pytest

from vit_jax.config import main_evaluator, schema

CLASSIFICATION = schema.ClassificationEval(type="classification")
REGRESSION = schema.RegressionEval(type="regression")
FEWSHOT = schema.FewshotEval(type="fewshot")


@pytest.mark.parametrize(
  ("evals", "name"),
  [
    ({"real": CLASSIFICATION, "test": CLASSIFICATION}, "test"),
    ({"few": FEWSHOT, "real": CLASSIFICATION, "v2": CLASSIFICATION}, "real"),
    ({"test": FEWSHOT, "real": CLASSIFICATION}, "real"),
    ({"few": FEWSHOT, "val": REGRESSION}, "val"),
    ({"test": FEWSHOT}, None),
    ({}, None),
  ],
)
def test_test_comes_first_then_the_order_of_the_config(evals, name):
  assert main_evaluator.find(schema.Config(evals=evals)) == name


def data(kind, preprocess):
  return {"data": kind(preprocess=preprocess)}


WORDS = schema.ZeroShotEval(
  type="zeroshot",
  datasets=data(schema.ZeroShotDataset, "decode|resize(scale=2.0)"),
)
FIND = schema.RetrievalEval(
  type="retrieval", datasets=data(schema.RetrievalDataset, "decode|pad")
)


@pytest.mark.parametrize(
  ("evals", "preprocess"),
  [
    ({"find": FIND, "words": WORDS, "test": CLASSIFICATION}, "decode|resize"),
    ({"few": FEWSHOT, "find": FIND, "words": WORDS}, WORDS),
    ({"find": FIND}, FIND),
    ({"few": FEWSHOT}, None),
  ],
)
def test_a_classifier_comes_before_words_and_words_before_search(
  evals, preprocess
):
  if isinstance(preprocess, schema.Eval):
    preprocess = preprocess.datasets["data"].preprocess
  assert main_evaluator.preprocess(schema.Config(evals=evals)) == preprocess
