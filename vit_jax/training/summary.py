"""Summary of a run before it starts: data, model, length and memory."""

from collections.abc import Iterator, Mapping

import jax
import numpy as np

from vit_jax import hardware, registry, trees, truncate
from vit_jax.data import facts
from vit_jax.evaluators.contract import Evaluator
from vit_jax.models import attention_key
from vit_jax.sharding import rules
from vit_jax.training.experiment import Experiment

# Below this many images, published weights are nearly always better.
_FEW = 10_000
_ATTENTION = {
  "xla": "by plain products",
  "cudnn": "by cuDNN's kernel",
  "pallas": "by the kernel for short inputs",
  "flash": "block by block",
}


def lines(
  parts: Experiment,
  evaluators: Mapping[str, Evaluator],
  *,
  first_step: int = 0,
  is_over: bool = False,
  needs: int | None = None,
) -> list[str]:
  """Returns the aligned lines of the summary: model, data, length and so on.

  Args:
    parts: Parts of the experiment.
    evaluators: Its evaluators by name, if their data are available.
    first_step: Number of updates done by an earlier start.
    is_over: True if that was the last step, also if the length is greater.
    needs: Maximum bytes that a device needs, if known.
  """
  is_over = is_over or first_step >= parts.total_steps
  rows = [
    ("model", _model(parts)),
    *(("", line) for line in _attention(parts)),
    ("data", _data(parts)),
    *(("", line) for line in _spare_outputs(parts)),
    *(("", line) for line in _classes(parts)),
    *(("", line) for line in _unlabelled(parts)),
    *(("", line) for line in _numbers(parts)),
    *(
      (f"evals.{name}", f"{evaluator.num_examples:,} images")
      for name, evaluator in evaluators.items()
      if getattr(evaluator, "num_examples", None) is not None
    ),
    *([] if is_over else [("length", _length(parts))]),
    ("start", _start(parts, first_step, is_over)),
    ("device", _device(parts, needs)),
  ]
  width = max(len(name) for name, _ in rows)
  return [f"{name:{width}}  {text}" for name, text in rows]


def _model(parts: Experiment) -> str:
  model = parts.config.model
  described = registry.FAMILIES.get(model.name).describe(model)
  parameters = trees.num_elements(parts.abstract_state.params)
  return (
    f"{described}; images of {model.image_size} px, {parameters:,} parameters"
  )


def _attention(parts: Experiment) -> Iterator[str]:
  model = parts.config.model
  attention = attention_key.value(model)
  if attention is not None:
    key = attention_key.name(model)
    how = _ATTENTION.get(attention, "as its family has it")
    yield f"attention {how} (config.{key} = '{attention}')"


def _data(parts: Experiment) -> str:
  train, facts = parts.config.train, parts.facts
  name = train.dataset
  if name.partition(":")[0] == "folder":
    name = f"{name} {parts.config.data_dir}"
  if facts.num_examples is None:
    return f"{name}, which cannot be opened (the notes below say why)"
  text = f"{facts.num_examples:,} images of {train.split} of {name}"
  if parts.config.objective.predicts_numbers:
    text += f" with {facts.num_classes:,} number"
    text += "s" * (facts.num_classes > 1) + " to predict"
  elif facts.num_classes is not None:
    text += f" in {facts.labelled_classes or facts.num_classes:,} classes"
  return text


def _spare_outputs(parts: Experiment) -> Iterator[str]:
  """Yields a line on head outputs without a label in the data."""
  labelled, outputs = parts.facts.labelled_classes, parts.facts.num_classes
  if labelled and outputs and outputs > labelled:
    yield (
      f"no label for {outputs - labelled:,} of the head's outputs"
      f" (config.model.num_classes = {outputs})"
    )


def _classes(parts: Experiment) -> Iterator[str]:
  """Yields lines on the examples of each class, if their number is known."""
  counts, names = parts.facts.label_counts, parts.facts.class_names
  if counts is None:
    return
  order = np.argsort(-counts, kind="stable")
  if names is None:
    names = tuple(f"class {number}" for number in range(len(counts)))
  else:
    shown = [f"{names[i]} {counts[i]:,}" for i in order]
    yield f"images by class: {truncate.first(shown, 8)}"
  if parts.facts.features.max_labels == 1:
    share = counts.max() / counts.sum()
    yield f"always answering {names[order[0]]} would be right for {share:.1%}"
  if missing := [names[i] for i in order if not counts[i]]:
    yield f"no image to learn from: {truncate.first(missing, 8)}"
  if (balance := parts.facts.balance) is not None:
    share = balance.counts.sum() / len(balance.counts)
    yield (
      "classes are drawn equally often: an image of the largest"
      f" {share / balance.counts.max():.3g} times an epoch, of the smallest"
      f" {share / balance.counts.min():.3g} times"
    )


def _unlabelled(parts: Experiment) -> Iterator[str]:
  """A line on images whose list of labels is empty."""
  number = parts.facts.unlabelled
  if not number or not facts.learns_labels(parts.config):
    return
  if parts.config.objective.loss != "softmax":
    effect = "are examples of none of the classes"
  else:
    effect = (
      "add nothing to the loss; config.objective.loss = 'sigmoid' makes them"
      " examples of none of the classes"
    )
  yield f"images without a label: {number:,}, which {effect}"


def _numbers(parts: Experiment) -> Iterator[str]:
  """Yields lines on the numbers to predict."""
  targets = parts.facts.targets
  if targets is None:
    return
  shown = [
    f"{name} {mean:.5g} ± {std:.5g}"
    for name, mean, std in zip(
      targets.names, targets.mean, targets.std, strict=True
    )
  ]
  yield f"mean and standard deviation: {truncate.first(shown, 8)}"
  yield "always answering the mean would be wrong by the standard deviation"


def _length(parts: Experiment) -> str:
  batch = parts.config.train.batch_size
  text = f"{parts.total_steps:,} steps of {batch:,} images"
  if parts.facts.num_examples:
    passes = parts.total_steps * batch / parts.facts.num_examples
    epochs = f"{passes:.3g}" if passes < 999.5 else f"{passes:,.0f}"
    text += f", {epochs} epoch" + "s" * (epochs != "1")
    asked = parts.config.total_steps
    if asked is not None and parts.total_steps < asked:
      text += f" (config.max_epochs; {asked:,} steps without it)"
  return text


def _start(parts: Experiment, first_step: int, is_over: bool) -> str:
  config = parts.config
  if is_over:
    at = f"at step {first_step:,} of {parts.total_steps:,} already"
    if first_step < parts.total_steps:
      at = f"at step {first_step:,}, where it was stopped early"
    return f"{at}; nothing is left to train"
  if first_step:
    return f"where the run was stopped, after step {first_step:,}"
  if config.init_from is not None:
    return f"from {config.init_from}"
  if config.optimizer.freeze is not None:
    return (
      "from random weights, which config.optimizer.freeze ="
      f" {config.optimizer.freeze!r} leaves as they are; config.init_from names"
      " others"
    )
  few = parts.facts.num_examples is not None
  few = few and parts.facts.num_examples < _FEW
  own = config.train.dataset.partition(":")[0] not in ("digits", "generated")
  if few and own and config.objective.name == "supervised":
    return (
      "from random weights; for so few images, published ones are better, such"
      " as config.init_from=augreg_i21k:S/16"
    )
  return "from random weights"


def _device(parts: Experiment, needs: int | None) -> str:
  devices = parts.mesh.devices.flat
  text = f"{parts.mesh.devices.size} x {devices[0].device_kind}"
  free = free_memory()
  if free is not None:
    text += f", each with {rules.format_bytes(free)} of memory free"
  if needs is not None:
    text += f"; the run needs at most {rules.format_bytes(needs)} of each"
  return text


def free_memory() -> int | None:
  """Returns the free bytes of a device; None if they are unknown."""
  # Another process's device cannot be queried.
  device = jax.local_devices()[0]
  if device.platform != "cpu":
    found = device.memory_stats() or {}
    if "bytes_limit" not in found:
      return None
    return found["bytes_limit"] - found.get("bytes_in_use", 0)
  free = hardware.free_memory()
  return free and free // jax.local_device_count()
