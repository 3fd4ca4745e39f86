import pytest

from vit_jax.config import named_sections, schema
from vit_jax.data import features
from vit_jax.errors import UserError
from vit_jax.objectives import build


def _config(preprocess="decode|resize", pool="cls", **objective):
  return schema.Config(
    total_steps=1,
    model=named_sections.section("model", pool=pool),
    train=schema.Train(preprocess=preprocess),
    objective=named_sections.section("objective", **objective),
  )


def check(config):
  build.check(config, features.check(config))


@pytest.mark.parametrize(
  ("keys", "message"),
  [
    ({"name": "supervise"}, "objective.name = 'supervise' is .*'supervised'"),
    ({"pool": "none"}, "config.model.pool"),
    (
      {"loss": "sigmoid", "label_smoothing": 0.5},
      "objective.label_smoothing = 0.5 leaves",
    ),
    (
      {"preprocess": "decode|resize|keep('image')"},
      "config.train.preprocess = .* drops the labels",
    ),
  ],
)
def test_what_cannot_be_built_is_a_sentence(keys, message):
  with pytest.raises(UserError, match=message):
    check(_config(**keys))


def test_defaults_and_the_papers_loss_pass():
  check(_config())
  check(_config(loss="sigmoid", label_smoothing=1e-4))
