"""Linear segmentation, from a folder of images and masks to metrics."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import mask_folders
from tests.evaluators.conftest import State
from tests.models.networks import random_params, tiny, tiny_swin
from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.evaluators import build, contract, linear_segmentation
from vit_jax.models import build as models_build
from vit_jax.models.features import features
from vit_jax.sharding import mesh as meshes

_FAST = {
  "steps": 60,
  "warmup_steps": 5,
  "train_batch_size": 8,
  "learning_rate": 0.05,
}


def _network(**keys):
  """A ViT of 4 x 4 patches of 4 pixels, as the squares are."""
  return tiny(**({"num_classes": None, "image_size": 16, "depth": 1} | keys))


def _build(root, network, *, num_devices=1, data=None, **keys):
  """The evaluator of a folder, and random parameters on its devices."""
  entry = schema.LinearSegmentationEval(
    type="linear_segmentation",
    datasets={
      "toy": schema.SegmentationDataset(directory=str(root), **(data or {}))
    },
    **(_FAST | keys),
  )
  config = schema.Config(
    model=models_build.config_of(network), evals={"seg": entry}
  )
  build.check(config)
  mesh = meshes.create_mesh(schema.Mesh(), jax.devices()[:num_devices])
  context = contract.Context(
    config=config,
    outputs=lambda params, batch: {},  # It looks at the network's layers.
    mesh=mesh,
    workdir=None,
    num_classes=None,
  )
  params = jax.device_put(random_params(network), meshes.replicated(mesh))
  return build.build("seg", entry, context), params


def _segment(root, network=None, **keys):
  """Metrics of a network of random parameters."""
  evaluator, params = _build(root, network or _network(), **keys)
  with jax.transfer_guard("disallow"):
    found = evaluator.run(State(params), 5)
    assert found == evaluator.run(State(params), 6)
  start = "linear_segmentation/toy/"
  assert all(name.startswith(start) for name in found)
  return {name.removeprefix(start): found[name] for name in found}


@pytest.fixture(scope="module")
def squares(tmp_path_factory):
  """The folder of squares, and the labels of its splits."""
  root = tmp_path_factory.mktemp("squares")
  return root, mask_folders.make(root)


@pytest.fixture(scope="module")
def metrics(squares):
  """Metrics of a network of a layer."""
  return _segment(squares[0])


def test_patches_of_a_random_network_tell_squares_apart(squares, metrics):
  _, labels = squares
  assert set(metrics) == {
    *("miou", "pixel_accuracy", "class_accuracy", "num_examples"),
  }
  assert metrics["num_examples"] == 8
  # Always answering the most frequent class has the IoU of that alone.
  share = (labels["validation"] == mask_folders.BACKGROUND).mean()
  assert share / mask_folders.NUM_CLASSES < 0.25 < 0.7 < metrics["miou"] < 1
  assert share < 0.7 < metrics["pixel_accuracy"] < 1


def test_devices_and_batches_of_the_test_change_next_to_nothing(
  squares, metrics
):
  found = _segment(squares[0], num_devices=4, batch_size=3)
  assert found == pytest.approx(metrics, abs=0.01)


def test_stages_are_joined_at_the_size_of_the_largest(squares):
  network = tiny_swin(num_classes=None)
  assert _segment(squares[0], network, blocks=2)["miou"] > 0.6


def test_images_and_masks_may_have_sides_of_their_own(squares):
  # Positions are resized to 8 x 8 patches, each of 2 x 2 of the pixels.
  assert _segment(squares[0], image_size=32, mask_size=16)["miou"] > 0.6
  with pytest.raises(UserError, match=r"seg.image_size = 30: .* not cover"):
    _build(squares[0], _network(), image_size=30)


def test_the_background_may_be_left_out(squares):
  found = _segment(squares[0], data={"reduce_zero_label": True})
  # Of the other classes alone, as likely as one another.
  assert 0.7 < found["miou"] <= 1


def test_images_are_flipped_with_their_masks():
  rng = np.random.default_rng(0)
  image = rng.integers(0, 256, (64, 4, 4, 3), np.uint8)
  label = image[..., 0]
  image, label = map(jnp.asarray, (image, label))
  found, mask = linear_segmentation.flipped(jax.random.key(3), image, label)
  np.testing.assert_array_equal(found[..., 0], mask)
  is_flipped = np.asarray((mask == label[:, :, ::-1]).all(axis=(1, 2)))
  is_as_before = np.asarray((mask == label).all(axis=(1, 2)))
  assert (is_flipped ^ is_as_before).all() and 16 < is_flipped.sum() < 48


def test_maps_are_normalised_patches_in_the_order_of_layers():
  network = _network(depth=2, registers=2)
  params = random_params(network)
  section = models_build.config_of(network)
  maps = linear_segmentation.joined_maps(section, blocks=2, key="k")
  image = np.random.default_rng(0).integers(0, 256, (2, 16, 16, 3), np.uint8)
  image = jnp.asarray(image)
  found = np.asarray(jax.jit(maps)(params, image))
  assert found.shape == (2, 4, 4, 32)
  encoded = features(network, params, image, ["encoded"])["encoded"]
  # The class token and registers are left out; patches lie row by row.
  wanted = np.asarray(encoded)[:, 3:].reshape(2, 4, 4, 16)
  np.testing.assert_allclose(found[..., 16:], wanted, rtol=1e-4, atol=1e-5)


def test_parameters_that_are_not_finite_are_an_error(squares):
  evaluator, params = _build(squares[0], _network(), steps=6)
  params = jax.tree.map(lambda leaf: leaf * np.nan, params)
  with pytest.raises(UserError, match="seg.datasets.toy: the loss .* is NaN"):
    evaluator.run(State(params), 5)


@pytest.mark.parametrize(
  "data, message",
  [
    (
      {"num_classes": 2},
      r"config.evals.seg.datasets.toy: .*\.png has the label 2, but"
      " num_classes = 2",
    ),
    ({"test_split": "val"}, "toy: there is no folder .*images/val;"),
  ],
  ids=("label", "split"),
)
def test_a_folder_is_checked_before_the_network_runs(data, message, squares):
  with pytest.raises(UserError, match=message):
    _build(squares[0], _network(), data=data)


@pytest.mark.parametrize(
  "keys, data_dir, message",
  [
    ({"warmup_steps": 60}, "x", "s.warmup_steps = 60 leaves .* to 59 or less"),
    ({}, None, "s.datasets.toy.directory and config.data_dir are not set"),
  ],
)
def test_bad_keys_are_named(keys, data_dir, message):
  entry = schema.LinearSegmentationEval(
    type="linear_segmentation",
    datasets={"toy": schema.SegmentationDataset()},
    **(_FAST | keys),
  )
  config = schema.Config(data_dir=data_dir, evals={"s": entry})
  with pytest.raises(UserError, match=message):
    build.check(config)


def test_too_many_layers_are_named(squares):
  with pytest.raises(UserError, match="config.evals.seg.blocks = 4, .* has 1"):
    _build(squares[0], _network(), blocks=4)


def test_the_report_says_how_it_was_measured():
  kind = registry.EVALUATORS.get("linear_segmentation")
  entry = schema.LinearSegmentationEval(
    type="linear_segmentation", blocks=4, mask_size=512
  )
  text = kind.protocol("s", entry, schema.Config())
  assert "the last 4 layers, joined, brought to" in text
  assert "trained for 40000 steps by AdamW, batches of 16, learning" in text
  assert "squares of 224 pixels, and pixels are counted on masks of 512" in text
  columns = [dataclasses.asdict(one) for one in kind.columns(entry)]
  names = [one["metric"] for one in columns]
  assert names == ["miou", "pixel_accuracy", "class_accuracy", "num_examples"]
  assert [one["better"] for one in columns] == [*["higher"] * 3, ""]
