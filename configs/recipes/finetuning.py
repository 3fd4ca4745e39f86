"""Fine-tuning as in Table 4 of the ViT paper, shared by experiment files."""

import dataclasses

import ml_collections

from vit_jax.config import names
from vit_jax.config.defaults import default_config, default_eval

CROPS = ("", "inception", "random")
SPLITS = ("full", "dev")
_SMALL_RATES = (0.001, 0.003, 0.01, 0.03)


@dataclasses.dataclass(frozen=True)
class Task:
  """A dataset and its fine-tuning settings.

  Attributes:
    dataset: TFDS name.
    steps: Number of steps of 512 images each.
    rates: Learning rates that a sweep tries.
    base_lr: Learning rate used without a sweep.
    train: Split of all training examples.
    without_dev: Split trained on while rates are compared.
    dev: Rest of `train`, on which rates are compared.
    test: Split that results are reported on.
    warmup_steps: Warmup of the schedule.
    crop: Crop of training images: 'inception', 'random' (a crop of the resized
      image) or None.
    flip: True if training images are mirrored at random.
    label_key: Feature that holds the label.
    decode: First ops, of training and test images.
    num_classes: Classes of the head; None: those of the dataset.
  """

  dataset: str
  steps: int
  rates: tuple[float, ...]
  base_lr: float
  train: str
  without_dev: str
  dev: str
  test: str
  warmup_steps: int = 500
  crop: str | None = "inception"
  flip: bool = True
  label_key: str = "label"
  decode: str = "decode"
  num_classes: int | None = None

  def train_ops(self, image_size: int, crop: str = "") -> str:
    """Preprocessing of training images; `crop` replaces the task's own."""
    kind = crop if crop and self.crop else self.crop
    if kind is None:
      ops = f"{self.decode}|resize"
    elif kind == "random":
      # 448 to 384 pixels. [BV]
      resized = round(image_size * 448 / 384)
      ops = f"{self.decode}|resize({resized})|random_crop"
    else:
      ops = f"{self.decode}|inception_crop"
    return f"{ops}|flip_lr" if self.flip else ops


def _task(
  dataset: str,
  steps: int,
  dev_percent: int,
  *,
  base_lr: float,
  rates: tuple[float, ...] = _SMALL_RATES,
  test: str = "test",
  warmup_steps: int = 500,  # Of the published code.
) -> Task:
  """A task whose dev examples are the last ones of train."""
  cut = 100 - dev_percent
  return Task(
    dataset=dataset,
    steps=steps,
    rates=rates,
    base_lr=base_lr,
    train="train",
    without_dev=f"train[:{cut}%]",
    dev=f"train[{cut}%:]",
    test=test,
    warmup_steps=warmup_steps,
  )


# Table 4. Where no dev score is at hand, the middle of the rates that the
# published code and big_vision use.
TASKS = {
  "imagenet2012": _task(
    "imagenet2012",
    20_000,
    1,
    base_lr=0.03,
    rates=(0.003, 0.01, 0.03, 0.06),
    test="validation",
  ),
  "cifar10": _task("cifar10", 10_000, 2, base_lr=0.01),
  "cifar100": _task("cifar100", 10_000, 2, base_lr=0.01),
  "oxford_iiit_pet": _task(
    "oxford_iiit_pet", 500, 10, base_lr=0.003, warmup_steps=100
  ),
  "oxford_flowers102": _task(
    "oxford_flowers102", 500, 10, base_lr=0.003, warmup_steps=100
  ),
}


def build(
  task: Task,
  *,
  model: str = "",
  image_size: int = 384,
  crop: str = "",
  is_dev: bool = False,
) -> ml_collections.ConfigDict:
  """The config of a task: SGD of momentum 0.9, cosine, batch 512, clip 1.

  Args:
    task: Task to fine-tune on.
    model: A name such as 'H/14'; '': the architecture of `init_from`.
    image_size: Side of the images, pixels.
    crop: Crop that replaces the task's: 'inception' or 'random'.
    is_dev: True leaves the dev examples out of training and reports on them
      instead of the test split.

  Raises:
    UserError: No model has that name.
  """
  config = default_config()
  config.total_steps = task.steps
  config.log_every_steps = 50
  # A published file beside which the command is run, if none is named.
  config.init_from = "B_16.npz"
  config.init_without = ("head/.*",)  # The new head is zero. [P] 3.2
  if model:
    config.model.update(names.find(model).model_dump(exclude_unset=True))
    config.init_from = f"{model.replace('/', '_')}.npz"
    # The published H/14 at 384 px leaves out 6 pixels.
    config.model.drop_remainder = model == "H/14" and image_size == 384
  config.model_from_init = not model
  config.keep_model_keys = ("image_size",)
  config.model.update(
    image_size=image_size, dtype="bfloat16", num_classes=task.num_classes
  )
  config.train.update(
    dataset=task.dataset,
    split=task.without_dev if is_dev else task.train,
    batch_size=512,
    label_key=task.label_key,
    preprocess=task.train_ops(image_size, crop),
  )
  config.optimizer.update(
    name="sgd", momentum=0.9, grad_clip_norm=1.0, mu_dtype="bfloat16"
  )
  config.schedule.update(
    base_lr=task.base_lr, warmup_steps=task.warmup_steps, decay="cosine"
  )
  config.checkpoint.every_steps = 500
  config.sweep.update(
    learning_rates=task.rates, train_split=task.without_dev, dev_split=task.dev
  )
  config.evals["dev" if is_dev else "test"] = default_eval(
    type="classification",
    split=task.dev if is_dev else task.test,
    preprocess=f"{task.decode}|resize",
    label_key=task.label_key,
    every_steps=None if task.steps < 2000 else 1000,
  )
  return config
