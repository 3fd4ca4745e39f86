"""Argument strings of experiment files."""

import pytest

from vit_jax.config import arguments
from vit_jax.errors import UserError


def test_values_take_the_types_of_their_defaults():
  args = arguments.parse(
    "model=L/16,epochs=7,lr=3e-4,smoke,data=i21k",
    model="B/16",
    epochs=90,
    lr=1e-3,
    data=None,
  )
  assert vars(args) == {
    "smoke": True,
    "model": "L/16",
    "epochs": 7,
    "lr": 3e-4,
    "data": "i21k",
  }


def test_without_a_string_the_defaults_stand():
  assert vars(arguments.parse(None, model="B/16")) == {
    "smoke": False,
    "model": "B/16",
  }


@pytest.mark.parametrize(
  ("text", "sentence"),
  [
    ("modle=L/16", 'Unknown config argument "modle"; did you mean "model"?'),
    ("xyzzy", 'Unknown config argument "xyzzy"; known are epochs, model'),
    ("epochs=many", 'epochs = "many" must be a number like 90'),
    ("smoke=perhaps", 'smoke = "perhaps" must be true or false'),
  ],
)
def test_mistakes_are_said_in_a_sentence(text, sentence):
  with pytest.raises(UserError) as error:
    arguments.parse(text, model="B/16", epochs=90)
  assert sentence in str(error.value)


def test_a_choice_that_is_not_known_is_answered_with_the_nearest():
  arguments.check_choice("dataset", "cifar10", ("cifar10", "dtd"))
  with pytest.raises(UserError) as error:
    arguments.check_choice("dataset", "cifar1", ("", "cifar10", "dtd"))
  assert str(error.value) == (
    'Config argument dataset = "cifar1" is not known. Did you mean "cifar10"?'
    " Known: cifar10, dtd."
  )


def test_a_name_given_twice_is_refused():
  with pytest.raises(UserError, match='"smoke" is given twice; give it once'):
    arguments.parse("smoke=False,smoke", model="B/16")
