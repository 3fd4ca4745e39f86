"""The README.md of an exported directory: the model, its training, its results.

Front matter as Hugging Face's hub reads it, then model_card.md filled in. All
third-party text, such as names of classes or datasets, is put in code spans or
quotes, where it cannot become markup. (huggingface_hub's ModelCard would fill
in its own template and quotes nothing.)
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import numpy as np
import yaml
from etils import epath

from vit_jax import registry
from vit_jax.config import names, pixels, schema
from vit_jax.data.huggingface import dataset_names
from vit_jax.weights import flat, training_record
from vit_jax.weights.contract import Weights
from vit_jax.weights.markup import code, plain, shortened
from vit_jax.weights.training_record import Result, Training

# Our dataset names, without configs and versions -> the hub's.
_HUB_DATASETS = {"imagenet2012": "imagenet-1k", "imagenet21k": "imagenet-21k"}
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_OF_HUB = "datasets:"
_OWN_DATA = ("captions", "csv", "folder", "generated", "webdataset")


def text(
  name: str,
  weights: Weights,
  training: Training | None = None,
  *,
  library: str = "transformers",
  repository: str | None = None,
  report: str | None = None,
) -> str:
  """Writes the model card.

  Args:
    name: Name of the model.
    weights: Parameters of the model and their intended use.
    training: Record of the run that produced them; None if there is none.
    library: Format of the directory: 'transformers' or 'timm'.
    repository: Name of its repository on the hub, 'OWNER/NAME'; None if it has
      none.
    report: Name of the file next to it that holds the run's report.
  """
  model = weights.model
  family = registry.FAMILIES.get(model.name)
  mean, deviation = pixels.parse(model.normalize)
  results = []
  if training and _is_as_trained(weights, training):
    results = list(training_record.results(training))
  environment = jinja2.Environment(
    loader=jinja2.PackageLoader("vit_jax", "weights"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
  )
  environment.filters |= {"code": code, "plain": plain}
  environment.filters |= {"scalar": _scalar, "duration": _duration}
  environment.filters["file_name"] = lambda path: epath.Path(path).name
  body = environment.get_template("model_card.md").render(
    name=name,
    weights=weights,
    model=model,
    family=family,
    details=family.details(model),
    description=names.describe(model),
    num_params=sum(map(np.size, flat.flatten(weights.params).values())),
    auto=f"AutoModel{'ForImageClassification' if model.num_classes else ''}",
    mean=list(mean),
    deviation=list(deviation),
    training=training,
    library=library,
    place=repository or "THIS_DIRECTORY",
    timms_place=f"hf-hub:{repository}"
    if repository
    else "local-dir:THIS_DIRECTORY",
    our_place=f"hf:{repository}" if repository else "THIS_DIRECTORY",
    report=report,
    objective=_objective(training.config) if training else {},
    regularisation=_regularisation(training) if training else [],
    results=results,
  )
  front = yaml.safe_dump(
    _front_matter(name, library, weights, training, results),
    sort_keys=False,
    allow_unicode=True,
  )
  return f"---\n{front}---\n\n{body}"


def _scalar(value: float | str) -> str:
  """Formats a number, or how it changes over the run."""
  return code(value) if isinstance(value, str) else f"{value:g}"


def _duration(value: int | str) -> str:
  if isinstance(value, int):
    return f"{value:,} step" + ("" if value == 1 else "s")
  return f"{code(value)} of the run" if "%" in value else code(value)


def _is_as_trained(weights: Weights, training: Training) -> bool:
  """Tells whether a run's measurements apply to these parameters.

  They do not for a different image size or with a new head, which is all zeros.
  """
  head = flat.flatten(weights.params).get("head/kernel")
  same_size = weights.model.image_size == training.config.model.image_size
  return same_size and (head is None or bool(np.any(head)))


def _objective(config: schema.Config) -> Mapping[str, str]:
  """Returns the objective's own description."""
  return registry.OBJECTIVES.get(config.objective.name).describe(config)


def _regularisation(training: Training) -> list[str]:
  model = training.config.model
  strengths = {
    "dropout": getattr(model, "dropout_rate", 0),
    "stochastic depth": getattr(model, "stochastic_depth_rate", 0),
  }
  return [f"{name} {value:g}" for name, value in strengths.items() if value]


def _front_matter(
  name: str,
  library: str,
  weights: Weights,
  training: Training | None,
  results: Sequence[Result],
) -> dict[str, Any]:
  tag = registry.FAMILIES.get(weights.model.name).tag
  has_head = weights.model.num_classes is not None
  task = "image-classification" if has_head else "image-feature-extraction"
  front: dict[str, Any] = {
    "library_name": library,
    "pipeline_tag": task,
    "tags": ["vision", tag, "jax", "vit_jax"],
  }
  if weights.predicts_numbers:
    front["tags"].append("image-regression")
  if training and (dataset := _hub_id(training.config.train.dataset)):
    front["datasets"] = [dataset]
  measured = [result for result in results if result.kind]
  if measured:
    front["metrics"] = sorted({result.kind for result in measured})
    front["model-index"] = [
      {
        "name": shortened(name),
        "results": [_index(x, weights) for x in measured],
      }
    ]
  return front


def _index(result: Result, weights: Weights) -> dict[str, Any]:
  value = round(result.value, 6)
  # The hub has no task for predicting numbers.
  name = "regression" if weights.predicts_numbers else "classification"
  return {
    "task": {"type": "image-classification", "name": f"Image {name}"},
    "dataset": {
      "type": _hub_id(result.dataset) or "custom",
      "name": shortened(result.dataset),
      "split": shortened(result.split),
    },
    "metrics": [{"type": result.kind, "name": result.title, "value": value}],
  }


def _hub_id(dataset: str) -> str | None:
  """Returns the hub's name for a dataset; None for a user's own."""
  if dataset.startswith(_OF_HUB):
    arguments = dataset.removeprefix(_OF_HUB)
    found = dataset_names.parse(arguments)
    is_path = found is None or "/" not in found.name
    return None if is_path or os.path.isdir(arguments) else found.name
  name = dataset.split(":")[0].split("/")[0]
  if name in _OWN_DATA or not _HUB_ID.fullmatch(name):
    return None
  return _HUB_DATASETS.get(name, name)
