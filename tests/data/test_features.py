"""The features of a batch, and groups of crops."""

import functools

import jax
import numpy as np
import pytest

from tests import experiments
from tests.data.test_pipeline import mesh_of, take, train_batches
from vit_jax import rngs
from vit_jax.config import named_sections, schema
from vit_jax.data import features
from vit_jax.data.host_batches import HostBatches
from vit_jax.errors import UserError

VIEWS = {
  "global": {"count": 2, "preprocess": "decode|inception_crop"},
  "local": {
    "count": 3,
    "preprocess": "decode|inception_crop(area_min=5, area_max=30)|flip_lr",
    "size": 8,
  },
}


def config(views=VIEWS, preprocess="decode"):
  return schema.Config(
    model=named_sections.section("model", image_size=16),
    train=schema.Train(
      preprocess=preprocess,
      views={name: schema.View(**view) for name, view in views.items()},
    ),
  )


def declared(source, **changes):
  parsed = features.parse(config(**changes))
  return parsed.suited_to(source.num_classes, source.max_labels)[1]


def batches_of(source, **changes):
  return train_batches(source, features=declared(source), **changes)


@pytest.mark.parametrize(("max_labels", "shape"), [(1, (8,)), (3, (8, 3))])
def test_the_spec_of_a_batch_is_uint8_images_and_int32_labels(
  max_labels, shape
):
  parsed = features.parse(config({}, "decode|resize"))
  spec = parsed.suited_to(5, max_labels)[1].batch_spec(8)
  assert spec == {
    "image": jax.ShapeDtypeStruct((8, 16, 16, 3), np.uint8),
    "label": jax.ShapeDtypeStruct(shape, np.int32),
  }


def test_a_batch_holds_every_view_as_declared(jpegs):
  (batch,) = take(batches_of(jpegs), 1)
  spec = declared(jpegs).batch_spec(8)
  assert {name: (x.shape, x.dtype) for name, x in batch.items()} == {
    name: (leaf.shape, leaf.dtype) for name, leaf in spec.items()
  }
  assert spec["global"].shape == (8, 2, 16, 16, 3)
  assert spec["local"].shape == (8, 3, 8, 8, 3)


def test_every_crop_draws_on_its_own(jpegs):
  (batch,) = take(batches_of(jpegs), 1)
  for name, count in (("global", 2), ("local", 3)):
    crops = batch[name]
    for one in range(count):
      for other in range(one):
        assert not np.array_equal(crops[:, one], crops[:, other])


def test_a_crop_does_not_depend_on_the_other_views(jpegs):
  (both,) = take(batches_of(jpegs), 1)
  alone = declared(jpegs, views={"global": VIEWS["global"]})
  (one,) = take(train_batches(jpegs, features=alone), 1)
  assert np.array_equal(both["global"], one["global"])


def test_views_are_the_same_from_any_row_on_any_mesh_and_process(jpegs):
  whole = take(batches_of(jpegs), 3)
  (resumed,) = take(batches_of(jpegs, first_example=16, mesh=mesh_of(4)), 1)
  for name, array in whole[2].items():
    assert np.array_equal(array, resumed[name]), name
  rows = np.array([1, 2, 7])  # As one process of several holds them.
  held = HostBatches(
    jpegs,
    declared(jpegs),
    order=train_batches_order(jpegs),
    local_rows=rows,
    batch_size=8,
    first_row=16,
    seed=3,
  )
  part = next(held)
  held.close()
  for name, array in whole[2].items():
    assert np.array_equal(array[rows], part[name]), name


def train_batches_order(source):
  from vit_jax.data import order

  return lambda rows: order.example_ids(rows, source.num_examples, seed=3)[0]


def test_device_ops_see_every_crop_by_itself():
  parsed = features.parse(config())
  crops = np.zeros((4, 3, 8, 8, 3), np.uint8)
  crops[..., 0, :] = 255  # The left column.
  batch = {"global": np.zeros((4, 2, 16, 16, 3), np.uint8), "local": crops}
  keys = functools.partial(rngs.stream, 0, step=1)
  made = parsed.on_device(jax.device_put(batch), keys)
  flipped = np.asarray(made["local"])[..., 0, 0, 0] == 0
  assert 0 < flipped.sum() < flipped.size  # 12 crops, each on its own.
  assert np.array_equal(made["global"], batch["global"])


@pytest.mark.parametrize(
  ("views", "preprocess", "message"),
  [
    (VIEWS, "decode|resize", "op 2 .*config.train.views says how"),
    (VIEWS, "decode|flip_lr", "op 2 .*config.train.views says how"),
    ({"label": {}}, "decode", "config.train.views.label cannot be called"),
    ({"image": {}}, "decode", "config.train.views.image cannot be called"),
    (
      {"a": {"preprocess": "decode|resize|keep('image')"}},
      "decode",
      "config.train.views.a.preprocess: op 3 .* changes labels",
    ),
    (
      {"a": {"preprocess": "decode|resize(9)", "size": 8}},
      "decode",
      "config.train.views.a.size = 8",
    ),
  ],
)
def test_what_does_not_go_together_is_a_sentence(views, preprocess, message):
  with pytest.raises(UserError, match=message):
    features.check(config(views, preprocess))


def test_views_are_keys_of_a_config():
  made = experiments.config(train__views=VIEWS, train__preprocess="decode")
  assert made.train.views["local"].size == 8
