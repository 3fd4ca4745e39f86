"""Scalars that change over a run, as text."""

import pytest

from vit_jax.config import scalars, schema
from vit_jax.config.scalars import Scalar


def test_a_number_is_constant():
  assert scalars.parse(0.1) == Scalar("constant", 0.1, 0.1)
  assert scalars.is_constant(0.1)
  assert scalars.is_constant("constant(0.1)")
  assert not scalars.is_constant("cosine(0.04, 0.4)")
  assert not scalars.is_constant("constant(0.1, warmup=5)")


def test_text_names_shape_ends_and_lengths():
  text = "linear(0.04, 0.07, over='29 epochs', per='epoch', warmup=10)"
  assert scalars.parse(text) == Scalar(
    "linear", 0.04, 0.07, warmup=10, over="29 epochs", per="epoch"
  )


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("0.1", "not of the form"),
    ("square(1, 2)", "its shape is one of constant, linear, cosine"),
    ("cosine(1)", "takes 2 values"),
    ("constant(1, 2)", "takes 1 value"),
    ("cosine(0, 1, until=3)", "until"),
    ("cosine(0, 1, warmup='soon')", "'soon' is not a duration"),
    ("cosine(0, 1, per='hour')", "per is one of step, epoch"),
    ("cosine(0, 1e999)", "finite"),
    (f"constant({'1' * 401})", "too large"),
    ("constant(1, warmup='5%', warmup_from='low')", "'low'"),
    ("cosine(0, open('x'))", "malformed"),
  ],
)
def test_other_text_is_refused_with_an_example(text, message):
  with pytest.raises(ValueError, match=message) as error:
    scalars.parse(text)
  assert "'cosine(0.04, 0.4)'" in str(error.value)


def test_a_number_in_quotes_is_that_number():
  """As the duration beside it has to be in them."""
  text = "constant(0.07, warmup='10%', warmup_from='0.04')"
  assert schema.Optimizer(weight_decay=text).weight_decay == text
  assert scalars.parse(text).warmup_from == 0.04


def test_the_schema_refuses_what_is_negative_at_times():
  schema.Optimizer(weight_decay="cosine(0.4, 0.04)")
  with pytest.raises(ValueError, match="negative at times"):
    schema.Optimizer(weight_decay="cosine(0.4, -0.04)")
