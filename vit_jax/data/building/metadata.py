"""The files that turn a directory of shards into a TFDS dataset."""

from collections.abc import Mapping, Sequence

from etils import epath

from vit_jax.data.building.contract import Inputs
from vit_jax.data.building.shards import Shard
from vit_jax.data.tf_import import tf
from vit_jax.data.tfds.dataset_directory import DatasetName


def shard_name(name: DatasetName, split: str, shard: int, count: int) -> str:
  """Returns the name that TFDS gives a shard."""
  return f"{name.name}-{split}.array_record-{shard:05d}-of-{count:05d}"


def write(
  directory: epath.Path,
  name: DatasetName,
  inputs: Inputs,
  shards: Mapping[str, Sequence[Shard]],
) -> None:
  """Writes dataset_info.json, features.json and the names of the classes.

  `shards` maps the name of each split to its shards in order.
  """
  assert tf.version  # Imports TensorFlow, before TFDS does so noisily.
  import tensorflow_datasets as tfds

  if not inputs.max_labels:
    label = None
  elif inputs.class_names is None:
    label = tfds.features.ClassLabel(num_classes=inputs.num_classes)
  else:
    label = tfds.features.ClassLabel(names=inputs.class_names)
  features = {
    "image": tfds.features.Image(shape=(None, None, 3)),
    "file_name": tfds.features.Text(),
  }
  has_one_label = inputs.max_labels == 1
  if inputs.has_captions:
    features["text"] = tfds.features.Sequence(tfds.features.Text())
  if has_one_label:
    features["label"] = label
  elif inputs.max_labels:
    features["labels"] = tfds.features.Sequence(label, inputs.max_labels)
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
        shard_lengths=[shard.num_examples for shard in found],
        num_bytes=sum(shard.num_bytes for shard in found),
        filename_template=template.replace(split=split),
      )
      for split, found in sorted(shards.items())
    ],
    version=name.version,
    check_data=False,
    description="Made by python -m vit_jax.prepare.",
    supervised_keys=("image", "label") if has_one_label else None,
  )
