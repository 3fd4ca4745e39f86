"""Declaration of `linear_segmentation`: a linear layer on patch tokens."""

from vit_jax.config import schema
from vit_jax.config.evaluator_declarations import Column
from vit_jax.errors import UserError
from vit_jax.evaluators import entry_checks
from vit_jax.evaluators.kind import EvaluatorKind


def _check(
  name: str, entry: schema.LinearSegmentationEval, config: schema.Config
) -> None:
  key = f"config.evals.{name}"
  entry_checks.check_dataset_names(name, config)
  if entry.warmup_steps >= entry.steps:
    raise UserError(
      f"{key}.warmup_steps = {entry.warmup_steps} leaves nothing of {key}.steps"
      f" = {entry.steps}; set it to {entry.steps - 1} or less."
    )
  for data_name, data in entry.datasets.items():
    if not (data.directory or config.data_dir):
      raise UserError(
        f"{key}.datasets.{data_name}.directory and config.data_dir are not set;"
        " give the folder that holds images/ and annotations/ as one of them."
      )


def _protocol(
  name: str, entry: schema.LinearSegmentationEval, config: schema.Config
) -> str:
  layers = "layer" if entry.blocks == 1 else f"{entry.blocks} layers, joined"
  image_size = entry.image_size or config.model.image_size
  side = entry.mask_size or image_size
  return (
    "A linear layer on the frozen patch tokens of the last"
    f" {layers}, brought to mean 0 and variance 1, is trained for"
    f" {entry.steps} steps by AdamW, batches of {entry.train_batch_size},"
    f" learning rate {entry.learning_rate:g} with linear decay; its logits are"
    f" interpolated to pixels. Images are resized to squares of {image_size}"
    f" pixels, and pixels are counted on masks of {side} x {side}. The mean IoU"
    " is over the classes that occur in the test split or are predicted there."
  )


KIND = EvaluatorKind(
  section=schema.LinearSegmentationEval,
  build="vit_jax.evaluators.linear_segmentation:build",
  prefix="linear_segmentation",
  title="Linear segmentation",
  protocol=_protocol,
  features=lambda entry: (),  # Reads the network's layers.
  check=_check,
  columns=lambda entry: (
    Column(
      "miou",
      "mean IoU, %",
      "percent",
      better="higher",
      panel="Mean IoU of linear segmentation",
    ),
    Column("pixel_accuracy", "pixels, %", "percent", better="higher"),
    Column("class_accuracy", "pixels by class, %", "percent", better="higher"),
    Column("num_examples", "images"),
  ),
)
