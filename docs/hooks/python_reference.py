"""Pages of the Python interface, by mkdocstrings from the docstrings."""

import importlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from mkdocs.structure.files import File

import vit_jax

# What public functions return, and functions that the pages of docs/ speak of.
_ELSEWHERE = (
  "vit_jax.evaluators.classifier.Prediction",
  "vit_jax.pretrained.transform.Transform",
  "vit_jax.tokenization.tokenizer.Tokenizer",
  "vit_jax.evaluators.fewshot.linear_fewshot_accuracy",
  "vit_jax.paper.cost.training_exaflops",
  "vit_jax.objectives.contrastive.softmax_loss",
  "vit_jax.objectives.contrastive.sigmoid_loss",
  "vit_jax.objectives.mae.reconstruct",
  "vit_jax.objectives.dino.sinkhorn",
  "vit_jax.objectives.dinov2.koleo",
)
_SEAMS = (
  "vit_jax.registry.Registry",
  "vit_jax.models.family.Family",
  "vit_jax.objectives.kind.ObjectiveKind",
  "vit_jax.objectives.contract.Objective",
  "vit_jax.evaluators.kind.EvaluatorKind",
  "vit_jax.rundir.trackers.contract.TrackerKind",
  "vit_jax.config.evaluator_declarations.Column",
)
# Methods that are shown; of a record none, as its attributes are all there is.
_MEMBERS = {
  "vit_jax.Classifier": ["__call__", "probabilities"],
  "vit_jax.Regressor": ["__call__"],
  "vit_jax.pretrained.transform.Transform": ["__call__"],
  "vit_jax.tokenization.tokenizer.Tokenizer": ["__call__"],
  "vit_jax.registry.Registry": ["names", "get", "register"],
}
_PYTHON = """\
# Python

```python
import vit_jax

model, params = vit_jax.load("B_16.npz")
logits = model.apply({"params": params}, images)
```

A mistake in an argument, a path or a file raises `vit_jax.errors.UserError`
with a sentence: what is wrong, and what to do.
"""
_EXTENDING = """\
# Extending

The records that architectures, objectives, evaluators and trackers fill. Code
outside the package registers its own and names its modules in
`config.extensions`. [Contributing](../contributing.md#recipes) has complete
examples of the first three, and [Trackers](../trackers.md#another-tracker) says
how to add a tracker.
"""


def on_files(files: Any, config: Any) -> Any:
  """Adds the pages to the site."""
  for path, text in pages().items():
    files.append(File.generated(config, path, content=text))
  return files


def pages() -> dict[str, str]:
  """Markdown of each page by its path in the site."""
  public = [f"vit_jax.{name}" for name in vit_jax.__all__]
  return {
    "reference/python.md": "\n".join(
      [_PYTHON, *_objects(public), "## In modules of their own\n"]
      + list(_objects(_ELSEWHERE, level=3))
    ),
    "reference/extending.md": "\n".join([_EXTENDING, *_objects(_SEAMS)]),
  }


def _objects(names: Iterable[str], level: int = 2) -> Iterator[str]:
  """Directives of mkdocstrings, each object under the name users import."""
  for name in names:
    options = {
      "heading": name,
      "heading_level": level,
      "toc_label": name.rpartition(".")[2],
      "members": json.dumps(_MEMBERS.get(name, [])),
    }
    yield f"::: {_home(name)}\n    options:\n" + "".join(
      f"      {option}: {value}\n" for option, value in options.items()
    )


def _home(name: str) -> str:
  """The path where an object is defined, which packages import when asked."""
  module, _, attribute = name.rpartition(".")
  value = getattr(importlib.import_module(module), attribute)
  return f"{value.__module__}.{value.__qualname__}"
