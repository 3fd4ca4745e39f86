"""Classes that weigh alike, or as they are told to."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from sklearn.utils import class_weight

from tests import experiments
from vit_jax import checks, rngs
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.objectives import build
from vit_jax.objectives.supervised import class_weights

LABELS = np.repeat([0, 1, 2, 3], [40, 16, 7, 1])


def facts_of(config, **changes):
  known = {"label_counts": np.bincount(LABELS, minlength=4)} | changes
  return dataclasses.replace(experiments.facts(config), **known)


def losses(weights, **changes):
  """The loss of a batch, the logits and the labels."""
  config = experiments.config(
    objective__class_weights=weights,
    train__preprocess="decode|resize",  # No flips.
    **changes,
  )
  objective = build.build(config, facts_of(config), 6)
  params, _ = jax.jit(objective.init)(jax.random.key(0))
  kernel = jax.random.normal(jax.random.key(1), params["head"]["kernel"].shape)
  params = {**params, "head": {**params["head"], "kernel": kernel}}
  rng = np.random.default_rng(0)
  batch = {
    "image": jnp.asarray(rng.integers(0, 256, (16, 8, 8, 3)), jnp.uint8),
    "label": jnp.asarray(rng.integers(0, 4, 16), jnp.int32),
  }
  keys = functools.partial(rngs.stream, 0, step=0)
  prepared = objective.prepare(batch, keys)
  loss, _ = objective.loss(params, {}, {}, prepared, keys, 0)
  logits = objective.outputs(params, batch)["logits"]
  return float(loss), np.asarray(logits, np.float64), np.asarray(batch["label"])


def test_every_image_weighs_what_its_class_does():
  weights = np.array([1.0, 0.5, 4.0, 2.0])
  loss, logits, labels = losses(tuple(weights))
  each = -special.log_softmax(logits, axis=1)[np.arange(16), labels]
  assert loss == pytest.approx((weights[labels] * each).mean(), rel=1e-5)


def test_balanced_weights_are_those_of_scikit_learn():
  objective = schema.Supervised(class_weights="balanced")
  config = experiments.config()
  found = class_weights.of_data(objective, facts_of(config))
  expected = class_weight.compute_class_weight(
    "balanced", classes=np.arange(4), y=LABELS
  )
  np.testing.assert_allclose(found, expected, rtol=1e-6)
  assert found[LABELS].mean() == pytest.approx(1)
  loss, logits, labels = losses("balanced")
  each = -special.log_softmax(logits, axis=1)[np.arange(16), labels]
  assert loss == pytest.approx((expected[labels] * each).mean(), rel=1e-5)


def test_mixed_images_weigh_by_the_shares_of_their_classes():
  plain, _, _ = losses((2.0,) * 4)
  assert plain == pytest.approx(2 * losses(None)[0], rel=1e-6)
  mixed, _, _ = losses((2.0,) * 4, objective__mixup_alpha=0.5)
  unweighted, _, _ = losses(None, objective__mixup_alpha=0.5)
  assert mixed == pytest.approx(2 * unweighted, rel=1e-6)


def test_a_class_without_images_weighs_nothing():
  config = experiments.config()
  counts = facts_of(config, label_counts=np.array([3, 0, 1, 0]))
  objective = schema.Supervised(class_weights="balanced")
  found = class_weights.of_data(objective, counts)
  np.testing.assert_allclose(found, [2 / 3, 0, 2, 0], rtol=1e-6)


@pytest.mark.parametrize(
  ("weights", "changes", "message"),
  [
    ((1.0, 2.0), {}, "has 2 weights, and there are 4 classes"),
    ("balanced", {"label_counts": None}, "CSV files, webdataset's"),
  ],
)
def test_weights_that_do_not_fit_the_data_are_refused(
  weights, changes, message
):
  config = experiments.config(objective__class_weights=weights)
  with pytest.raises(UserError, match=message):
    build.build(config, facts_of(config, **changes), 6)


def test_weights_go_with_one_class_an_image():
  config = experiments.config(
    objective__class_weights="balanced", objective__loss="sigmoid"
  )
  with pytest.raises(UserError, match="use loss 'softmax', or no weights"):
    checks.check(config)
