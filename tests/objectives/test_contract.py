"""Frozen parameters are known by their digest."""

import numpy as np

from vit_jax.objectives import contract


def test_a_digest_is_of_names_dtypes_and_values():
  def params(value=1.0, name="a", dtype=np.float32):
    return {"b": np.zeros((2, 3)), name: np.full(4, value, dtype)}

  same = contract.digest(params())
  assert same == contract.digest(dict(reversed(params().items())))
  others = (params(2.0), params(name="c"), params(dtype=np.float64))
  assert len({same, *map(contract.digest, others)}) == 4
  assert contract.Constants.of("t.npz", params()).digests == {"t.npz": same}
