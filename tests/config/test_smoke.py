"""Shrunk experiments keep the kind of their network."""

import pytest

from vit_jax import checks
from vit_jax.config import resolve, smoke
from vit_jax.config.defaults import (
  default_config,
  default_eval,
  default_fewshot_dataset,
  default_retrieval_dataset,
  default_segmentation_dataset,
  default_zeroshot_dataset,
)
from vit_jax.models import build
from vit_jax.models.resnet import sizes as resnet_sizes
from vit_jax.models.vit import sizes


def shrunk(**keys):
  config = default_config()
  config.model.update(**keys)
  config.update(total_steps=100)
  return resolve.resolve(smoke.shrink(config))


@pytest.mark.parametrize(
  "variant, expected, image_size",
  [
    ("H/14", sizes.Size(32, 2, 2, 64, 14), 28),
    ("R50+L/32", sizes.Size(32, 2, 2, 64, 32, (1, 1, 1, 1), 32), 64),
    ("R+Ti/16", sizes.Size(32, 2, 2, 64, 32, (), 32), 64),
  ],
)
def test_a_transformer_keeps_its_patches_and_stages(
  variant, expected, image_size
):
  model = shrunk(variant=variant).model
  build.check(model)
  assert sizes.vit(model) == expected
  assert model.image_size == image_size


def test_a_resnet_keeps_its_stages():
  model = shrunk(name="resnet", variant="R152x4").model
  build.check(model)
  assert resnet_sizes.resnet(model) == resnet_sizes.ResNetSize((1, 1, 1, 1), 32)


def test_the_data_are_of_the_networks_size():
  config = shrunk(variant="R50+B/16")
  assert f"size={config.model.image_size}," in config.train.dataset


def test_pairs_stay_pairs_without_a_file():
  config = default_config()
  config.total_steps = 100
  config.train.update(dataset="captions", tokenizer="bpe.json")
  config.train.preprocess = "decode|resize|tokenize(16)"
  train = resolve.resolve(smoke.shrink(config)).train
  assert train.dataset.endswith(",captions=2")
  assert train.tokenizer == "bytes"


def test_evaluators_of_texts_shrink_to_the_generated_pairs():
  config = default_config()
  config.total_steps = 100
  config.train.update(preprocess="decode|resize|tokenize(16)")
  for kind, dataset in (
    ("zeroshot", default_zeroshot_dataset(class_names="imagenet")),
    ("retrieval", default_retrieval_dataset()),
  ):
    config.evals[kind] = default_eval(type=kind)
    config.evals[kind].datasets.some = dataset
  for entry in resolve.resolve(smoke.shrink(config)).evals.values():
    ((_, data),) = entry.datasets.items()
    assert data.dataset.endswith(",captions=2") and data.split == "test"
    assert entry.every_steps == 2


def test_every_type_of_evaluator_shrinks_to_the_generated_data():
  config = default_config()
  config.total_steps = 100
  for kind in ("fewshot", "knn", "linear_probe"):
    config.evals[kind] = default_eval(type=kind)
    config.evals[kind].datasets.pets = default_fewshot_dataset(
      dataset="oxford_iiit_pet"
    )
  evals = resolve.resolve(smoke.shrink(config)).evals
  for entry in evals.values():
    ((_, data),) = entry.datasets.items()
    assert data.dataset.startswith("generated:")
    assert entry.every_steps == 2
  assert evals["fewshot"].shots == (1, 5)
  assert evals["knn"].neighbors == (1, 5)
  assert len(evals["linear_probe"].l2_sweep) == 2


def test_a_segmentation_shrinks_and_keeps_its_masks():
  config = default_config()
  config.total_steps = 100
  config.evals.seg = default_eval(type="linear_segmentation")
  config.evals.seg.datasets.ade20k = default_segmentation_dataset(
    directory="ADEChallengeData2016"
  )
  config = resolve.resolve(smoke.shrink(config))
  checks.check(config)
  entry = config.evals["seg"]
  assert (entry.steps, entry.warmup_steps) == (2, 1)
  assert entry.datasets["ade20k"].directory == "ADEChallengeData2016"


def test_a_shrunk_segmentation_fits_the_shrunk_network():
  config = default_config()
  config.update(total_steps=100, data_dir="ade")
  config.evals.seg = default_eval(
    type="linear_segmentation", blocks=4, image_size=518, mask_size=512
  )
  config.evals.seg.datasets.ade20k = default_segmentation_dataset()
  config = resolve.resolve(smoke.shrink(config))
  checks.check(config)
  entry = config.evals["seg"]
  # Of the network, which has two layers.
  assert (entry.blocks, entry.image_size, entry.mask_size) == (1, None, None)
  assert entry.datasets["ade20k"].directory == "ade"


@pytest.mark.parametrize("protocol", ["dino", "dinov2", "mae"])
def test_every_protocol_of_a_probe_shrinks(protocol):
  config = default_config()
  config.total_steps = 100
  config.evals.probe = default_eval(type="linear_probe", protocol=protocol)
  config = resolve.resolve(smoke.shrink(config))
  checks.check(config)
  assert config.evals["probe"].epochs == 2
