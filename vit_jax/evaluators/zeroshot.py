"""Zero-shot accuracy: an image belongs to the class with the nearest texts.

CLIP (arXiv 2103.00020, 3.1.4): the embeddings of all prompts of a class, each
of unit length, are averaged, and the mean is normalised to unit length again.
"""

import collections
import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.evaluators import contract
from vit_jax.evaluators.classified_split import ClassifiedSplit
from vit_jax.evaluators.opening import open_split
from vit_jax.evaluators.split import Split
from vit_jax.evaluators.texts import TextEmbedder
from vit_jax.prompts import class_names, ensemble, templates
from vit_jax.sharding import arrays
from vit_jax.sharding import mesh as meshes

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Task:
  """A split and the words for its classes.

  Attributes:
    split: Examples.
    names: Name of each class, for the report.
    prompts: The prompts of each class.
  """

  split: Split
  names: Sequence[str]
  prompts: Sequence[Sequence[str]]


def build(
  name: str, config: schema.ZeroShotEval, context: contract.Context
) -> "ZeroShot":
  """Opens the data of `config.evals.<name>`.

  Raises:
    UserError: The data, the names, the templates or the tokenizer are missing,
      or the number of names is not the number of classes.
  """
  key = f"config.evals.{name}"
  tasks = {}
  for dataset, keys in config.datasets.items():
    here = f"{key}.datasets.{dataset}"
    split = open_split(
      context,
      key=here,
      batch_size=config.batch_size,
      **keys.model_dump(exclude={"class_names", "templates"}),
    )
    tasks[dataset] = _task(keys, split, config.prompts, here)
  batch_size = config.batch_size or context.config.train.batch_size
  embed = TextEmbedder(context, key=key, batch_size=batch_size)
  for dataset, task in tasks.items():
    here = f"{key}.datasets.{dataset}"
    warn_of_same_tokens(task.prompts, embed.tokenize, here)
  return ZeroShot(name, tasks, embed, context)


def warn_of_same_tokens(
  prompts: Sequence[Sequence[str]],
  tokenize: Callable[[list[str]], np.ndarray],
  key: str,
) -> None:
  """Warns of classes whose first prompts differ, but not in their tokens.

  Args:
    prompts: The prompts of each class.
    tokenize: Tokenizes texts.
    key: Key of the classes, for messages.
  """
  texts = list(dict.fromkeys(first for first, *_ in prompts))
  same = collections.defaultdict(list)
  for text, row in zip(texts, tokenize(texts), strict=True):
    same[row.tobytes()].append(text)
  for text, other, *more in filter(lambda one: len(one) > 1, same.values()):
    _logger.warning(
      "%s: %r and %r%s are the same tokens, so these classes cannot be told"
      " apart. Texts are cut after %d tokens (model.text.length), and"
      " the tokenizer may not know some characters; shorten the names or"
      " templates.",
      key,
      text,
      other,
      f" and {len(more)} more" if more else "",
      row.size,
    )


def _task(
  keys: schema.ZeroShotDataset, split: Split, style: str, key: str
) -> Task:
  names_key = f"{key}.class_names"
  if keys.class_names is not None:
    names = class_names.read(keys.class_names, key=names_key)
  elif split.class_names is not None:
    names = class_names.of_dataset(split.class_names)
  else:
    raise UserError(
      f"{names_key} = None, but {keys.dataset!r} has no names for its classes;"
      " give a file with one in each line."
    )
  if len(names) != split.num_classes:
    raise UserError(
      f"{names_key} = {keys.class_names!r} has {len(names)} classes, but"
      f" {keys.dataset!r} has {split.num_classes}; name each of them, in the"
      " order of the labels."
    )
  found = templates.read(keys.templates, key=f"{key}.templates")
  prompts = ensemble.prompts(names, found, style=style, key=names_key)
  return Task(split, [one[0] for one in names], prompts)


class ZeroShot:
  """Top-1 and top-5 accuracy on several datasets, from texts only.

  Args:
    name: Key in `config.evals`.
    tasks: Datasets by name.
    embed: Embeds texts.
    context: Context of the run.
  """

  def __init__(
    self,
    name: str,
    tasks: Mapping[str, Task],
    embed: TextEmbedder,
    context: contract.Context,
  ):
    self._embed = embed
    self._replicated = meshes.replicated(context.mesh)
    self._tasks = tasks
    self._classified = {
      dataset: ClassifiedSplit(
        f"{name}/{dataset}",
        task.split,
        context,
        _logits(context),
        loss="softmax",
        num_classes=len(task.names),
        class_names=list(task.names),
      )
      for dataset, task in tasks.items()
    }

  def run(self, state: contract.EvaluatedState, step: int) -> dict[str, float]:
    """Returns `zeroshot/<dataset>/{top1,top5,loss,num_examples}`.

    The loss is the softmax cross-entropy over the classes, with the learned
    scale.

    Raises:
      UserError: No example has a label, or the parameters are not finite.
    """
    metrics = {}
    for dataset, classified in self._classified.items():
      classes = class_embeddings(
        self._tasks[dataset].prompts,
        lambda texts: self._embed(state.eval_params, texts),
      )
      placed = arrays.divided(
        classes.shape, self._replicated, classes.__getitem__
      )
      found = classified.run(step, state.eval_params, placed)
      metrics |= {f"zeroshot/{dataset}/{k}": v for k, v in found.items()}
    return metrics


def class_embeddings(
  prompts: Sequence[Sequence[str]],
  embed: Callable[[Sequence[str]], Float[np.ndarray, "n e"]],
) -> Float[np.ndarray, "classes e"]:
  """Returns each class's embedding: the normalised mean of its prompts'.

  Args:
    prompts: Prompts of each class.
    embed: Texts -> embeddings of unit length, in their order.
  """
  counts = [len(one) for one in prompts]
  embedded = embed([prompt for one in prompts for prompt in one])
  starts = np.cumsum([0, *counts[:-1]])
  sums = np.add.reduceat(embedded, starts, axis=0, dtype=np.float64)
  norms = np.linalg.norm(sums, axis=1, keepdims=True)
  return (sums / np.maximum(norms, 1e-12)).astype(np.float32)


def _logits(context: contract.Context):
  def logits(
    batch: Mapping[str, Array], params: Any, classes: Float[Array, "classes e"]
  ) -> Float[Array, "b classes"]:
    outputs = context.outputs(params, batch)
    images = outputs["image_embedding"].astype(jnp.float32)
    similarity = jnp.matmul(images, classes.T, precision="highest")
    return outputs["scale"].astype(jnp.float32) * similarity

  return logits
