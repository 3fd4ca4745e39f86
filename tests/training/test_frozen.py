"""Parameters that `optimizer.freeze` names: unchanged, and not paid for."""

import jax
import numpy as np
import pytest

from tests import experiments
from vit_jax import trees

FROZEN = {"optimizer__freeze": "backbone", "optimizer__weight_decay": 0.5}


@pytest.mark.parametrize("name", ["adamw", "sgd", "lamb", "muon"])
def test_they_are_equal_to_the_bit_after_training(name):
  parts = experiments.build(
    ema_decay=0.9, model__dropout_rate=0.1, optimizer__name=name, **FROZEN
  )
  state = parts.init_state()
  before = trees.named_leaves(jax.device_get(state.params))
  for number in range(3):
    state, _ = parts.train_step(state, experiments.batch(parts, number))
  params, average = jax.device_get((state.params, state.ema_params))
  after = zip(
    trees.named_leaves(params), trees.named_leaves(average), strict=True
  )
  for (path, old), ((_, new), (_, mean)) in zip(before, after, strict=True):
    changed = path.startswith("head/")
    assert np.array_equal(old, new) != changed, path
    assert np.array_equal(old, mean) != changed, path


def test_they_have_no_optimizer_state():
  parts = experiments.build(**FROZEN)
  state = parts.abstract_state
  head = trees.num_elements(state.params["head"])
  moments = [x for x in jax.tree.leaves(state.opt_state) if x.ndim]
  assert sum(x.size for x in moments) == 2 * head


def test_the_backward_pass_through_them_is_not_computed():
  """Forward and backward are 3 x forward; the head's part is small."""

  def flops(**changes):
    compiled = experiments.build(**changes).compile()
    return compiled.cost_analysis()["flops"]

  sgd = {"optimizer__name": "sgd", "model__mlp_dim": 256}
  ratio = flops(optimizer__freeze="backbone", **sgd) / flops(**sgd)
  assert ratio < 0.4
