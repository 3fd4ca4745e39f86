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
from vit_jax.evaluators import build, linear_segmentation
from vit_jax.models import build as models_build
from vit_jax.models.features import features
from vit_jax.sharding import mesh as meshes

# 4 x 4 patches of 4 pixels, as the squares are.
_NETWORK = tiny(num_classes=None, image_size=16)
_FAST = {
  "steps": 60,
  "warmup_steps": 5,
  "train_batch_size": 8,
  "learning_rate": 0.05,
}


@pytest.fixture
def squares(tmp_path):
  """The folder of squares, and the labels of its splits."""
  return tmp_path, mask_folders.make(tmp_path)


@pytest.fixture
def segment(make_context, make_mesh):
  """segment(folder, ...) -> metrics of a network of random parameters."""

  def run(root, *, network=_NETWORK, num_devices=1, data=None, **keys):
    mesh = make_mesh(num_devices)
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
    context = make_context(config=config, mesh=mesh)
    evaluator = build.build("seg", entry, context)
    params = jax.device_put(random_params(network), meshes.replicated(mesh))
    with jax.transfer_guard("disallow"):
      found = evaluator.run(State(params), 5)
    start = "linear_segmentation/toy/"
    assert all(name.startswith(start) for name in found)
    return {name.removeprefix(start): found[name] for name in found}

  return run


def _majority(label):
  """Mean IoU of always answering the most frequent class."""
  share = (label == mask_folders.BACKGROUND).mean()
  return share / mask_folders.NUM_CLASSES


def test_patches_of_a_random_network_tell_squares_apart(squares, segment):
  root, labels = squares
  found = segment(root)
  assert set(found) == {
    *("miou", "pixel_accuracy", "class_accuracy", "num_examples"),
  }
  assert found["num_examples"] == 8
  assert _majority(labels["validation"]) < 0.25
  assert 0.55 < found["miou"] < found["pixel_accuracy"] <= 1
  # Nothing is learned in a step of next to no rate.
  still = segment(root, steps=1, warmup_steps=0, learning_rate=1e-9)
  assert still["miou"] < 0.4
  assert found == segment(root)


def test_devices_and_batches_of_the_test_change_next_to_nothing(
  squares, segment
):
  root, _ = squares
  alone = segment(root)
  others = [segment(root, num_devices=4), segment(root, batch_size=3)]
  for other in others:
    assert other == pytest.approx(alone, abs=0.01)
  assert others[1] == alone  # Of integers, counted in any order.


@pytest.mark.parametrize(
  "network, blocks",
  [
    (_NETWORK, 3),
    (tiny(num_classes=None, image_size=16, registers=2), 1),
    (tiny(num_classes=None, image_size=16, pool="gap"), 2),
    (tiny_swin(num_classes=None), 2),
  ],
)
def test_other_networks_and_several_layers_do_as_well(
  network, blocks, squares, segment
):
  assert segment(squares[0], network=network, blocks=blocks)["miou"] > 0.5


def test_images_and_masks_may_have_sides_of_their_own(squares, segment):
  # Positions are resized to 8 x 8 patches of 2 x 2 of the pixels.
  found = segment(squares[0], image_size=32, mask_size=16)
  assert found["miou"] > 0.5
  with pytest.raises(UserError, match="30"):
    segment(squares[0], image_size=30)


def test_pixels_without_a_label_may_be_written_in_either_way(
  squares, segment, tmp_path
):
  _, labels = squares
  other = tmp_path / "reduced"
  for split, images in (("training", 24), ("validation", 8)):
    rng = np.random.default_rng(split == "validation")
    made = [mask_folders.squares(rng, 16, 4)[0] for _ in range(images)]
    # 0 becomes 255, and the others one less, by hand.
    mask_folders.write(other, split, made, labels[split] - np.uint8(1))
  reduced = segment(squares[0], data={"reduce_zero_label": True})
  assert reduced == segment(other)
  assert reduced["miou"] > 0.55


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
  params = random_params(_NETWORK)
  section = models_build.config_of(_NETWORK)
  maps = linear_segmentation.joined_maps(section, blocks=2, key="k")
  image = np.random.default_rng(0).integers(0, 256, (2, 16, 16, 3), np.uint8)
  image = jnp.asarray(image)
  found = np.asarray(jax.jit(maps)(params, image))
  assert found.shape == (2, 4, 4, 32)
  encoded = features(_NETWORK, params, image, ["encoded"])["encoded"]
  # The class token is left out; patches lie row by row.
  wanted = np.asarray(encoded)[:, 1:].reshape(2, 4, 4, 16)
  np.testing.assert_allclose(found[..., 16:], wanted, rtol=1e-4, atol=1e-5)


def test_parameters_that_are_not_finite_are_an_error(
  squares, make_context, make_mesh
):
  entry = schema.LinearSegmentationEval(
    type="linear_segmentation",
    datasets={"toy": schema.SegmentationDataset(directory=str(squares[0]))},
    **(_FAST | {"steps": 6}),
  )
  config = schema.Config(model=models_build.config_of(_NETWORK))
  evaluator = build.build("seg", entry, make_context(config=config))
  params = jax.tree.map(lambda leaf: leaf * np.nan, random_params(_NETWORK))
  params = jax.device_put(params, meshes.replicated(make_mesh()))
  with pytest.raises(UserError, match="seg.datasets.toy: the loss .* is NaN"):
    evaluator.run(State(params), 5)


def test_a_folder_is_checked_before_the_network_runs(squares, segment):
  root, _ = squares
  with pytest.raises(
    UserError,
    match=r"config.evals.seg.datasets.toy: .*\.png has the label 2, but"
    " num_classes = 2",
  ):
    segment(root, data={"num_classes": 2})
  with pytest.raises(UserError, match="toy: there is no folder .*images/val;"):
    segment(root, data={"test_split": "val"})
  (root / "annotations/training/003.png").unlink()
  with pytest.raises(UserError, match="toy: 1 of 24 .* no mask .*003.png; add"):
    segment(root)


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


def test_too_many_layers_are_named(squares, segment):
  with pytest.raises(UserError, match=r"config.evals.seg.blocks = 4 .* 3 or"):
    segment(squares[0], blocks=4)


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
