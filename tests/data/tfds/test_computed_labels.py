"""Labels from other features, on records of the datasets' own form."""

import io

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image

from vit_jax.data import sources
from vit_jax.data.tfds import computed_labels
from vit_jax.errors import UserError
from vit_jax.paper import vtab

KEYS = {
  "clevr": ("count_all", "closest_object_distance"),
  "kitti": ("closest_vehicle_distance",),
  "dsprites": ("label_x_position_in_16", "label_orientation_in_16"),
}
NUM_EXAMPLES = 60


def features(dataset):
  """Those of the TFDS builder that labels are made of."""
  f = tfds.features
  point = f.Tensor(shape=(3,), dtype=np.float32)
  if dataset == "clevr":
    sizes = f.ClassLabel(names=["small", "large"])
    return {"objects": f.Sequence({"size": sizes, "pixel_coords": point})}
  if dataset == "kitti":
    types = f.ClassLabel(num_classes=8)
    return {"objects": f.Sequence({"type": types, "location": point})}
  return {
    "label_x_position": f.ClassLabel(num_classes=32),
    "label_orientation": f.ClassLabel(num_classes=40),
  }


def example(dataset, rng):
  if dataset == "dsprites":
    return {
      "label_x_position": int(rng.integers(32)),
      "label_orientation": int(rng.integers(40)),
    }
  if dataset == "clevr":
    return {
      "objects": [
        {"size": 1, "pixel_coords": np.float32([7, 200, rng.uniform(7, 12)])}
        for _ in range(rng.integers(3, 11))
      ]
    }
  return {
    "objects": [
      {
        "type": int(rng.integers(8)),
        "location": np.float32([-50, 1, rng.uniform(-1, 40)]),
      }
      for _ in range(rng.integers(5))
    ]
  }


def expected(key, example):
  """The class, by comparisons written out."""
  if key == "count_all":
    return len(example["objects"]) - 3
  if key == "closest_object_distance":
    z = min(one["pixel_coords"][2] for one in example["objects"])
    return sum(z > edge for edge in (8, 8.5, 9, 9.5, 10))
  if key == "closest_vehicle_distance":
    near = [o["location"][2] for o in example["objects"] if o["type"] < 3]
    return sum(min(near) > edge for edge in (8, 20)) if near else 3
  if key == "label_x_position_in_16":
    return example["label_x_position"] // 2
  return int(example["label_orientation"] / 2.5)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
  """A directory of three small datasets, and their examples."""
  path, examples = tmp_path_factory.mktemp("vtab"), {}
  file = io.BytesIO()
  Image.new("L", (4, 4)).save(file, "PNG")
  tfds.disable_progress_bar()
  for dataset in KEYS:
    rng = np.random.default_rng(0)
    examples[dataset] = [example(dataset, rng) for _ in range(NUM_EXAMPLES)]
    image = tfds.features.Image(shape=(4, 4, 1), encoding_format="png")
    builder = tfds.dataset_builders.AdhocBuilder(
      name=dataset,
      version="1.0.0",
      data_dir=path,
      file_format="array_record",
      features=tfds.features.FeaturesDict(
        {"image": image, **features(dataset)}
      ),
      split_datasets={
        "train": [
          (i, {"image": file.getvalue(), **one})
          for i, one in enumerate(examples[dataset])
        ]
      },
      disable_shuffling=True,
    )
    builder.download_and_prepare(file_format="array_record")
  return str(path), examples


@pytest.mark.parametrize(
  ("dataset", "key"), [(d, key) for d, keys in KEYS.items() for key in keys]
)
def test_labels_follow_from_the_record(prepared, dataset, key):
  data_dir, examples = prepared
  source = sources.open_source(
    dataset, "train", data_dir=data_dir, label_key=key
  )
  wanted = [expected(key, one) for one in examples[dataset]]
  assert len(set(wanted)) > 3
  assert source.read(np.arange(NUM_EXAMPLES))["label"].tolist() == wanted
  assert source.max_labels == 1
  assert source.num_classes == len(source.class_names)


def test_every_task_of_vtab_names_a_label_of_its_number_of_classes():
  computed = {
    task.label_key: task.num_classes
    for task in vtab.TASKS.values()
    if task.label_key in computed_labels.LABELS
  }
  assert computed == {
    key: len(label.class_names) for key, label in computed_labels.LABELS.items()
  }


def test_a_missing_label_is_answered_with_those_that_can_be_computed(prepared):
  with pytest.raises(UserError, match="'closest_vehicle_distance'") as error:
    sources.open_source(
      "kitti", "train", data_dir=prepared[0], label_key="count_all"
    )
  assert "closest_object_distance" not in str(error.value)


def compute(key, *values):
  return computed_labels.LABELS[key].compute(*map(np.array, values))


@pytest.mark.parametrize(
  ("distance", "label"), [(8.0, 0), (8.01, 1), (20.0, 1), (20.5, 2)]
)
def test_an_edge_belongs_to_the_nearer_class(distance, label):
  found = compute("closest_vehicle_distance", [0], [0.0, 0.0, distance])
  assert found == label


def test_without_objects_there_is_a_class_for_kitti_only():
  assert compute("closest_vehicle_distance", [], []) == 3
  assert compute("closest_vehicle_distance", [5], [0.0, 0.0, 4.0]) == 3
  for key in ("count_all", "closest_object_distance"):
    num_classes = len(computed_labels.LABELS[key].class_names)
    assert compute(key, []) not in range(num_classes)


def test_classes_are_named_by_what_they_stand_for():
  labels = computed_labels.LABELS
  assert labels["count_all"].class_names[0] == "3"
  assert labels["closest_object_distance"].class_names[1] == "8 to 8.5"
  assert labels["closest_vehicle_distance"].class_names[-1] == "none"
