"""Every configuration key once: default, unit, allowed values and source.

An experiment file builds on `default_config()`, a `ConfigDict`;
`vit_jax.config.resolve` turns that into these frozen models, which is all the
rest of the code ever sees. Tags in the descriptions: [P] the ViT paper
(arXiv 2010.11929), [VT] google-research/vision_transformer, [BV]
google-research/big_vision, [DINO] facebookresearch/dino, [DeiT] and [DeiT3]
facebookresearch/deit, [timm] huggingface/pytorch-image-models,
[CLIP] openai/CLIP, [SigLIP] arXiv 2303.15343, [MAE] facebookresearch/mae,
[DV2] facebookresearch/dinov2, [EVA] baaivision/EVA, [BEiT]
microsoft/unilm/beit, [LiT] arXiv 2111.07991.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import pydantic

from vit_jax import durations, registry
from vit_jax.config import pixels, scalars


def _check_duration(value: Any) -> Any:
  durations.parse(value)
  return value


def _check_interval(value: Any) -> Any:
  if not durations.parse(value).amount:
    raise ValueError(f"{value!r} is not an interval; use at least 1 step")
  return value


def _check_pixels(value: str) -> str:
  pixels.parse(value)
  return value


def _split_words(value: Any) -> Any:
  """'wandb,mlflow' -> ('wandb', 'mlflow'), as JSON's list of them."""
  if isinstance(value, str):
    return tuple(word.strip() for word in value.split(",") if word.strip())
  return tuple(value) if isinstance(value, list) else value


def _check_not_negative(value: float | str) -> float | str:
  values = scalars.parse(value).values
  if not all(map(math.isfinite, values)):
    raise ValueError(f"{value!r} is not finite; use numbers of 0 or more")
  if min(values) < 0:
    raise ValueError(f"{value!r} is negative at times; use 0 or more")
  return value


# A number, or how it changes over the run: see `config.scalars`.
Scalar = Annotated[float | str, pydantic.AfterValidator(_check_not_negative)]
Duration = Annotated[int | str, pydantic.AfterValidator(_check_duration)]
# More than nothing; what is shorter than a step counts as one.
Interval = Annotated[int | str, pydantic.AfterValidator(_check_interval)]
# Steps and examples of a batch are counted in int32.
PositiveInt = Annotated[int, pydantic.Field(gt=0, lt=2**31)]
NonNegativeInt = Annotated[int, pydantic.Field(ge=0, lt=2**31)]
Layers = Annotated[int, pydantic.Field(gt=0, le=1000)]
# Units, classes, pixels.
MAX_SIZE = 2**20
Size = Annotated[int, pydantic.Field(gt=0, le=MAX_SIZE)]
Fraction = Annotated[float, pydantic.Field(ge=0, lt=1)]
Probability = Annotated[float, pydantic.Field(ge=0, le=1)]
NonNegative = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, pydantic.Field(allow_inf_nan=False)]


class Section(pydantic.BaseModel):
  """A frozen group of keys that refuses unknown ones and wrong types.

  Attributes:
    implied: Keys of sections of other names, with the values that this one
      stands for anyway, so that they are accepted.
  """

  implied: ClassVar[Mapping[str, Any]] = {}

  model_config = pydantic.ConfigDict(
    frozen=True, extra="forbid", strict=True, protected_namespaces=()
  )


def key(default: Any, description: str) -> Any:
  return pydantic.Field(default, description=description)


class Model(Section):
  """The network: the keys that every family has.

  A family adds its own in a subclass, the `section` of its record.
  """

  name: str = key(
    "vit",
    "'vit', hybrids among them, 'resnet' (BiT ResNet-v2), 'convnext', 'swin',"
    " 'pvt', 'two_towers' (CLIP, SigLIP), or another of `registry.FAMILIES`.",
  )
  variant: str = key(
    "B/16",
    "Size and patch, such as 'Ti/16', 'B/32', 'So400m/14'; with a ResNet stem"
    " and the total stride, 'R50+B/16', 'R26+S/32', 'R+Ti/16'; for 'resnet'"
    " depth and width factor, 'R50x1', 'R152x4'. [P] T1, T6. For 'convnext'"
    " and 'swin' the size alone, such as 'T' or 'XL'.",
  )
  num_classes: Size | None = key(None, "None: the dataset's.")
  image_size: Size = key(224, "Side of the square input, pixels. [P]")
  head_bias_init: Finite = key(
    0.0, "Head bias at the start; -10 for ImageNet-21k sigmoid. [VT] [BV]"
  )
  dtype: Literal["float32", "bfloat16"] = key("float32", "Compute dtype.")
  remat: Literal["none", "full", "dots", "named", "offload"] = key(
    "none",
    "What the backward pass recomputes to save memory; 'offload' keeps what"
    " 'named' does, in the host's memory.",
  )
  normalize: Annotated[str, pydantic.AfterValidator(_check_pixels)] = key(
    "minus_one_to_one",
    "Pixel mean and scale: (x - 127.5) / 127.5 [VT]; 'imagenet' or 'clip', the"
    " mean and standard deviation of that set; or"
    " 'MEAN,MEAN,MEAN/STD,STD,STD' of pixels in [0, 1].",
  )
  pos_embedding_resize: Literal[
    "bilinear",
    "bilinear_half_pixel",
    "bicubic",
    "bicubic_antialias",
    "bicubic_offset",
    "geometric",
  ] = key(
    "bilinear",
    "How a loaded position embedding is brought to another grid: bilinear with"
    " the corners aligned [VT] [BV], bicubic as Hugging Face, DeiT and MAE do,"
    " with antialiasing, as timm and [DV2] with registers do, or with 0.1 added"
    " to the new sides, as [DINO] and [DV2] without them do. Tables of"
    " relative biases: bilinear_half_pixel, without aligned corners, as Hugging"
    " Face's BEiT does, or geometric, between offsets whose steps grow outwards"
    " from the middle, as timm's does.",
  )

  def updated(self, **keys: Any) -> "Model":
    """Copy with other values of those keys that the family has."""
    known = type(self).model_fields
    return self.model_copy(
      update={name: value for name, value in keys.items() if name in known}
    )


class View(Section):
  """A group of crops of every training image: one feature of the batch."""

  count: PositiveInt = key(1, "Crops of an image.")
  preprocess: str = key(
    "decode|inception_crop|flip_lr",
    "Ops that make one crop; each crop draws on its own.",
  )
  size: Size | None = key(None, "Side in pixels; None: model.image_size.")


class Train(Section):
  """The training data and the batch."""

  dataset: str = key(
    "digits",
    "A TFDS name, 'folder' (data_dir holds train/, val/, test/; without classes"
    " 'folder:labels=none'), 'csv:FILE', 'captions', 'webdataset:SHARDS',"
    " 'datasets:NAME_OR_DIR' (Hugging Face), 'digits' or"
    " 'generated:classes=10,size=32,...'.",
  )
  split: str = key("train", "A TFDS split string, such as 'train[:99%]'.")
  batch_size: PositiveInt = key(4096, "Global batch, examples. [P] Table 3.")
  preprocess: str = key(
    "decode|inception_crop|flip_lr",
    "Ops separated by '|'; a size left out is model.image_size. [VT]",
  )
  views: dict[str, View] = key(
    {},
    "Name of a feature -> the crops it holds, [batch, count, size, size, 3];"
    " preprocess is then 'decode' and ops of labels. Empty: one image.",
  )
  repeats: PositiveInt = key(
    1,
    "Rows of a batch in succession that are the same example, each with an"
    " augmentation of its own; an epoch stays as many rows. [DeiT]: 3.",
  )
  sampling: Literal["uniform", "balanced"] = key(
    "uniform",
    "uniform: every example once an epoch; balanced: every class as often as"
    " any other, however many examples it has.",
  )
  accumulate_steps: PositiveInt = key(
    1, "Micro-batches whose gradients are averaged before one update."
  )
  image_key: str = key("image", "Feature that holds the image.")
  label_key: str = key(
    "label",
    "Feature that holds the label or labels; of webdataset's tar files, the"
    " field of a .json, and by default .cls files before it.",
  )
  text_key: str | None = key(
    None,
    "Feature of a TFDS or Hugging Face dataset that holds the captions; None:"
    " text, caption or captions, if there is one.",
  )
  tokenizer: str | None = key(
    None,
    "File of the tokenizer that the op tokenize takes; 'bytes': the bytes of"
    " the texts, which needs no file.",
  )
  shuffle_block: PositiveInt = key(
    1,
    "Consecutive records that stay together when shuffling; 1: every record"
    " is placed independently. As many as a row group has let Parquet files be"
    " read in place.",
  )
  prefetch_batches: PositiveInt = key(
    2, "Batches kept ready on the device ahead of the step."
  )
  max_bad_examples: NonNegativeInt = key(
    0,
    "Examples that cannot be read or decoded and are replaced by the next one"
    " that can; one more ends the run.",
  )
  exclude: str | None = key(
    None,
    "File of examples of the split that are left out, such as those that are"
    " near a test image; vit_jax.deduplicate writes it. [P]",
  )


class Objective(Section):
  """The task that is trained; its keys are those of the objective named."""

  name: str = key("supervised", "One of `registry.OBJECTIVES`.")

  @property
  def predicts_numbers(self) -> bool:
    """True if labels are numbers in place of classes."""
    return False


class Supervised(Objective):
  """Classification, with one or several labels an image, or regression."""

  name: Literal["supervised"] = key(
    "supervised", "Classification, or regression."
  )
  loss: Literal["softmax", "sigmoid", "sigmoid_mean", "mse", "mae"] = key(
    "softmax",
    "Cross-entropy; sigmoid sums over classes [BV], sigmoid_mean averages over"
    " them [DeiT3]. mse and mae: the squared and the absolute error of numbers"
    " that a CSV file has, each over its standard deviation.",
  )
  label_smoothing: Fraction = key(0.0, "Mass moved off the true label.")
  class_weights: Literal["balanced"] | tuple[Positive, ...] | None = key(
    None,
    "Weights of the classes in the softmax loss, one for each; 'balanced': all"
    " classes weigh alike, however many images they have.",
  )
  mixup_alpha: NonNegative = key(0.0, "Beta parameter of mixup; 0: off.")
  cutmix_alpha: NonNegative = key(0.0, "Beta parameter of CutMix; 0: off.")
  mix_probability: Probability = key(
    1.0, "Probability that images are mixed at all. [timm]"
  )
  mix_switch: Probability = key(
    0.5, "Probability of CutMix in place of mixup, if both are on. [timm]"
  )
  mix_mode: Literal["batch", "pair", "elem"] = key(
    "batch",
    "What ratio and box are drawn for: the batch, each pair of images that are"
    " mixed with one another, or each image. [timm]",
  )
  binarize_targets: bool = key(
    False,
    "Both labels of a mixed image have target 1 in place of their shares;"
    " for sigmoid losses. [DeiT3]",
  )
  erase_probability: Probability = key(
    0.0,
    "Share of the images of which a random box is filled with noise, after"
    " normalisation and before mixing. [timm] [DeiT]: 0.25.",
  )
  teacher: str | None = key(
    None,
    "Checkpoint of any form and family whose predictions are learned too, by"
    " the distillation token of a model that has one; None: no teacher. [DeiT]",
  )
  distillation: Literal["hard", "soft", "soft_batchmean"] = key(
    "hard",
    "Loss between student and teacher: cross-entropy with the teacher's class;"
    " the divergence as released, divided by the classes; or as in the paper."
    " [DeiT]",
  )
  distillation_weight: Probability = key(
    0.5, "Share of that loss; the labels' has the rest. [DeiT]"
  )
  distillation_temperature: Positive = key(
    1.0, "What soft losses divide logits by. [DeiT]: 1, 3 in the paper."
  )

  @property
  def predicts_numbers(self) -> bool:
    return self.loss in ("mse", "mae")


class MaskedPatch(Objective):
  """Prediction of what corrupted patches look like. [P] B.1.2."""

  name: Literal["masked_patch"] = key("masked_patch", "Masked patches.")
  mask_rate: Annotated[float, pydantic.Field(gt=0, le=1)] = key(
    0.5, "Share of an image's patches that is corrupted. [P]"
  )
  target: Literal["mean_colour", "colours_4x4", "pixels"] = key(
    "mean_colour",
    "Predicted of each corrupted patch: its mean colour out of 512, those of"
    " its 4 x 4 parts, or all its pixels. [P] B.1.2",
  )


class MAE(Objective):
  """Masked autoencoders. [MAE]"""

  name: Literal["mae"] = key("mae", "Masked autoencoders.")
  mask_ratio: Annotated[float, pydantic.Field(ge=0, lt=1)] = key(
    0.75, "Share of an image's patches that the encoder does not see. [MAE]"
  )
  normalize_pixels: bool = key(
    True,
    "Predict pixels normalised by the mean and the deviation of their patch."
    " [MAE]",
  )
  decoder_width: Size = key(512, "Width of the decoder. [MAE]")
  decoder_depth: Layers = key(8, "Layers of the decoder. [MAE]")
  decoder_num_heads: Size = key(16, "Heads of the decoder. [MAE]")


class BEiT(Objective):
  """Prediction of a frozen tokenizer's tokens of masked patches. [BEiT]"""

  name: Literal["beit"] = key("beit", "BEiT.")
  tokenizer: str | None = key(
    None,
    "What tokens are: a file of `vit_jax.prepare tokenizer --checkpoint=...`,"
    " the encoder of DALL-E's dVAE (.pth, .pt, .pkl), 'mean_colour', the 512"
    " mean colours of [P] B.1.2, or 'random:SEED', random centres of the"
    " features of a random network, for trials.",
  )
  tokens: Size | None = key(
    None, "Different tokens; None: as many as the tokenizer has. [BEiT]: 8192."
  )
  masked_patches: PositiveInt = key(
    75, "Patches of an image that are masked, at most. [BEiT]"
  )
  smallest_block: PositiveInt = key(
    16, "Least patches of a masked rectangle. [BEiT]"
  )


class DINO(Objective):
  """Self-distillation without labels. [DINO]"""

  name: Literal["dino"] = key("dino", "DINO.")
  prototypes: Size = key(65_536, "Number of prototypes. [DINO]")
  hidden_width: Size = key(2048, "Width of the head's hidden layers. [DINO]")
  bottleneck: Size = key(256, "Length of prototypes. [DINO]")
  unit_prototypes: bool = key(
    True,
    "Prototypes have unit length; otherwise it is learned. [DINO]: False of S;"
    " [DV2]: False.",
  )
  centering: Literal["mean", "sinkhorn"] = key(
    "mean",
    "What keeps one prototype from taking all: the mean of the teacher's"
    " similarities is taken off, or Sinkhorn's iterations balance them"
    " [DV2].",
  )
  center_momentum: Fraction = key(
    0.9, "Share of the centre that stays at each update. [DINO]"
  )
  student_temperature: Positive = key(0.1, "Of the student's softmax. [DINO]")
  teacher_temperature: Scalar = key(
    "linear(0.04, 0.07, over='29 epochs', per='epoch')",
    "Of the teacher's softmax; a number, or a change over the run. [DINO]",
  )
  teacher_momentum: Scalar = key(
    "cosine(0.996, 1.0)",
    "Share of the teacher that stays at each update; likewise. [DINO]",
  )


class DINOv2(DINO):
  """Self-distillation of images and of masked patches. [DV2]"""

  name: Literal["dinov2"] = key("dinov2", "DINOv2.")
  centering: Literal["mean", "sinkhorn"] = key(
    "sinkhorn", "As of DINO; the released networks were trained by Sinkhorn."
  )
  separate_patch_head: bool = key(
    True, "Masked patches have a head of their own. [DV2]"
  )
  patch_bottleneck: Size = key(256, "Length of that head's prototypes. [DV2]")
  mask_probability: Probability = key(
    0.5, "Share of the global crops that are masked. [DV2]"
  )
  mask_ratio: tuple[Probability, Probability] = key(
    (0.1, 0.5), "Shares of their patches that are masked. [DV2]"
  )
  patches: Literal["masked", "all"] = key(
    "masked",
    "Patches of the global crops that student and teacher are compared on;"
    " 'all' where a frozen teacher is distilled and nothing is masked."
    " [DV2] 5",
  )
  patch_weight: NonNegative = key(1.0, "Of the loss of patches. [DV2]")
  koleo_weight: NonNegative = key(
    0.1, "Of the loss that spreads features, one for each global crop. [DV2]"
  )
  group: PositiveInt = key(
    32,
    "Images that follow one another and are masked and spread together, as"
    " those of one GPU were; batches hold a multiple, or the greatest common"
    " divisor counts. Devices that share a group repeat one another's work on"
    " its patches. [DV2]: 32 of ViT-L/14.",
  )
  teacher: str | None = key(
    None,
    "Checkpoint of a DINOv2 with its heads that teaches and stays as it is, of"
    " any size with the same patches and number of prototypes; an average of"
    " the student, which nothing learns from, is exported. None: that average"
    " teaches. [DV2] 5",
  )


class FeaturePrediction(Objective):
  """Prediction of a teacher's features of masked patches. [EVA]"""

  name: Literal["feature_prediction"] = key(
    "feature_prediction", "Features of masked patches."
  )
  teacher: str | None = key(
    None,
    "Checkpoint of any form, of a Vision Transformer or of two towers, whose"
    " features of the patches are learned; 'random' or 'random:SEED': a network"
    " like the student with random parameters, to try things out. [EVA]: CLIP's"
    " image tower.",
  )
  masked_patches: PositiveInt = key(
    105, "Patches of an image that are masked, at most. [EVA]: of 256."
  )
  smallest_block: PositiveInt = key(
    16, "Least patches of a masked rectangle. [EVA]"
  )
  embedding_gradient: Probability = key(
    0.1,
    "Share of the gradient that reaches the embedding of patches; 1: all of it."
    " [EVA]: stop_grad_conv1.",
  )


class Contrastive(Objective):
  """Images and texts that belong together. [CLIP], [SigLIP]"""

  name: Literal["contrastive"] = key("contrastive", "Pairs of image and text.")
  loss: Literal["sigmoid", "softmax"] | None = key(
    None,
    "sigmoid asks of every pair whether it belongs together [SigLIP]; softmax"
    " asks which text is an image's, and which image a text's [CLIP]. None:"
    " sigmoid if the model has a bias.",
  )
  max_scale: Annotated[float, pydantic.Field(ge=1)] | None = key(
    None,
    "After each update the factor of similarities is brought back between 1 and"
    " this, 100 in [CLIP]; None: it is free [SigLIP].",
  )
  cache_frozen: str | None = key(
    None,
    "Directory that keeps what a frozen image tower makes of the training"
    " images, computed once; all processes must see it. None: the tower"
    " computes in every step.",
  )


class Optimizer(Section):
  """The update rule."""

  name: str = key(
    "adamw",
    "Optimizer. lamb and lars scale the step of a matrix with the matrix, so"
    " that one of zeros stays close to them: set model.weight_init to 'deit'.",
  )
  weight_decay: Scalar = key(
    0.0,
    "Decoupled, multiplied by the learning rate, as in [P] Table 3; a number,"
    " or a change over the run such as 'cosine(0.04, 0.4)'.",
  )
  decay_mask: tuple[str, ...] = key(
    (r".*/kernel$",), "Regexes of the parameter paths that decay. [BV]"
  )
  grad_clip_norm: Positive | None = key(1.0, "Largest norm; None: off. [P]")
  grad_clip: Literal["global", "module", "parameter"] = key(
    "global",
    "What has this norm at most: all gradients together; those of the network"
    " and of each head beside it [DV2]; or those of each parameter [DINO].",
  )
  b1: Fraction = key(0.9, "Adam's and its relatives' first decay. [P]")
  b2: Fraction = key(0.999, "Second decay. [P]")
  eps: Positive = key(1e-8, "Adam's epsilon.")
  clipping_threshold: Positive | None = key(
    1.0,
    "Adafactor: RMS to which the update of each array is clipped; None: off."
    " [BV]: None.",
  )
  momentum: Fraction = key(0.9, "SGD, LARS and Muon momentum. [P] Table 4.")
  nesterov: bool = key(False, "Nesterov momentum (SGD, LARS).")
  mu_dtype: Literal["float32", "bfloat16"] = key(
    "float32", "Dtype of the first moment. [BV]: bfloat16."
  )
  decay_multipliers: tuple[tuple[str, NonNegative], ...] = key(
    (),
    "(regex, factor) pairs; the first match scales the weight decay of a"
    " parameter that decays.",
  )
  lr_multipliers: tuple[tuple[str, NonNegative], ...] = key(
    (), "(regex, factor) pairs; the first match scales a parameter's rate."
  )
  layer_decay: Annotated[float, pydantic.Field(gt=0, le=1)] | None = key(
    None, "Rate of layer l is scaled by layer_decay ** (depth - l)."
  )
  freeze: str | None = key(
    None,
    "What stays as it is: 'backbone', all but heads; or a regex of parameter"
    " paths, such as 'embedding/.*|cls', or 'image/.*' of two towers [LiT].",
  )
  freeze_until: tuple[tuple[str, Duration], ...] = key(
    (),
    "(regex, duration) pairs; the first match keeps a parameter as it is until"
    " then, without decay, such as the last layer of [DINO] for '1 epochs'.",
  )
  freeze_until_mode: Literal["hold", "zero_rate"] = key(
    "hold",
    "Whether such a parameter has no moments either before it begins [DINO], or"
    " a rate of 0, so that moments accumulate from the first step [DV2].",
  )


class Schedule(Section):
  """The learning rate over the run."""

  base_lr: Positive = key(1e-3, "Peak learning rate. [P] Tables 3 and 4.")
  warmup_steps: Duration = key(
    0, "Linear warmup: steps, '5 epochs' or '1M examples'. [P]: 10,000."
  )
  warmup_prefix: bool = key(
    True,
    "Whether the shape begins at the end of the warmup; False: at step 0, as by"
    " timm's default.",
  )
  decay: Literal["constant", "linear", "cosine", "rsqrt", "steps"] = key(
    "cosine", "Shape after warmup. [P] Table 3."
  )
  end_lr: NonNegative = key(0.0, "Final value. [VT]: 1e-5 for linear.")
  cooldown_steps: Duration = key(
    0,
    "Length of a linear ramp to 0 at the end of the run, on top of the shape."
    " [BV] train_vit_g: 50,000 after rsqrt.",
  )
  rsqrt_timescale: Duration = key(
    10_000, "rsqrt: lr * sqrt(timescale / (timescale + step - warmup))."
  )
  boundaries: tuple[Duration, ...] = key(
    (), "steps: when the rate is multiplied by `factor`."
  )
  factor: Annotated[float, pydantic.Field(gt=0, le=1)] = key(
    0.1, "steps: the multiplier at each boundary."
  )


class Mesh(Section):
  """Device mesh; one axis may be -1, the devices that are left."""

  data: int = key(-1, "Replicas of the parameters.")
  fsdp: int | Literal["auto"] = key(
    "auto",
    "Devices that share each large parameter, its moments and its update;"
    " 'auto': as many as 8 of a slice, or of a host of GPUs, if `data` is -1,"
    " else 1.",
  )
  tensor: int = key(1, "Devices that split heads and MLP columns.")
  rules: tuple[tuple[str, tuple[str | None, ...]], ...] = key(
    (),
    "(regex on the parameter path, mesh axis per dimension) pairs, tried"
    " before the built-in ones.",
  )


class Checkpoint(Section):
  """Schedule of saves, and the number of checkpoints kept."""

  every_steps: Interval = key(1000, "Interval between saves.")
  keep_last: PositiveInt = key(2, "Newest checkpoints kept.")
  keep_every_steps: Interval | None = key(
    None, "Checkpoints at multiples of this are kept for ever."
  )
  keep_best: str | None = key(
    None,
    "Metric of an evaluator, such as 'test/top1': the checkpoint of its best"
    " value is saved at once and kept, as WORKDIR/best.",
  )
  on_save_error: Literal["stop", "continue"] = key(
    "stop",
    "When a save fails, as on a full disk: end the run, or train on until the"
    " next save. A run of several processes ends.",
  )


class Log(Section):
  """Experiment trackers that get the metrics too, and the price of a run."""

  to: Annotated[tuple[str, ...], pydantic.BeforeValidator(_split_words)] = key(
    (),
    "Trackers: 'wandb', 'mlflow', 'trackio', or another of"
    " `registry.TRACKERS`.",
  )
  project: str | None = key(
    None,
    "Project, in MLflow the experiment; None: WANDB_PROJECT or"
    " MLFLOW_EXPERIMENT_NAME, else 'vit_jax'.",
  )
  name: str | None = key(
    None, "Name of the run; None: the name of the workdir's folder."
  )
  group: str | None = key(
    None, "Group of runs that the run belongs to; sweeps set it."
  )
  price_per_device_hour: Positive | None = key(
    None,
    "Price of an hour of one device as jax counts them, in any currency; the"
    " report then says what the run has cost by it so far. On CPUs a device is"
    " the machine.",
  )


class Sweep(Section):
  """Values that `vit_jax.sweep` tries; training itself ignores them."""

  learning_rates: tuple[Positive, ...] = key((), "Values of base_lr. [P] T4.")
  train_split: str | None = key(
    None, "Trained on while rates are compared; None: 90 % of train.split."
  )
  dev_split: str | None = key(
    None, "Compared on; examples of train.split. None: the other 10 %."
  )


class Profile(Section):
  """Range of traced steps; SIGUSR1 asks a running job for the next ones."""

  first_step: PositiveInt | None = key(None, "Update traced first; None: none.")
  num_steps: PositiveInt = key(5, "Updates in a trace.")


class Faults(Section):
  """Reaction to numbers that are not finite, spikes, and standstills."""

  not_finite: Literal["stop", "skip", "roll_back"] = key(
    "stop",
    "When loss or gradient are NaN or infinite: stop, leave the update out, or"
    " go back to an earlier checkpoint and on without the batches since.",
  )
  roll_back_checkpoints: PositiveInt = key(
    1, "Saves (multiples of checkpoint.every_steps) to go back."
  )
  max_not_finite: PositiveInt = key(
    10, "Updates left out, or times gone back, before the run stops."
  )
  spike_zscore: Positive | None = key(
    8.0,
    "Loss or gradient norm so many standard deviations above their running"
    " means are a spike, which is warned of; None: never.",
  )
  on_spike: Literal["warn", "skip"] = key(
    "warn", "skip: leave the update out as well."
  )
  watchdog_seconds: NonNegative = key(
    1800.0,
    "A run that stands still for so long prints all stacks and ends with exit"
    " code 137, to be started again; 0: off.",
  )


class Eval(Section):
  """An evaluator; its keys are those of the type named."""

  type: str
  every_steps: Interval | None = key(None, "None: only after the last step.")
  batch_size: PositiveInt | None = key(None, "None: train.batch_size.")


class ClassificationEval(Eval):
  """Accuracy and loss over a whole split."""

  type: Literal["classification"]
  dataset: str | None = key(None, "None: train.dataset.")
  split: str = key("test", "TFDS split string.")
  preprocess: str = key("decode|resize", "Host ops. [VT] plain square resize.")
  image_key: str = key("image", "Feature that holds the image.")
  label_key: str = key(
    "label", "Feature that holds the label or the set of accepted labels."
  )
  label_sets: str | None = key(
    None,
    "JSON file of sets of accepted labels that take the labels' place, by the"
    " numbers of ImageNet's validation files: ReaL's real.json.",
  )
  loss: Literal["softmax", "sigmoid"] | None = key(
    None, "None: objective.loss."
  )


class RegressionEval(Eval):
  """Errors of predicted numbers over a whole split."""

  type: Literal["regression"]
  dataset: str | None = key(None, "None: train.dataset.")
  split: str = key("test", "TFDS split string.")
  preprocess: str = key("decode|resize", "Host ops. [VT] plain square resize.")
  image_key: str = key("image", "Feature that holds the image.")
  label_key: str = key("label", "Feature that holds the number.")


class FewshotDataset(Section):
  """One dataset of an evaluator on frozen features."""

  dataset: str = key("digits", "TFDS name, 'folder', 'digits' or generated.")
  train_split: str = key(
    "train", "Split that shots are drawn from, or of which all is used."
  )
  test_split: str = key("test", "Split that accuracy is measured on.")
  preprocess: str | None = key(
    None,
    "Host ops. None: the square of 224 px in one of 256 px, at the paper's"
    " resolution, to which few-shot resizes the whole image [BV] and the others"
    " the smaller side.",
  )
  image_key: str = key("image", "Feature that holds the image.")
  label_key: str = key("label", "Feature that holds the label.")


class FeaturesEval(Eval):
  """Settings shared by all evaluators on frozen features."""

  default_preprocess: ClassVar[str] = (
    "decode|resize_small(scale=1.1429)|central_crop"
  )

  datasets: dict[str, FewshotDataset] = key({}, "Name in the metrics -> data.")
  representation: str = key("pre_logits", "Feature that is evaluated.")

  @pydantic.field_validator("datasets")
  @classmethod
  def _name_preprocess(
    cls, datasets: dict[str, FewshotDataset]
  ) -> dict[str, FewshotDataset]:
    """Writes out `preprocess`, so that a run's config says what was done."""
    return {
      name: data
      if data.preprocess is not None
      else data.model_copy(update={"preprocess": cls.default_preprocess})
      for name, data in datasets.items()
    }


class FewshotEval(FeaturesEval):
  """Few-shot linear evaluation on frozen features. [P] 4.4, [BV]."""

  default_preprocess: ClassVar[str] = "decode|resize(scale=1.1429)|central_crop"

  type: Literal["fewshot"]
  shots: tuple[PositiveInt, ...] = key((1, 5, 10, 25), "Examples per class.")
  num_seeds: PositiveInt = key(3, "Draws of the support set. [BV]")
  l2: Positive = key(2.0**10, "Ridge regularisation. [BV]")
  l2_sweep: tuple[Positive, ...] = key(
    (),
    "Also report the best of these, chosen on held-out shots of the training"
    " split.",
  )


class KnnEval(FeaturesEval):
  """Classes by the votes of the nearest training images, as DINO has it."""

  type: Literal["knn"]
  neighbors: tuple[PositiveInt, ...] = key(
    (10, 20, 100, 200), "Training images that vote; one metric each. [DINO]"
  )
  temperature: Positive = key(
    0.07, "A vote weighs exp(cosine similarity / temperature). [DINO]"
  )


class LinearProbeEval(FeaturesEval):
  """A linear classifier of all of a training split.

  The keys from `epochs` on belong to the protocols that train by gradients;
  None is the protocol's own value.
  """

  type: Literal["linear_probe"]
  protocol: Literal["logistic", "dino", "dinov2", "mae"] = key(
    "logistic",
    "logistic: regression by L-BFGS, ours; the others train as the published"
    " evaluations do. [DINO], [DV2], [MAE]",
  )
  l2_sweep: tuple[Positive, ...] = key(
    (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
    "Factors of half the squared weights beside the mean loss; the best on"
    " held-out training examples is used. Ours.",
  )
  held_out: Annotated[float, pydantic.Field(gt=0, lt=1)] = key(
    0.1, "Share of each class of the training split that l2 is chosen on."
  )
  max_iterations: PositiveInt = key(1000, "Of L-BFGS, for each l2.")
  epochs: PositiveInt | None = key(None, "Passes over the training split.")
  warmup_epochs: NonNegativeInt | None = key(
    None, "Passes in which the rate rises from 0; at most epochs - 1."
  )
  train_batch_size: PositiveInt | None = key(
    None, "Examples of a step; at most those of the training split."
  )
  learning_rates: tuple[Positive, ...] | None = key(
    None, "For a batch of 256; a classifier is trained with each."
  )
  blocks: tuple[PositiveInt, ...] | None = key(
    None,
    "Numbers of last layers whose class tokens are joined, each a classifier's;"
    " (): representation in their place.",
  )
  average_patches: tuple[bool, ...] | None = key(
    None,
    "Whether the mean of the last layer's patches is joined to them, each a"
    " classifier's.",
  )
  augment: str = key(
    "",
    "Ops of training images, whose features are then computed anew in"
    " every step; '': features of plain images, computed once.",
  )


class SegmentationDataset(Section):
  """Images and masks of a linear segmentation, in the layout of ADE20K."""

  directory: str | None = key(
    None,
    "Folder that holds images/SPLIT/NAME.jpg and annotations/SPLIT/NAME.png;"
    " None: data_dir.",
  )
  train_split: str = key("training", "SPLIT that the layer is trained on.")
  test_split: str = key("validation", "SPLIT that is measured.")
  num_classes: Annotated[int, pydantic.Field(gt=0, le=255)] | None = key(
    None, "Labels are 0 to one less; None: to the largest that masks have."
  )
  reduce_zero_label: bool = key(
    False,
    "True: 0 is no class, and other labels are one less, as for ADE20K.",
  )


class LinearSegmentationEval(Eval):
  """A linear layer from patch tokens to the classes of pixels. [DV2]"""

  type: Literal["linear_segmentation"]
  datasets: dict[str, SegmentationDataset] = key(
    {}, "Name in the metrics -> data."
  )
  batch_size: PositiveInt | None = key(None, "None: train_batch_size.")
  blocks: PositiveInt = key(
    1, "Last layers whose patch tokens are joined; 4 of [DV2]'s larger probe."
  )
  image_size: Size | None = key(
    None, "Pixels of a side, whatever the image's shape; None: the model's."
  )
  mask_size: Size | None = key(
    None, "Side of masks, on which pixels are counted; None: that of images."
  )
  steps: PositiveInt = key(40_000, "Updates of the layer. [DV2]")
  warmup_steps: NonNegativeInt = key(
    1500, "Updates in which the rate rises from 0; at most steps - 1. [DV2]"
  )
  train_batch_size: PositiveInt = key(
    16, "Images of an update; at most those of the training split. [DV2]"
  )
  learning_rate: Positive = key(1e-3, "Of AdamW, before it falls to 0. [DV2]")
  weight_decay: NonNegative = key(1e-4, "Times the rate, as PyTorch's. [DV2]")


class ReconstructionEval(Eval):
  """Hidden patches of images, predicted from the others. [MAE]"""

  type: Literal["reconstruction"]
  dataset: str | None = key(None, "None: train.dataset.")
  split: str = key("test", "TFDS split string.")
  preprocess: str = key(
    "decode|resize_small(scale=1.1429)|central_crop", "Host ops. [BV]"
  )
  image_key: str = key("image", "Feature that holds the image.")
  num_shown: PositiveInt = key(12, "Images that the report shows.")


# torchvision's ops, rounded as it rounds.
_OF_CLIP = (
  "decode|resize_small(method='bicubic', antialias=True, rounding='down')"
  "|central_crop(rounding='nearest')"
)


class ZeroShotDataset(Section):
  """One dataset of a zero-shot evaluator."""

  dataset: str = key("imagenet2012", "TFDS name, 'folder' or another source.")
  split: str = key("validation", "Split that accuracy is measured on.")
  preprocess: str = key(_OF_CLIP, "Host ops. [CLIP]")
  image_key: str = key("image", "Feature that holds the image.")
  label_key: str = key(
    "label", "Feature that holds the label or the set of accepted labels."
  )
  label_sets: str | None = key(
    None, "JSON file of sets of accepted labels, as of a classification."
  )
  class_names: str | None = key(
    None,
    "Names in the order of the labels: 'imagenet', 'imagenet21k',"
    " 'imagenet22k', 'cifar10', 'cifar100', or a file with one in each line;"
    " None: those that the dataset has.",
  )
  templates: tuple[str, ...] = key(
    ("clip80",),
    "Sentences with {} for the name: 'clip80', 'clip7' and 'cifar18' of CLIP, a"
    " file with one in each line, or a sentence itself.",
  )


class ZeroShotEval(Eval):
  """Classes by the nearest text. [CLIP] 3.1."""

  type: Literal["zeroshot"]
  datasets: dict[str, ZeroShotDataset] = key({}, "Name in the metrics -> data.")
  prompts: Literal["clip", "siglip"] = key(
    "clip",
    "siglip splits names at commas into aliases and removes punctuation and"
    " capitals; clip leaves them as they are.",
  )


class RetrievalDataset(Section):
  """One dataset of a retrieval evaluator."""

  dataset: str = key("captions", "A source of images and captions.")
  split: str = key("validation", "Split that is searched.")
  preprocess: str = key(_OF_CLIP, "Host ops. [CLIP]")
  image_key: str = key("image", "Feature that holds the image.")
  text_key: str | None = key(
    None,
    "Feature that holds the captions; None: that of train.text_key if the"
    " dataset is train.dataset, else text, caption or captions.",
  )


class RetrievalEval(Eval):
  """Images by their captions, and captions by their images. [CLIP]"""

  type: Literal["retrieval"]
  datasets: dict[str, RetrievalDataset] = key(
    {}, "Name in the metrics -> data."
  )


class PaperRow(Section):
  """Cells of the tables of [P] that a run fills; set by shipped configs."""

  cells: tuple[str, ...] = key(
    (),
    "Cells as 'TABLE:ROW:COLUMN=METRIC'. A pre-training leaves COLUMN empty; a"
    " fine-tuning leaves ROW to the run that it starts from.",
  )
  settings: tuple[str, ...] = key(
    (),
    "Values, as 'KEY=JSON', that the cells require; vit_jax.tables leaves out"
    " a run in which one was overridden.",
  )


class Config(Section):
  """One experiment."""

  seed: Annotated[int, pydantic.Field(ge=0, lt=2**32)] = key(
    0, "Seed of initialisation, data order and augmentation."
  )
  total_steps: PositiveInt | None = key(None, "Updates; wins over epochs.")
  total_epochs: Positive | None = key(None, "Passes over train.split.")
  max_epochs: Positive | None = key(
    None,
    "With total_steps: the run ends after so many passes if they are less.",
  )
  early_stopping: PositiveInt | None = key(
    None,
    "The run ends after so many evaluations without a better"
    " checkpoint.keep_best.",
  )
  log_every_steps: PositiveInt = key(
    50, "Steps between metrics lines, which have the means over them."
  )
  data_dir: str | None = key(
    None, "Where datasets are; None: TFDS_DATA_DIR, then TFDS's default."
  )
  init_from: str | None = key(
    None, "Checkpoint of any form to start from: a file, directory or workdir."
  )
  init_without: tuple[str, ...] = key(
    (),
    "Regexes of parameters that init_from shall not give; ('head/.*',) is a"
    " new head. [P] 3.2",
  )
  init_part: str | None = key(
    None,
    "Part of the network that init_from gives, such as 'image' of two towers:"
    " init_from is then a checkpoint of any family of images, or of two towers,"
    " and the rest starts afresh. [LiT]",
  )
  init_classes: str | None = key(
    None,
    "Text file with a line for each class: the class of init_from's head, from"
    " 0, that it starts from, such as Swin's data/map22kto1k.txt. None: a head"
    " of another size starts afresh.",
  )
  model_from_init: bool = key(
    False,
    "The architecture is that of init_from, if that is set: of model only the"
    " keys count that are given on the command line, and those that say how to"
    " train (dropout, dtypes, remat, ...).",
  )
  keep_model_keys: tuple[str, ...] = key(
    (),
    "Further keys of model that count though model_from_init is set; those of"
    " the command line are added.",
  )
  ema_decay: Annotated[float, pydantic.Field(gt=0, lt=1)] | None = key(
    None, "Polyak averaging of parameters; None: off. [P]: 0.9999."
  )
  ema_warmup: bool = key(
    True,
    "The decay of update t, from 0, is at most (1 + t) / (10 + t); False: it is"
    " ema_decay from the first update on.",
  )
  allow_change: str = key(
    "",
    "Comma list of keys that may differ from the run being resumed, or from the"
    " network of init_from.",
  )
  extensions: tuple[str, ...] = key(
    (),
    "Python modules imported first, which register families, objectives and"
    " evaluators from outside the package.",
  )
  model: pydantic.SerializeAsAny[Model] = pydantic.Field(
    default_factory=lambda: registry.FAMILIES.get("vit").section()
  )
  train: Train = Train()
  objective: pydantic.SerializeAsAny[Objective] = pydantic.Field(
    default_factory=lambda: registry.OBJECTIVES.get("supervised").section()
  )
  optimizer: Optimizer = Optimizer()
  schedule: Schedule = Schedule()
  mesh: Mesh = Mesh()
  checkpoint: Checkpoint = Checkpoint()
  faults: Faults = Faults()
  log: Log = Log()
  profile: Profile = Profile()
  evals: dict[str, pydantic.SerializeAsAny[Eval]] = key(
    {}, "Name -> evaluator."
  )
  sweep: Sweep = Sweep()
  paper_row: PaperRow = PaperRow()
