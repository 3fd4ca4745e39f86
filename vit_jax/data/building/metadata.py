"""The files that make a directory of shards a TFDS dataset."""

import dataclasses
from collections.abc import Mapping, Sequence

from etils import epath

from vit_jax.data.tf_import import tf
from vit_jax.data.tfds_directory import DatasetName


@dataclasses.dataclass(frozen=True)
class Split:
  """Attributes: records in each shard, and bytes of all records."""

  shard_lengths: Sequence[int]
  num_bytes: int


def shard_name(name: DatasetName, split: str, shard: int, count: int) -> str:
  """What TFDS calls a shard."""
  return f"{name.name}-{split}.array_record-{shard:05d}-of-{count:05d}"


def write(
  directory: epath.Path,
  name: DatasetName,
  splits: Mapping[str, Split],
  *,
  class_names: Sequence[str] | None,
  num_classes: int,
  max_labels: int,
) -> None:
  """Writes dataset_info.json, features.json and the names of the classes.

  Args:
    directory: that holds the shards.
    name: with its version.
    splits: in any order.
    class_names: see `contract.Inputs`.
    num_classes: see there.
    max_labels: see there; more than 1 is the feature `labels`.
  """
  assert tf.version  # Imports TensorFlow, before TFDS does so noisily.
  import tensorflow_datasets as tfds

  if class_names is None:
    label = tfds.features.ClassLabel(num_classes=num_classes)
  else:
    label = tfds.features.ClassLabel(names=class_names)
  features = {
    "image": tfds.features.Image(shape=(None, None, 3)),
    "file_name": tfds.features.Text(),
  }
  if max_labels == 1:
    features["label"] = label
  else:
    features["labels"] = tfds.features.Sequence(label, length=max_labels)
  template = tfds.core.ShardedFileTemplate(
    data_dir=directory,
    template="{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
    dataset_name=name.name,
    filetype_suffix="array_record",
  )
  tfds.folder_dataset.write_metadata(
    data_dir=directory,
    features=tfds.features.FeaturesDict(features),
    split_infos=[
      tfds.core.SplitInfo(
        name=split,
        shard_lengths=list(info.shard_lengths),
        num_bytes=info.num_bytes,
        filename_template=template.replace(split=split),
      )
      for split, info in sorted(splits.items())
    ],
    version=name.version,
    check_data=False,
    description="Made by python -m vit_jax.prepare.",
    supervised_keys=("image", "label") if max_labels == 1 else None,
  )
