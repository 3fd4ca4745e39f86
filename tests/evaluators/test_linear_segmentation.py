"""Linear segmentation, from a folder of images and masks to metrics."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import mask_folders
from tests.evaluators.conftest import State
from tests.models.networks import (
  random_params,
  tiny,
  tiny_convnext,
  tiny_hybrid,
  tiny_pvt,
  tiny_swin,
)
from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data.segmentation import masks
from vit_jax.errors import UserError
from vit_jax.evaluators import build, contract, linear_segmentation
from vit_jax.models import build as models_build
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
      "toy": schema.SegmentationDataset(
        **({"directory": str(root)} | (data or {}))
      )
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


def test_a_batch_that_devices_do_not_divide_is_the_same_batch(squares):
  found = []
  for num_devices in (1, 4):
    evaluator, params = _build(
      squares[0],
      _network(),
      num_devices=num_devices,
      train_batch_size=2,
      steps=40,
    )
    found.append(evaluator.run(State(params), 5))
  # Batches of 4 would lower the mean IoU by 0.05.
  assert found[1] == pytest.approx(found[0], abs=0.005)


def test_stages_are_joined_at_the_size_of_the_largest(squares):
  # The last stage alone, of 2 pixels a place, tells far fewer apart.
  network = tiny_swin(num_classes=None)
  assert _segment(squares[0], network, blocks=2)["miou"] > 0.9


def test_images_and_masks_may_have_sides_of_their_own(squares, monkeypatch):
  shapes = set()
  read = masks.MaskFolder.read

  def seen(*args, **keys):
    image, label = read(*args, **keys)
    shapes.add((image.shape, label.shape))
    return image, label

  monkeypatch.setattr(masks.MaskFolder, "read", seen)
  keys = {"image_size": 32, "mask_size": 5, "steps": 2, "warmup_steps": 0}
  found = _segment(squares[0], **keys)
  assert shapes == {((32, 32, 3), (5, 5))}
  # Of 8 masks of 5 x 5 pixels.
  right = found["pixel_accuracy"] * 8 * 25
  assert 0 < right < 200 and right == pytest.approx(round(right), abs=1e-9)


@pytest.mark.parametrize(
  "network, image_size, message",
  [
    (_network(), 30, "is not a multiple of the patch size 4 .* use 28 or 32"),
    (_network(), 2, "is smaller than the patch"),
    (tiny_hybrid(None), 33, None),
    (tiny_convnext(None), 7, "leaves nothing .* use at least 8"),
    (tiny_convnext(None), 8, None),
    (
      tiny_pvt(None),
      3,
      "gives stage 1 .* leaves no keys; use images of at least 5",
    ),
    (tiny_pvt(None), 5, None),
  ],
  ids=("vit", "vit2", "hybrid", "convnext7", "convnext8", "pvt3", "pvt5"),
)
def test_a_size_of_images_is_taken_or_named(
  network, image_size, message, squares
):
  if message is None:
    _build(squares[0], network, image_size=image_size, mask_size=16)
    return
  message = f"config.evals.seg.image_size = {image_size} {message}"
  with pytest.raises(UserError, match=message) as error:
    _build(squares[0], network, image_size=image_size, mask_size=16)
  assert "config.model.image_size" not in str(error.value)


def test_a_split_whose_labels_vanish_is_refused(tmp_path):
  image = np.zeros((1, 16, 16, 3), np.uint8)
  all_over, corner = np.ones((1, 16, 16), np.uint8), np.full((1, 16, 16), 255)
  corner[:, 0, 0] = 1  # Not the centre of one of 4 x 4 parts.
  corner = corner.astype(np.uint8)
  mask_folders.write(tmp_path, "all", image, all_over)
  mask_folders.write(tmp_path, "corner", image, corner)
  for train, test in (("all", "corner"), ("corner", "all")):
    data = {"train_split": train, "test_split": test}
    message = (
      "config.evals.seg.datasets.toy: no pixel of .*annotations/corner has a"
      " label .* mask_size = 4; set a larger mask_size"
    )
    with pytest.raises(UserError, match=message):
      _build(tmp_path, _network(), data=data, mask_size=4)
    _build(tmp_path, _network(), data=data)


def test_the_background_may_be_left_out(squares):
  found = _segment(squares[0], data={"reduce_zero_label": True})
  # The other classes are told apart more easily than from the background.
  assert 0.9 < found["miou"] <= 1


def test_images_are_flipped_with_their_masks():
  rng = np.random.default_rng(0)
  image = rng.integers(0, 256, (64, 4, 4, 3), np.uint8)
  label = image[..., 0]
  image, label = map(jnp.asarray, (image, label))
  key = jax.random.key(3)
  found, mask = linear_segmentation.flipped(key, image, label, 64)
  np.testing.assert_array_equal(found[..., 0], mask)
  is_flipped = np.asarray((mask == label[:, :, ::-1]).all(axis=(1, 2)))
  is_as_before = np.asarray((mask == label).all(axis=(1, 2)))
  assert (is_flipped ^ is_as_before).all() and 16 < is_flipped.sum() < 48


def test_what_fills_a_batch_up_flips_nothing():
  rng = np.random.default_rng(0)
  image = jnp.asarray(rng.integers(0, 256, (32, 4, 4, 3), np.uint8))
  label, key = image[..., 0], jax.random.key(3)
  alone = linear_segmentation.flipped(key, image[:20], label[:20], 20)
  filled = linear_segmentation.flipped(key, image, label, 20)
  for one, other, before in zip(alone, filled, (image, label), strict=True):
    np.testing.assert_array_equal(one, other[:20])
    np.testing.assert_array_equal(before[20:], other[20:])


def test_parameters_that_are_not_finite_are_an_error(squares):
  evaluator, params = _build(squares[0], _network(), steps=6)
  params = jax.tree.map(lambda leaf: leaf * np.nan, params)
  with pytest.raises(UserError, match="toy: the linear layer .* is NaN"):
    evaluator.run(State(params), 5)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_last_batch_without_labels_hides_no_parameters(steps, tmp_path):
  # Of two images one has no labels; it is the last of one step or of two.
  image, label = np.zeros((2, 16, 16, 3), np.uint8), np.zeros((2, 16, 16))
  label[0] = 255
  label = label.astype(np.uint8)
  mask_folders.write(tmp_path, "training", image, label)
  mask_folders.write(tmp_path, "validation", image, label)
  keys = {"train_batch_size": 1, "steps": steps, "warmup_steps": 0}
  evaluator, params = _build(tmp_path, _network(), **keys)
  params = jax.tree.map(lambda leaf: leaf * np.nan, params)
  with pytest.raises(UserError, match="toy: the linear layer .* is NaN"):
    evaluator.run(State(params), 5)


def test_a_last_step_that_is_too_long_is_an_error(squares):
  # The loss is that before the step.
  keys = {"steps": 1, "warmup_steps": 0}
  keys |= {"learning_rate": 3e38, "weight_decay": 10}
  evaluator, params = _build(squares[0], _network(), **keys)
  with pytest.raises(UserError, match="learning_rate = 3e[+]38 is too large"):
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
    ({"directory": "s3://bucket/x"}, "toy: s3://bucket/x cannot be read"),
  ],
  ids=("label", "split", "bucket"),
)
def test_a_folder_is_checked_before_the_network_runs(data, message, squares):
  with pytest.raises(UserError, match=message):
    _build(squares[0], _network(), data=data)


@pytest.mark.parametrize(
  "keys, directory, data_dir, message",
  [
    ({"warmup_steps": 60}, None, "x", "s.warmup_steps = 60 leaves .* 59 or"),
    ({}, None, None, "s.datasets.toy.directory and config.data_dir are not"),
    ({}, "", None, "s.datasets.toy.directory and config.data_dir are not set"),
    ({}, None, "", "s.datasets.toy.directory and config.data_dir are not set"),
  ],
)
def test_bad_keys_are_named(keys, directory, data_dir, message):
  entry = schema.LinearSegmentationEval(
    type="linear_segmentation",
    datasets={"toy": schema.SegmentationDataset(directory=directory)},
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
