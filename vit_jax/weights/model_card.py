"""The README.md of an exported directory: what the model is and can do.

Front matter as Hugging Face's hub reads it, then prose. All that comes from
others, such as names of classes or datasets, stands in code spans or quotes,
where it cannot become markup.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from etils import epath

from vit_jax.config import names, pixels, sizes
from vit_jax.weights import flat, training_record
from vit_jax.weights.contract import Weights
from vit_jax.weights.markup import bullets, code, plain, shortened, yaml
from vit_jax.weights.training_record import Result, Training

# Our names of datasets, without configs and versions -> the hub's.
_HUB_DATASETS = {"imagenet2012": "imagenet-1k", "imagenet21k": "imagenet-21k"}
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_OWN_DATA = ("folder", "generated")
_MOST_CLASSES = 20


def text(name: str, weights: Weights, training: Training | None = None) -> str:
  """The model card.

  Args:
    name: of the model.
    weights: its parameters.
    training: where they are from a run.
  """
  results = []
  if training and _is_as_trained(weights, training):
    results = list(training_record.results(training))
  sections = [
    f"# {plain(name)}",
    _introduction(weights, training),
    _usage(weights),
    _architecture(weights),
    _classes(weights),
    _data_and_recipe(training) if training else _unknown_training(weights),
    _result_lines(training, results),
    _notes(weights),
  ]
  front = _front_matter(name, weights, training, results)
  return front + "\n" + "\n\n".join(x for x in sections if x) + "\n"


def _is_as_trained(weights: Weights, training: Training) -> bool:
  """Whether what was measured of the run holds for these parameters.

  It does not for images of another size, nor with a new head, which is of
  zeros.
  """
  leaves = flat.flatten(weights.params)
  head = leaves.get("head/kernel")
  same_size = weights.model.image_size == training.config.model.image_size
  return same_size and (head is None or bool(np.any(head)))


def _introduction(weights: Weights, training: Training | None) -> str:
  model = weights.model
  count = sum(np.size(x) for x in flat.flatten(weights.params).values())
  kind = "ResNet" if model.name == "resnet" else "Vision Transformer"
  head = (
    f"classifies images into {model.num_classes:,} classes"
    if model.num_classes
    else "turns images into features; it has no classifier"
  )
  text = (
    f"A {kind} ({names.describe(model)}) with {count:,} parameters that {head}."
  )
  if training and training.config.ema_decay is not None:
    text += (
      " The parameters are a running average of those of the training, of"
      f" decay {training.config.ema_decay}."
    )
  return text


def _usage(weights: Weights) -> str:
  auto = (
    "AutoModelForImageClassification"
    if weights.model.num_classes
    else "AutoModel"
  )
  return f"""## Use

With [transformers](https://github.com/huggingface/transformers):

```python
from transformers import {auto}, AutoImageProcessor

model = {auto}.from_pretrained("THIS_DIRECTORY")
processor = AutoImageProcessor.from_pretrained("THIS_DIRECTORY")
outputs = model(**processor(images=image, return_tensors="pt"))
```

In JAX, with vit_jax:

```python
import vit_jax

model, params = vit_jax.load("THIS_DIRECTORY")
outputs = model.apply({{"params": params}}, images)  # uint8 [n, h, w, 3]
```"""


def _architecture(weights: Weights) -> str:
  model = weights.model
  size = sizes.resolve(model)
  if isinstance(size, sizes.ResNetSize):
    lines = [
      f"units of the stages: {', '.join(map(str, size.blocks))}",
      f"channels of the root: {size.width}",
    ]
  else:
    lines = [
      f"width {size.width}, {size.depth} layers of {size.num_heads} heads,"
      f" MLPs of {size.mlp_dim}",
      f"patches of {size.patch_size} x {size.patch_size} pixels",
      f"pooling: {code(model.pool)}",
      f"position embedding: {code(model.pos_embedding)}",
      f"GELU: {code(model.gelu)}; LayerNorm epsilon: {model.layer_norm_eps:g}",
    ]
  mean, deviation = pixels.parse(model.normalize)
  lines += [
    f"images of {model.image_size} x {model.image_size} pixels",
    f"pixels in [0, 1] minus {list(mean)}, divided by {list(deviation)}",
  ]
  return "## Architecture\n\n" + bullets(lines)


def _classes(weights: Weights) -> str:
  if not weights.class_names:
    return ""
  shown = ", ".join(map(code, weights.class_names[:_MOST_CLASSES]))
  left = len(weights.class_names) - _MOST_CLASSES
  more = f" and {left:,} more, in config.json" if left > 0 else ""
  return f"## Classes\n\n{shown}{more}."


def _unknown_training(weights: Weights) -> str:
  source = code(epath.Path(weights.path).name)
  return (
    "## Training\n\n"
    f"Converted from {source}, which does not say on what data or how it was"
    " trained."
  )


def _data_and_recipe(training: Training) -> str:
  config, train = training.config, training.config.train
  data = [
    f"dataset: {code(train.dataset)}, split {code(train.split)}",
    f"preprocessing: {code(train.preprocess)}",
  ]
  if config.init_from is not None:
    # The last part only: the rest says where things are on someone's disk.
    data.append(f"started from {code(epath.Path(config.init_from).name)}")
  return (
    "## Training data\n\n"
    + bullets(data)
    + "\n\n## Recipe\n\n"
    + bullets(list(_recipe(training)))
  )


def _recipe(training: Training) -> Iterator[str]:
  config = training.config
  batch = config.train.batch_size
  steps = f"{training.step:,}"
  if config.total_steps and config.total_steps != training.step:
    steps += f" of {config.total_steps:,}"
  yield f"{steps} updates of {batch:,} images, {training.step * batch:,} in all"
  optimizer, schedule = config.optimizer, config.schedule
  text = f"optimizer: {code(optimizer.name)}"
  if optimizer.weight_decay:
    text += f", weight decay {optimizer.weight_decay:g}"
  if optimizer.grad_clip_norm is not None:
    text += f", gradients clipped at norm {optimizer.grad_clip_norm:g}"
  if optimizer.freeze is not None:
    text += f", frozen: {code(optimizer.freeze)}"
  yield text
  yield (
    f"learning rate: {schedule.base_lr:g}, {code(schedule.decay)} after a"
    f" warmup of {code(str(schedule.warmup_steps))} steps"
  )
  objective = config.objective
  yield f"loss: {code(objective.loss)} cross-entropy"
  regularisation = {
    "label smoothing": objective.label_smoothing,
    "mixup": objective.mixup_alpha,
    "CutMix": objective.cutmix_alpha,
    "dropout": config.model.dropout_rate,
    "stochastic depth": config.model.stochastic_depth_rate,
  }
  used = [
    f"{name} {value:g}" for name, value in regularisation.items() if value
  ]
  if used:
    yield "regularisation: " + ", ".join(used)
  yield f"numbers: {code(config.model.dtype)}; seed {config.seed}"
  if training.devices:
    yield f"hardware: {code(training.devices)}"


def _result_lines(training: Training | None, results: list[Result]) -> str:
  if training is None:
    return ""
  if not results:
    return (
      "## Results\n\n"
      "The run has no evaluation of these parameters, of step"
      f" {training.step:,}, at this image size and with this head."
    )
  lines = []
  for result in results:
    where = code(result.dataset)
    if result.split:
      where += f", split {code(result.split)}"
    detail = f" ({result.detail})" if result.detail else ""
    lines.append(f"{result.title} on {where}: {result.value:.2%}{detail}")
  return f"## Results\n\nAfter {training.step:,} updates:\n\n" + bullets(lines)


def _notes(weights: Weights) -> str:
  notes = [plain(sentence) for sentence in weights.assumed]
  notes.append(
    "No license is stated here: that of the training data and of the weights"
    " that this started from may bind you."
  )
  return "## Notes\n\n" + bullets(notes)


def _front_matter(
  name: str,
  weights: Weights,
  training: Training | None,
  results: list[Result],
) -> str:
  """YAML between two lines of dashes."""
  family = "bit" if weights.model.name == "resnet" else "vit"
  has_head = weights.model.num_classes is not None
  task = "image-classification" if has_head else "image-feature-extraction"
  front: dict[str, Any] = {
    "library_name": "transformers",
    "pipeline_tag": task,
    "tags": ["vision", family, "jax", "vit_jax"],
  }
  if training and (dataset := _hub_id(training.config.train.dataset)):
    front["datasets"] = [dataset]
  measured = [result for result in results if result.kind]
  if measured:
    front["metrics"] = sorted({result.kind for result in measured})
    front["model-index"] = [
      {"name": shortened(name), "results": [_index(x) for x in measured]}
    ]
  return "---\n" + "\n".join(yaml(front)) + "\n---\n"


def _index(result: Result) -> dict[str, Any]:
  return {
    "task": {"type": "image-classification", "name": "Image classification"},
    "dataset": {
      "type": _hub_id(result.dataset) or "custom",
      "name": shortened(result.dataset),
      "split": shortened(result.split),
    },
    "metrics": [
      {"type": result.kind, "name": result.title, "value": result.value}
    ],
  }


def _hub_id(dataset: str) -> str | None:
  """The hub's name of a dataset; None for one's own."""
  name = dataset.split(":")[0].split("/")[0]
  if name in _OWN_DATA or not _HUB_ID.fullmatch(name):
    return None
  return _HUB_DATASETS.get(name, name)
