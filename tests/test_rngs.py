"""Random keys derived from seed, name and step."""

import jax
import numpy as np

from vit_jax import rngs


def data(key):
  return np.asarray(jax.random.key_data(key)).tolist()


def test_the_same_arguments_give_the_same_key_under_jit_too():
  key = rngs.stream(3, "dropout", 7)
  jitted = jax.jit(lambda step: rngs.stream(3, "dropout", step))(7)
  assert data(key) == data(jitted)


def test_seed_name_and_step_each_change_the_key():
  keys = [
    rngs.stream(*arguments)
    for arguments in [(0, "a", 0), (1, "a", 0), (0, "b", 0), (0, "a", 1)]
  ]
  assert len({tuple(data(key)) for key in keys}) == 4
