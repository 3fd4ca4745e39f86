"""Labels of a dataset and classes of a model, matched by their names."""

import logging

import pytest

from vit_jax.errors import UserError
from vit_jax.evaluators.matching_classes import of_labels

MODEL = ["cat", "dog", "ship"]


@pytest.mark.parametrize(
  ("data", "wanted"),
  [
    (["cat", "ship"], [0, 2]),
    (["ship", "cat", "dog"], [2, 0, 1]),
    (["cat", "dog"], None),
    (MODEL, None),
    (None, None),
    # Other words for the same classes.
    (["n0212", "n0211", "n0208"], None),
  ],
)
def test_labels_are_the_classes_of_the_same_names(data, wanted):
  assert of_labels("config.evals.test", data, MODEL) == wanted


def test_of_two_classes_of_one_name_that_of_the_same_number_is_meant():
  model = ["crane", "tench", "crane", "ship"]
  data = ("crane", "ship", "tench")
  assert of_labels("config.evals.test", data, model) == [0, 3, 1]


def test_a_model_without_names_takes_labels_as_they_are():
  assert of_labels("config.evals.test", ["b", "a"], None) is None


def test_a_class_that_is_none_of_the_models_is_refused():
  """The folder of dog was renamed: ship has another number."""
  with pytest.raises(UserError) as error:
    of_labels("config.evals.test", ["cat", "ship", "wolf"], MODEL)
  for word in ("config.evals.test", "wolf", "cat, dog, ship"):
    assert word in str(error.value)


def test_names_that_occur_twice_decide_nothing(caplog):
  """As 'crane' of ImageNet, a bird and a machine, in one of two lists."""
  model = ["crane", "tench", "crane"]
  with caplog.at_level(logging.WARNING):
    found = of_labels("config.evals.test", ["bird", "tench", "crane"], model)
  assert found is None and "bird" in caplog.text


@pytest.mark.parametrize("model", [None, ["cat", "dog", "ship"]])
@pytest.mark.parametrize("data", [("n02", "n07"), ("n02", "n07", "n09")])
def test_lists_of_other_lengths_and_names_are_doubted(data, model, caplog):
  with caplog.at_level(logging.WARNING):
    assert of_labels("evals.test", data, model, num_classes=3) is None
  is_said = "evals.test: the data has 2 classes and the model 3" in caplog.text
  assert is_said == (len(data) == 2)


def test_as_many_classes_of_other_names_are_doubted(caplog):
  with caplog.at_level(logging.WARNING):
    assert of_labels("evals.test", ["elm", "fir", "oak"], MODEL) is None
  for words in ("evals.test", "elm, fir, oak", "cat, dog, ship", "numbered"):
    assert words in caplog.text


@pytest.mark.parametrize(
  "data", [["n02123045", "n02084071", "n04194289"], ["0", "1", "2"]]
)
def test_codes_of_imagenet_and_words_are_not_compared(data, caplog):
  """As most evaluations of published networks would."""
  with caplog.at_level(logging.WARNING):
    assert of_labels("evals.test", data, MODEL, num_classes=3) is None
  assert not caplog.text


@pytest.mark.parametrize("model", [MODEL, ["cat", "hound", "ship"], None])
def test_classes_of_the_same_names_are_not_doubted(model, caplog):
  with caplog.at_level(logging.WARNING):
    of_labels("evals.test", ["cat", "dog", "ship"], model, num_classes=3)
  assert "numbered" not in caplog.text
