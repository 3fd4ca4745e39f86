"""Maps of several layers, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.models.networks import random_params, tiny
from vit_jax.evaluators import joined_maps
from vit_jax.models import build as models_build
from vit_jax.models.features import features


def test_maps_are_normalised_patches_in_the_order_of_layers():
  network = tiny(None, image_size=16, depth=2, registers=2)
  params = random_params(network)
  section = models_build.config_of(network)
  maps = joined_maps.joined_maps(section, blocks=2, key="k")
  image = np.random.default_rng(0).integers(0, 256, (2, 16, 16, 3), np.uint8)
  image = jnp.asarray(image)
  found = np.asarray(jax.jit(maps)(params, image))
  assert found.shape == (2, 4, 4, 32)
  names = ["layer_00/tokens", "encoded"]
  first, encoded = map(
    np.asarray, features(network, params, image, names).values()
  )
  norm = params["Transformer"]["encoder_norm"]
  centred = first - first.mean(axis=-1, keepdims=True)
  deviation = np.sqrt(first.var(axis=-1, keepdims=True) + 1e-6)
  first = centred / deviation * norm["scale"] + norm["bias"]
  # The class token and registers are left out; patches lie row by row.
  for number, wanted in enumerate((first, encoded)):
    np.testing.assert_allclose(
      found[..., 16 * number : 16 * (number + 1)],
      wanted[:, 3:].reshape(2, 4, 4, 16),
      rtol=1e-4,
      atol=1e-5,
    )
