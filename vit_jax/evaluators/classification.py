"""Accuracy and loss of the model's own head over a whole split."""

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.evaluators import contract, matching_classes
from vit_jax.evaluators.classified_split import ClassifiedSplit
from vit_jax.evaluators.opening import open_split
from vit_jax.evaluators.split import Split


def build(
  name: str, config: schema.ClassificationEval, context: contract.Context
) -> "Classification":
  """Opens the data of `config.evals.<name>`.

  Raises:
    UserError: The data is missing, or has more classes than the model or
      different ones.
  """
  key = f"config.evals.{name}"
  kind = registry.OBJECTIVES.get(context.config.objective.name)
  loss = config.loss or kind.activation(context.config)
  if loss is None:
    raise UserError(
      f'{key} is of type "classification", but objective'
      f' "{context.config.objective.name}" trains no classifier; use "knn",'
      ' "fewshot" or "linear_probe".'
    )
  split = open_split(
    context,
    key=key,
    dataset=config.dataset or context.config.train.dataset,
    split=config.split,
    preprocess=config.preprocess,
    batch_size=config.batch_size,
    image_key=config.image_key,
    label_key=config.label_key,
    label_sets=config.label_sets,
  )
  if split.num_classes > context.num_classes:
    raise UserError(
      f"{key}: the labels have {split.num_classes} classes and the"
      f" model {context.num_classes}; choose another dataset or label_key."
    )
  return Classification(
    name,
    split,
    context,
    loss=loss,
    has_all_labels=split.max_labels > 1 and config.label_sets is None,
  )


class Classification:
  """Accuracy and loss of a classifier's logits; see `ClassifiedSplit`.

  Attributes:
    num_examples: Number of examples of the split.
  """

  def __init__(
    self,
    name: str,
    split: Split,
    context: contract.Context,
    *,
    loss: str,
    has_all_labels: bool = False,
  ):
    names = context.class_names or split.class_names
    self._name = name
    self.num_examples = split.num_examples
    self._classified = ClassifiedSplit(
      name,
      split,
      context,
      lambda batch, params: context.outputs(params, batch)["logits"],
      loss=loss,
      num_classes=context.num_classes,
      class_names=list(names) if names else None,
      class_of_label=matching_classes.of_labels(
        split.key,
        split.class_names,
        context.class_names,
        num_classes=context.num_classes,
      ),
      has_all_labels=has_all_labels,
    )

  def run(self, state: contract.EvaluatedState, step: int) -> dict[str, float]:
    """Returns the metrics of `ClassifiedSplit`, prefixed with `eval/<name>/`.

    Raises:
      UserError: No example has a label.
    """
    metrics = self._classified.run(step, state.eval_params)
    return {f"eval/{self._name}/{k}": v for k, v in metrics.items()}
