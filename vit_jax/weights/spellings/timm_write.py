"""Writes our networks as timm directories and safetensors files.

`timm.create_model("local-dir:DIRECTORY", pretrained=True)` opens a directory,
and so does transformers, as a TimmWrapper.
"""

import json
import os
from collections.abc import Sequence
from typing import Any

from etils import epath

from vit_jax import records
from vit_jax.config import pixels, schema
from vit_jax.weights import (
  flat,
  image_processor,
  labels,
  stacking,
  tensors,
  timm_config,
  timm_transform,
)
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings.contract import CARD
from vit_jax.weights.spellings.registry import TIMM_WRITERS
from vit_jax.weights.spellings.timm_network import TimmNetwork, TimmWriter
from vit_jax.weights.spellings.unwritable import Unwritable


def check(model: schema.Model) -> TimmNetwork:
  """Expresses a network in timm's terms.

  Raises:
    Unwritable: There is no such network in timm; the message names the key.
  """
  return _writer(model).network(model)


def write(
  directory: epath.PathLike, weights: Weights, card: str | None = None
) -> Sequence[str]:
  """Writes a directory that timm and transformers open.

  Args:
    directory: A path that does not exist yet; it appears once it is complete.
    weights: The network and its parameters.
    card: Text of README.md; None for no README.md.

  Returns:
    A sentence about each thing that timm does slightly differently.

  Raises:
    UserError: There is no such network in timm, or the directory cannot be
      written.
  """
  directory = epath.Path(directory)
  network = check(weights.model)
  found = _tensors(weights)
  config, notes = _config(weights, network)
  with records.new_directory(directory) as partial:
    tensors.write(partial / tensors.FILE, found)
    records.write_json(partial / timm_config.NAME, config)
    if card is not None:
      (partial / CARD).write_bytes(card.encode())
  return notes


def write_file(path: epath.PathLike, weights: Weights) -> Sequence[str]:
  """Writes a .safetensors file with timm's names and config in its header.

  Args:
    path: Path of the file, which appears once it is complete.
    weights: The network and its parameters.

  Returns:
    As for `write`; the last sentence explains how to open the file in timm.

  Raises:
    UserError: There is no such network in timm, or the file cannot be
      written.
  """
  network = check(weights.model)
  config, notes = _config(weights, network)
  metadata = {timm_config.NAME: json.dumps(config)}
  with records.replacing(path) as partial:
    tensors.write(partial, _tensors(weights), metadata)
  return (*notes, _opening(os.fspath(path), weights, network))


def _opening(path: str, weights: Weights, network: TimmNetwork) -> str:
  """Returns a line of Python with which timm opens a standalone file."""
  arguments = {"num_classes": weights.model.num_classes or 0}
  arguments |= network.arguments
  given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
  return (
    f'timm.create_model("{network.architecture}", checkpoint_path="{path}",'
    f" {given}) opens it"
  )


def _writer(model: schema.Model) -> TimmWriter:
  for name in TIMM_WRITERS.names():
    writer = TIMM_WRITERS.get(name)
    if writer.writes(model):
      return writer
  raise Unwritable(f"timm has no network such as model.name='{model.name}'")


def _tensors(weights: Weights) -> dict[str, Any]:
  params = flat.flatten(stacking.unstack_layers(weights.params))
  return dict(_writer(weights.model).tensors(weights.model, params))


def _config(
  weights: Weights, network: TimmNetwork
) -> tuple[dict[str, Any], tuple[str, ...]]:
  """Returns config.json and sentences about what it cannot express."""
  model = weights.model
  num_classes = model.num_classes or 0
  mean, deviation = pixels.parse(model.normalize)
  transform, notes = timm_transform.described(
    weights.preprocess, model.image_size
  )
  classifier = network.classifier
  if not isinstance(classifier, str):
    classifier = list(classifier)
  config: dict[str, Any] = {
    "architecture": network.architecture,
    "num_classes": num_classes,
    "num_features": network.width,
    "global_pool": network.pool,
    "model_args": dict(network.arguments),
    "pretrained_cfg": {
      "custom_load": False,
      "input_size": [3, model.image_size, model.image_size],
      "fixed_input_size": network.fixed_input_size,
      **transform,
      "mean": list(mean),
      "std": list(deviation),
      "num_classes": num_classes,
      "pool_size": None,
      "first_conv": network.first_conv,
      "classifier": classifier
      if isinstance(classifier, str)
      else [*classifier],
    },
  }
  if num_classes:
    config["label_names"] = labels.named(weights.class_names, num_classes)
  if weights.activation in image_processor.PROBLEM_TYPES:
    config["problem_type"] = image_processor.PROBLEM_TYPES[weights.activation]
  if weights.preprocess is not None:
    config[image_processor.OURS] = weights.preprocess
  return config, (*network.notes, *notes)
