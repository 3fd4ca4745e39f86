"""Opening the data of an evaluator."""

import dataclasses
import io

import jax
import numpy as np
import pytest
from PIL import Image

from vit_jax.errors import UserError
from vit_jax.evaluators import opening

_DATASET = "generated:classes=5,size=8,examples=84"


def _open(context, **changes):
  arguments = dict(
    key="config.evals.test",
    dataset=_DATASET,
    split="test",
    preprocess="decode|resize(8)",
    batch_size=8,
    image_key="image",
    label_key="label",
  )
  return opening.open_split(context, **(arguments | changes))


@pytest.fixture
def context(make_context, make_mesh):
  context = make_context(mesh=make_mesh(4))
  model = context.config.model.model_copy(update={"image_size": 8})
  config = context.config.model_copy(update={"model": model})
  return make_context(mesh=context.mesh, config=config)


@pytest.mark.parametrize("batch_size", [1, 8, 21, 1000])
def test_batches_hold_every_example_once(context, batch_size):
  opened = _open(context, batch_size=batch_size)
  batches = [jax.device_get(batch) for batch in opened.batches()]
  ids = np.concatenate([batch["id"][batch["mask"]] for batch in batches])
  np.testing.assert_array_equal(ids, np.arange(opened.num_examples))
  labels = np.concatenate([b["label"][b["mask"]] for b in batches])
  np.testing.assert_array_equal(labels, opened.source.read(ids)["label"])


def test_batch_is_no_larger_than_the_split_needs(context):
  (batch,) = _open(context, batch_size=4096).batches()
  assert len(batch["id"]) == 24  # 21 examples on four devices.


def test_batch_size_of_training_is_the_default(context):
  assert _open(context, batch_size=None).batch_size == 4096


def test_label_ops_change_the_classes(context):
  opened = _open(context, preprocess="decode|resize|remap([0, 1, 1, 0, -1])")
  assert opened.num_classes == 2
  (batch,) = _open(
    context, preprocess="decode|resize|pad_labels(3)", batch_size=24
  ).batches()
  assert batch["label"].shape == (24, 3)


def test_labels_that_are_dropped_are_an_error(context):
  with pytest.raises(UserError, match="config.evals.test.preprocess .*labels"):
    _open(context, preprocess="decode|resize|keep('image')")


def test_training_ops_are_an_error(context):
  with pytest.raises(UserError, match="config.evals.test.preprocess: op 3"):
    _open(context, preprocess="decode|resize|flip_lr")


def test_data_without_labels_are_a_sentence(context, tmp_path):
  (tmp_path / "captions.csv").write_text("image,caption\n1.png,a dot\n")
  Image.new("RGB", (8, 8)).save(tmp_path / "1.png")
  config = context.config.model_copy(update={"data_dir": str(tmp_path)})
  changed = dataclasses.replace(context, config=config)
  says = "config.evals.test: 'captions' has no labels, which an evaluation"
  with pytest.raises(UserError, match=says):
    _open(changed, dataset="captions", split="train")


@pytest.fixture
def two_texts(tmp_path):
  """The name of a dataset whose captions are in `text` and in `long`."""
  datasets = pytest.importorskip("datasets")
  file = io.BytesIO()
  Image.new("RGB", (8, 8)).save(file, "PNG")
  columns = {
    "image": [file.getvalue()] * 3,
    "text": [f"short {i}" for i in range(3)],
    "long": [f"long {i}" for i in range(3)],
  }
  datasets.Dataset.from_dict(columns).save_to_disk(tmp_path / "d")
  return f"datasets:{tmp_path}/d"


@pytest.mark.parametrize(
  ("trained_on", "trained_key", "key", "found"),
  [
    ("same", "long", None, "long 2"),
    ("same", "long", "text", "short 2"),
    ("same", None, "long", "long 2"),
    ("same", None, None, "short 2"),
    ("other", "long", None, "short 2"),
  ],
)
def test_captions_are_those_of_training_if_the_dataset_is(
  context, two_texts, trained_on, trained_key, key, found
):
  dataset = two_texts if trained_on == "same" else "datasets:another/one"
  changes = {"dataset": dataset, "text_key": trained_key}
  train = context.config.train.model_copy(update=changes)
  config = context.config.model_copy(update={"train": train})
  opened = opening.open_captioned_split(
    dataclasses.replace(context, config=config),
    key="config.evals.find.datasets.val",
    dataset=two_texts,
    split="train",
    preprocess="decode|resize(8)",
    batch_size=2,
    image_key="image",
    text_key=key,
  )
  assert opened.source.captions(np.array([2])).tolist() == [(found,)]
