"""Objectives without labels have the same losses on every mesh."""

import jax
import ml_collections
import numpy as np
import pytest

from tests import experiments
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.sharding import rules
from vit_jax.training import experiment

CROP = "decode|random_resized_crop|flip_lr"
# Objective -> changes of its config.
OBJECTIVES = {
  "mae": {
    "objective__name": "mae",
    "objective__decoder_width": 32,
    "objective__decoder_depth": 1,
    "objective__decoder_num_heads": 4,
    "train__preprocess": "decode|resize|keep('image')|flip_lr",
  },
  "beit": {
    "objective__name": "beit",
    "objective__tokenizer": "random",
    "objective__tokens": 32,
    "objective__masked_patches": 6,
    "objective__smallest_block": 2,
    "model__pos_embedding": "relative_bias",
    "model__pos_embedding_at": "every_layer_shared",
    "train__preprocess": "decode|resize|keep('image')|flip_lr",
  },
  "feature_prediction": {
    "objective__name": "feature_prediction",
    "objective__teacher": "random",
    "objective__masked_patches": 7,
    "objective__smallest_block": 2,
    "train__preprocess": "decode|resize|keep('image')|flip_lr",
  },
}
for method, centering in (
  ("dino", "mean"),
  ("dino", "sinkhorn"),
  ("dinov2", "sinkhorn"),
):
  OBJECTIVES[f"{method}, {centering}"] = {
    "objective__name": method,
    "objective__centering": centering,
    "objective__prototypes": 96,
    "objective__hidden_width": 32,
    "objective__bottleneck": 16,
    "objective__teacher_momentum": 0.9,
    "schedule__base_lr": 1e-3,
    "train__preprocess": "decode|keep('image')",
    "train__views": {
      "global": {"count": 2, "preprocess": CROP},
      "local": {"count": 2, "preprocess": CROP, "size": 8},
    },
  }
# Parts of groups skip branches; a device holds no fewer crops than a group.
OBJECTIVES["dinov2, groups"] = OBJECTIVES["dinov2, sinkhorn"] | {
  "model__stochastic_depth_rate": 0.4,
  "model__stochastic_depth": "constant",
  "model__stochastic_depth_group": 8,
  "schedule__base_lr": 3e-4,
}


def losses(name, sizes):
  """Five losses on a mesh of DATA x FSDP x TENSOR devices."""
  config = experiments.config(
    model__image_size=16,
    evals=ml_collections.ConfigDict(),
    **OBJECTIVES[name],
    **dict(
      zip(("mesh__data", "mesh__fsdp", "mesh__tensor"), sizes, strict=True)
    ),
  )
  devices = jax.devices()[: int(np.prod(sizes))]
  mesh = mesh_lib.create_mesh(config.mesh, devices)
  parts = experiment.build(config, experiments.facts(config), mesh)
  state, found = parts.init_state(), []
  for step in range(5):
    rng = np.random.default_rng(step % 2)
    batch = {
      feature: jax.device_put(
        drawn(rng, spec.shape).astype(spec.dtype), spec.sharding
      )
      for feature, spec in parts.abstract_batch().items()
    }
    state, metrics = parts.train_step(state, batch)
    found.append(float(metrics["loss"]))
  return found


def drawn(rng, shape):
  """Pixels around a colour of each image.

  Noise alone has one class token for all images, and rounding decides how far
  apart KoLeo finds them.
  """
  noise = rng.integers(0, 256, shape)
  if len(shape) < 4:
    return noise
  colors = rng.integers(0, 256, (*shape[:-3], 1, 1, shape[-1]))
  return (noise + 3 * colors) // 4


@pytest.fixture(scope="module", params=OBJECTIVES)
def one_device(request):
  return request.param, losses(request.param, (1, 1, 1))


@pytest.mark.parametrize("sizes", [(2, 1, 1), (1, 4, 1), (2, 1, 2)])
def test_losses_are_those_of_one_device(one_device, sizes, monkeypatch):
  monkeypatch.setattr(rules, "FSDP_MIN_BYTES", 0)
  name, wanted = one_device
  assert len(set(wanted)) == 5
  np.testing.assert_allclose(losses(name, sizes), wanted, rtol=1e-5)
