"""Objectives without classes have the same losses on every mesh."""

import dataclasses
import functools
import pathlib
import tempfile

import jax
import ml_collections
import numpy as np
import pytest

from tests import experiments
from tests.objectives.dinov2 import test_frozen
from vit_jax.data.targets import Targets
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.sharding import rules
from vit_jax.training import experiment

CROP = "decode|random_resized_crop|flip_lr"
# Objective -> changes of its config.
OBJECTIVES = {
  "regression": {
    **experiments.REGRESSION,
    "objective__mixup_alpha": 0.4,
    "train__preprocess": "decode|resize|flip_lr",
  },
  "mae": {
    "objective__name": "mae",
    "objective__decoder_width": 32,
    "objective__decoder_depth": 1,
    "objective__decoder_num_heads": 4,
    "train__preprocess": "decode|resize|keep('image')|flip_lr",
  },
  "fcmae": {
    "objective__name": "fcmae",
    "objective__decoder_width": 32,
    "train__preprocess": "decode|resize|keep('image')|flip_lr",
    **dict.fromkeys(("model__width", "model__depth")),
    **dict.fromkeys(("model__num_heads", "model__mlp_dim")),
    "model__name": "convnext",
    "model__variant": "T",
    "model__version": 2,
    "model__depths": (1, 1),
    "model__widths": (8, 16),
    "model__stem_stride": 2,
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
OBJECTIVES["beit v2"] = OBJECTIVES["beit"] | {
  "objective__head_layers": 2,
  "objective__early_layers": 1,
}
# The codes start from the patches of all devices.
OBJECTIVES["vqkd"] = {
  "objective__name": "vqkd",
  "objective__teacher": "random",
  "objective__tokens": 12,
  "objective__code_width": 8,
  "objective__decoder_depth": 1,
  "model__pool": "gap",
  "model__cls_token": True,
  "train__preprocess": "decode|resize|keep('image')|flip_lr",
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
# Each head is clipped by itself, and prototypes thaw after two updates.
OBJECTIVES["dinov2, mean"] = OBJECTIVES["dinov2, sinkhorn"] | {
  "objective__centering": "mean",
  "optimizer__grad_clip": "module",
  "optimizer__grad_clip_norm": 0.5,
  "optimizer__freeze_until": ((r".*_head/prototypes/.*", 2),),
  "optimizer__freeze_until_mode": "zero_rate",
}
# A wider teacher of larger images stays as it is.
OBJECTIVES["dinov2, distilled"] = (
  OBJECTIVES["dinov2, sinkhorn"]
  | test_frozen.STUDENT
  | {"objective__teacher": "written"}
)
_WRITTEN = tempfile.TemporaryDirectory()


@functools.cache
def written():
  """The path of a run that can teach."""
  path = pathlib.Path(_WRITTEN.name) / "teacher"
  test_frozen.write(path, **test_frozen.TEACHER, objective__prototypes=96)
  return str(path)


def built(name, sizes, facts=None, **changes):
  """The parts of an experiment on a mesh of DATA x FSDP x TENSOR devices."""
  changes = {"model__image_size": 16, **OBJECTIVES[name], **changes}
  changes["evals"] = ml_collections.ConfigDict()
  changes.pop("evals__test__type", None)
  if changes.get("objective__teacher") == "written":
    changes["objective__teacher"] = written()
  config = experiments.config(
    **changes,
    **dict(
      zip(("mesh__data", "mesh__fsdp", "mesh__tensor"), sizes, strict=True)
    ),
  )
  devices = jax.devices()[: int(np.prod(sizes))]
  mesh = mesh_lib.create_mesh(config.mesh, devices)
  return experiment.build(config, facts or experiments.facts(config), mesh)


def losses(name, sizes):
  """Five losses on a mesh of DATA x FSDP x TENSOR devices."""
  parts = built(name, sizes)
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


@pytest.mark.parametrize(
  "sizes",
  [(2, 1, 1), (1, 4, 1), pytest.param((2, 1, 2), marks=pytest.mark.slow)],
)
def test_losses_are_those_of_one_device(one_device, sizes, monkeypatch):
  monkeypatch.setattr(rules, "FSDP_MIN_BYTES", 0)
  name, wanted = one_device
  assert len(set(wanted)) == 5
  np.testing.assert_allclose(losses(name, sizes), wanted, rtol=1e-5)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 4, 1), (1, 2, 2)])
def test_heads_that_are_divided_are_exported_in_the_units_of_the_numbers(
  sizes, monkeypatch
):
  monkeypatch.setattr(rules, "FSDP_MIN_BYTES", 0)
  mean, std = np.array([70.0, -4.0]), np.array([8.0, 0.5])
  config = built("regression", (1, 1, 1)).config
  facts = dataclasses.replace(
    experiments.facts(config), targets=Targets(("a", "b"), mean, std)
  )
  parts = built("regression", sizes, facts)
  state = parts.init_state()
  kernel = np.random.default_rng(0).normal(size=(32, 2)).astype(np.float32)
  head = {
    "kernel": jax.device_put(kernel, state.params["head"]["kernel"].sharding),
    "bias": state.params["head"]["bias"],
  }
  exported = parts.exported(
    state.replace(params={**state.params, "head": head})
  )["head"]
  np.testing.assert_allclose(exported["kernel"], kernel * std, rtol=1e-6)
  np.testing.assert_allclose(exported["bias"], mean, rtol=1e-6)
