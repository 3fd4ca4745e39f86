"""All configuration keys: defaults, units, allowed values and sources.

An experiment file builds on `default_config()`, a `ConfigDict`, which
`vit_jax.config.resolve` turns into these frozen models; the rest of the code
sees only the models. Tags in the descriptions: [P] the ViT paper
(arXiv 2010.11929), [VT] google-research/vision_transformer, [BV]
google-research/big_vision, [DINO] facebookresearch/dino, [DeiT] and [DeiT3]
facebookresearch/deit, [timm] huggingface/pytorch-image-models,
[CLIP] openai/CLIP, [SigLIP] arXiv 2303.15343, [MAE] facebookresearch/mae,
[DV2] facebookresearch/dinov2, [DV3] facebookresearch/dinov3, [EVA]
baaivision/EVA, [BEiT] and [BEiT2] microsoft/unilm/beit and beit2, [CNX2]
facebookresearch/ConvNeXt-V2, [LiT] arXiv 2111.07991.
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
  """'wandb,mlflow' -> ('wandb', 'mlflow'), the same as for a JSON list."""
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
    implied: Keys of other sections of the same group, with the values that
      always hold for this section, so that these values are accepted.
  """

  implied: ClassVar[Mapping[str, Any]] = {}

  model_config = pydantic.ConfigDict(
    frozen=True, extra="forbid", strict=True, protected_namespaces=()
  )


def key(default: Any, description: str) -> Any:
  return pydantic.Field(default, description=description)


class Model(Section):
  """The network: the keys that all families have.

  A family adds its own in a subclass, the `section` of its record.
  """

  name: str = key(
    "vit",
    "Family: 'vit' (including hybrids), 'resnet' (BiT ResNet-v2), 'convnext',"
    " 'swin', 'pvt', 'two_towers' (CLIP, SigLIP), or another of"
    " `registry.FAMILIES`.",
  )
  variant: str = key(
    "B/16",
    "Size and patch size, such as 'Ti/16', 'B/32', 'So400m/14'; with a ResNet"
    " stem, size and total stride: 'R50+B/16', 'R26+S/32', 'R+Ti/16'; for"
    " 'resnet', depth and width factor: 'R50x1', 'R152x4'. [P] T1, T6. For"
    " 'convnext' and 'swin', the size alone, such as 'T' or 'XL'.",
  )
  num_classes: Size | None = key(
    None, "Number of classes; None: the dataset's."
  )
  image_size: Size = key(224, "Side of the square input in pixels. [P]")
  head_bias_init: Finite = key(
    0.0,
    "Initial value of the head bias; -10 for ImageNet-21k sigmoid. [VT] [BV]",
  )
  dtype: Literal["float32", "bfloat16"] = key("float32", "Compute dtype.")
  remat: Literal["none", "full", "dots", "named", "offload"] = key(
    "none",
    "Rematerialisation: what the backward pass recomputes to save memory;"
    " 'offload' keeps the same values as 'named', but in host memory.",
  )
  normalize: Annotated[str, pydantic.AfterValidator(_check_pixels)] = key(
    "minus_one_to_one",
    "Pixel mean and scale: (x - 127.5) / 127.5 [VT]; 'imagenet' or 'clip',"
    " the mean and standard deviation of that dataset; or"
    " 'MEAN,MEAN,MEAN/STD,STD,STD' for pixels in [0, 1].",
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
    "Interpolation of a loaded position embedding to another grid. bilinear:"
    " corners aligned [VT] [BV]; bicubic: as in Hugging Face, DeiT and MAE;"
    " bicubic_antialias: as in timm and [DV2] with registers; bicubic_offset:"
    " 0.1 added to the new sides, as in [DINO] and [DV2] without registers."
    " For tables of relative biases: bilinear_half_pixel, corners not"
    " aligned, as in Hugging Face's BEiT; geometric, between offsets whose"
    " spacing grows outwards from the centre, as in timm.",
  )

  def updated(self, **keys: Any) -> "Model":
    """Returns a copy with new values of those keys that the family has."""
    known = type(self).model_fields
    return self.model_copy(
      update={name: value for name, value in keys.items() if name in known}
    )


class View(Section):
  """A group of crops of each training image; one feature of the batch."""

  count: PositiveInt = key(1, "Crops per image.")
  preprocess: str = key(
    "decode|inception_crop|flip_lr",
    "Ops that make one crop; random ops are drawn independently for each crop.",
  )
  size: Size | None = key(
    None, "Side of a crop in pixels; None: model.image_size."
  )


class Train(Section):
  """The training data and the batch."""

  dataset: str = key(
    "digits",
    "A TFDS name, 'folder' (data_dir contains train/, val/, test/; without"
    " classes 'folder:labels=none'), 'csv:FILE', 'captions',"
    " 'webdataset:SHARDS', 'datasets:NAME_OR_DIR' (Hugging Face), 'digits' or"
    " 'generated:classes=10,size=32,...'.",
  )
  split: str = key("train", "A TFDS split string, such as 'train[:99%]'.")
  batch_size: PositiveInt = key(
    4096, "Global batch size in examples. [P] Table 3."
  )
  preprocess: str = key(
    "decode|inception_crop|flip_lr",
    "Ops separated by '|'; an omitted size is model.image_size. [VT]",
  )
  views: dict[str, View] = key(
    {},
    "Name of a feature -> the crops it holds, [batch, count, size, size, 3];"
    " preprocess then holds only 'decode' and ops on labels. Empty: one"
    " image.",
  )
  repeats: PositiveInt = key(
    1,
    "Number of consecutive rows of a batch that hold the same example, each"
    " augmented independently; the number of rows in an epoch does not"
    " change. [DeiT]: 3.",
  )
  sampling: Literal["uniform", "balanced"] = key(
    "uniform",
    "uniform: every example once per epoch; balanced: every class equally"
    " often, regardless of its number of examples.",
  )
  accumulate_steps: PositiveInt = key(
    1, "Micro-batches whose gradients are averaged before each update."
  )
  image_key: str = key("image", "Feature that holds the image.")
  label_key: str = key(
    "label",
    "Feature that holds the label or labels; for WebDataset tar files, the"
    " field of a .json file, with .cls files taking precedence by default.",
  )
  text_key: str | None = key(
    None,
    "Feature of a TFDS or Hugging Face dataset that holds the captions; None:"
    " text, caption or captions, if one of them exists.",
  )
  tokenizer: str | None = key(
    None,
    "Tokenizer file for the op `tokenize`; 'bytes': the bytes of the text,"
    " without a file.",
  )
  shuffle_block: PositiveInt = key(
    1,
    "Number of consecutive records that stay together when shuffled; 1: every"
    " record is placed independently. With at least the records of a row"
    " group, Parquet files are read in place.",
  )
  prefetch_batches: PositiveInt = key(
    2, "Batches kept ready on the device ahead of the step."
  )
  max_bad_examples: NonNegativeInt = key(
    0,
    "Number of unreadable or undecodable examples tolerated, each replaced by"
    " the next readable one; one more ends the run.",
  )
  exclude: str | None = key(
    None,
    "File that lists examples of the split to leave out, such as"
    " near-duplicates of test images; written by vit_jax.deduplicate. [P]",
  )


class Objective(Section):
  """The training objective; its keys are those of the objective `name`."""

  name: str = key("supervised", "One of `registry.OBJECTIVES`.")

  @property
  def predicts_numbers(self) -> bool:
    """True if labels are numbers instead of classes."""
    return False


class Supervised(Objective):
  """Classification with one or several labels per image, or regression."""

  name: Literal["supervised"] = key(
    "supervised", "Classification or regression."
  )
  loss: Literal["softmax", "sigmoid", "sigmoid_mean", "mse", "mae"] = key(
    "softmax",
    "softmax: cross-entropy. sigmoid: binary cross-entropy, summed over the"
    " classes [BV]; sigmoid_mean: averaged over them [DeiT3]. mse and mae:"
    " squared and absolute error of the numbers in a CSV file, each in units"
    " of its standard deviation.",
  )
  label_smoothing: Fraction = key(
    0.0, "Probability mass moved away from the true label."
  )
  class_weights: Literal["balanced"] | tuple[Positive, ...] | None = key(
    None,
    "Weight of each class in the softmax loss; 'balanced': all classes weigh"
    " the same, regardless of their number of images.",
  )
  mixup_alpha: NonNegative = key(0.0, "Beta parameter of mixup; 0: off.")
  cutmix_alpha: NonNegative = key(0.0, "Beta parameter of CutMix; 0: off.")
  mix_probability: Probability = key(
    1.0, "Probability that images are mixed at all. [timm]"
  )
  mix_switch: Probability = key(
    0.5, "Probability of CutMix instead of mixup, if both are on. [timm]"
  )
  mix_mode: Literal["batch", "pair", "elem"] = key(
    "batch",
    "Granularity at which ratio and box are drawn: per batch, per pair of"
    " images that are mixed with each other, or per image. [timm]",
  )
  binarize_targets: bool = key(
    False,
    "Set the targets of both labels of a mixed image to 1 instead of their"
    " shares; for sigmoid losses. [DeiT3]",
  )
  erase_probability: Probability = key(
    0.0,
    "Probability that a random box of an image is filled with noise, after"
    " normalisation and before mixing. [timm] [DeiT]: 0.25.",
  )
  teacher: str | None = key(
    None,
    "Checkpoint, of any form and family, whose predictions are also learned,"
    " by the distillation token of a model that has one; None: no teacher."
    " [DeiT]",
  )
  distillation: Literal["hard", "soft", "soft_batchmean"] = key(
    "hard",
    "Loss between student and teacher. hard: cross-entropy with the teacher's"
    " class; soft: the divergence as in the released code, divided by the"
    " number of classes; soft_batchmean: as in the paper. [DeiT]",
  )
  distillation_weight: Probability = key(
    0.5,
    "Weight of the distillation loss; the loss of the labels has the rest."
    " [DeiT]",
  )
  distillation_temperature: Positive = key(
    1.0,
    "Temperature that divides the logits in the soft losses. [DeiT]: 1, 3 in"
    " the paper.",
  )

  @property
  def predicts_numbers(self) -> bool:
    return self.loss in ("mse", "mae")


class MaskedPatch(Objective):
  """Prediction of the content of corrupted patches. [P] B.1.2."""

  name: Literal["masked_patch"] = key(
    "masked_patch", "Masked patch prediction."
  )
  mask_rate: Annotated[float, pydantic.Field(gt=0, le=1)] = key(
    0.5, "Fraction of an image's patches that are corrupted. [P]"
  )
  target: Literal["mean_colour", "colours_4x4", "pixels"] = key(
    "mean_colour",
    "Prediction target of each corrupted patch: its mean colour, one of 512;"
    " the mean colours of its 4 x 4 parts; or all its pixels. [P] B.1.2",
  )


class FCMAE(Objective):
  """Fully convolutional masked autoencoders. [CNX2]"""

  name: Literal["fcmae"] = key("fcmae", "FCMAE, for ConvNeXts.")
  mask_ratio: Annotated[float, pydantic.Field(ge=0, lt=1)] = key(
    0.6,
    "Fraction of an image's patches that are hidden from the encoder. [CNX2]",
  )
  normalize_pixels: bool = key(
    True,
    "Predict pixels normalised by the mean and standard deviation of their"
    " patch. [CNX2]",
  )
  decoder_width: Size = key(512, "Channels of the decoder. [CNX2]")
  decoder_depth: Layers = key(1, "Blocks of the decoder. [CNX2]")


class MAE(Objective):
  """Masked autoencoders. [MAE]"""

  name: Literal["mae"] = key("mae", "Masked autoencoders.")
  mask_ratio: Annotated[float, pydantic.Field(ge=0, lt=1)] = key(
    0.75,
    "Fraction of an image's patches that are hidden from the encoder. [MAE]",
  )
  normalize_pixels: bool = key(
    True,
    "Predict pixels normalised by the mean and standard deviation of their"
    " patch. [MAE]",
  )
  decoder_width: Size = key(512, "Width of the decoder. [MAE]")
  decoder_depth: Layers = key(8, "Layers of the decoder. [MAE]")
  decoder_num_heads: Size = key(16, "Heads of the decoder. [MAE]")


class BEiT(Objective):
  """Prediction of a frozen tokenizer's tokens for masked patches. [BEiT]"""

  name: Literal["beit"] = key("beit", "BEiT.")
  tokenizer: str | None = key(
    None,
    "Source of the tokens: a file written by `vit_jax.prepare tokenizer"
    " --checkpoint=...`; VQ-KD of [BEiT2] or the encoder of DALL-E's dVAE"
    " (.pth, .pt, .pkl);"
    " 'mean_colour', the 512 mean colours of [P] B.1.2; or 'random:SEED',"
    " random centres of the features of a random network, for trials.",
  )
  tokens: Size | None = key(
    None, "Number of distinct tokens; None: the tokenizer's. [BEiT]: 8192."
  )
  masked_patches: PositiveInt = key(
    75, "Maximum number of masked patches per image. [BEiT]"
  )
  smallest_block: PositiveInt = key(
    16, "Minimum number of patches in a masked rectangle. [BEiT]"
  )
  fill_masks: bool = key(
    False,
    "Mask single patches, drawn at random, where rectangles mask fewer than"
    " `masked_patches`. [BEiT]: False; [BEiT2]: True.",
  )
  head_layers: NonNegativeInt = key(
    0,
    "Number of layers that predict the tokens a second time, from the class"
    " token and the patches of an earlier layer; 0: none [BEiT]. [BEiT2]: 2.",
  )
  early_layers: PositiveInt = key(
    9,
    "Number of the layer whose patches `head_layers` receive, from 1. [BEiT2]:"
    " 9 for B, 21 for L.",
  )


class DINO(Objective):
  """Self-distillation without labels. [DINO]"""

  name: Literal["dino"] = key("dino", "DINO.")
  prototypes: Size = key(65_536, "Number of prototypes. [DINO]")
  hidden_width: Size = key(2048, "Width of the head's hidden layers. [DINO]")
  bottleneck: Size = key(256, "Dimension of the prototypes. [DINO]")
  unit_prototypes: bool = key(
    True,
    "Fix the length of the prototypes at 1 instead of learning it. [DINO]:"
    " False for S; [DV2]: False.",
  )
  centering: Literal["mean", "sinkhorn"] = key(
    "mean",
    "Method that prevents one prototype from taking over. mean: the mean of"
    " the teacher's similarities is subtracted; sinkhorn: Sinkhorn iterations"
    " balance them [DV2].",
  )
  center_momentum: Fraction = key(
    0.9, "Fraction of the centre that is kept at each update. [DINO]"
  )
  student_temperature: Positive = key(
    0.1, "Temperature of the student's softmax. [DINO]"
  )
  teacher_temperature: Scalar = key(
    "linear(0.04, 0.07, over='29 epochs', per='epoch')",
    "Temperature of the teacher's softmax; a number, or a schedule over the"
    " run. [DINO]",
  )
  teacher_momentum: Scalar = key(
    "cosine(0.996, 1.0)",
    "Fraction of the teacher that is kept at each update; a number, or a"
    " schedule over the run. [DINO]",
  )


class DINOv2(DINO):
  """Self-distillation of images and of masked patches. [DV2]"""

  name: Literal["dinov2"] = key("dinov2", "DINOv2.")
  centering: Literal["mean", "sinkhorn"] = key(
    "sinkhorn", "As in DINO; the released networks were trained with sinkhorn."
  )
  weight_norm: bool = key(
    True,
    "Parametrise prototypes as directions, with lengths unless"
    " `unit_prototypes`; False: as rows of a linear layer, as in [DV3].",
  )
  separate_patch_head: bool = key(
    True, "Use a separate head for masked patches. [DV2]"
  )
  patch_bottleneck: Size = key(
    256, "Dimension of that head's prototypes. [DV2]"
  )
  mask_probability: Probability = key(
    0.5, "Fraction of the global crops that are masked. [DV2]"
  )
  mask_ratio: tuple[Probability, Probability] = key(
    (0.1, 0.5), "Range of the fraction of patches masked in each of them. [DV2]"
  )
  patches: Literal["masked", "all"] = key(
    "masked",
    "Patches of the global crops on which student and teacher are compared;"
    " 'all' if a frozen teacher is distilled and nothing is masked. [DV2] 5",
  )
  patch_weight: NonNegative = key(1.0, "Weight of the patch loss. [DV2]")
  koleo_weight: NonNegative = key(
    0.1,
    "Weight of the KoLeo loss, which spreads the features, one term per"
    " global crop. [DV2]",
  )
  group: PositiveInt = key(
    32,
    "Number of consecutive images that are masked and spread together, as"
    " those of one GPU were; if the batch size is not a multiple, their"
    " greatest common divisor is used. Devices that share a group each repeat"
    " the work on its patches. [DV2]: 32 for ViT-L/14.",
  )
  teacher: str | None = key(
    None,
    "Checkpoint of a DINOv2 with its heads that serves as a frozen teacher,"
    " of any size with the same patches and number of prototypes; the"
    " exported network is an average of the student, from which nothing"
    " learns. None: that average is the teacher. [DV2] 5",
  )


class FeaturePrediction(Objective):
  """Prediction of a teacher's features for masked patches. [EVA]"""

  name: Literal["feature_prediction"] = key(
    "feature_prediction", "Prediction of the features of masked patches."
  )
  teacher: str | None = key(
    None,
    "Checkpoint, of any form, of a Vision Transformer or of two towers whose"
    " patch features are learned; 'random' or 'random:SEED': a network like"
    " the student with random parameters, for trials. [EVA]: CLIP's image"
    " tower.",
  )
  teacher_features: Literal["projected", "encoded"] = key(
    "projected",
    "Features of the teacher's patches: with two towers, those that its"
    " projection maps to the space of the embeddings, if it has one [EVA]; or"
    " those of the last layer, as in all other networks.",
  )
  masked_patches: PositiveInt = key(
    105, "Maximum number of masked patches per image. [EVA]: of 256."
  )
  smallest_block: PositiveInt = key(
    16, "Minimum number of patches in a masked rectangle. [EVA]"
  )
  embedding_gradient: Probability = key(
    0.1,
    "Fraction of the gradient that reaches the patch embedding; 1: all of it."
    " [EVA]: stop_grad_conv1.",
  )


class VQKD(Objective):
  """Training of BEiT v2's tokenizer from a teacher's features. [BEiT2]"""

  name: Literal["vqkd"] = key("vqkd", "VQ-KD.")
  teacher: str | None = key(
    None,
    "Checkpoint, of any form, of a Vision Transformer or of two towers whose"
    " patch features are reconstructed from the tokens; 'random' or"
    " 'random:SEED': a network like the encoder with random parameters, for"
    " trials. [BEiT2]: CLIP's image tower, or DINO.",
  )
  teacher_features: Literal["projected", "encoded"] = key(
    "projected",
    "Features of the teacher's patches: with two towers, those that its"
    " projection maps to the space of the embeddings, if it has one [BEiT2]; or"
    " those of the last layer, as in all other networks.",
  )
  tokens: Size = key(8192, "Number of codes, which become tokens. [BEiT2]")
  code_width: Size = key(32, "Dimension of the codes. [BEiT2]")
  code_momentum: Fraction = key(
    0.99, "Fraction of a code that is kept at each update. [BEiT2]"
  )
  decoder_depth: PositiveInt = key(
    3,
    "Layers of the decoder, which are as wide as the encoder's. [BEiT2]: 3, or"
    " 1 in smaller versions.",
  )


class Contrastive(Objective):
  """Matching of images and texts. [CLIP], [SigLIP]"""

  name: Literal["contrastive"] = key(
    "contrastive", "Matching of images and texts."
  )
  loss: Literal["sigmoid", "softmax"] | None = key(
    None,
    "sigmoid: classifies each pair as matching or not [SigLIP]; softmax:"
    " picks the text of each image and the image of each text [CLIP]. None:"
    " sigmoid if the model has a bias, else softmax.",
  )
  max_scale: Annotated[float, pydantic.Field(ge=1)] | None = key(
    None,
    "Upper limit of the similarity scale, which is clipped to between 1 and"
    " this after each update, 100 in [CLIP]; None: not clipped [SigLIP].",
  )
  cache_frozen: str | None = key(
    None,
    "Directory that caches the outputs of a frozen image tower for the"
    " training images, computed once; all processes must be able to access"
    " it. None: the tower runs in every step.",
  )


class Optimizer(Section):
  """The update rule."""

  name: str = key(
    "adamw",
    "Optimizer. lamb and lars scale the step of a matrix by its norm, so a"
    " matrix that starts at zero stays close to zero: set model.weight_init"
    " to 'deit'.",
  )
  weight_decay: Scalar = key(
    0.0,
    "Decoupled weight decay, multiplied by the learning rate, as in [P] Table"
    " 3; a number, or a schedule over the run such as 'cosine(0.04, 0.4)'.",
  )
  decay_mask: tuple[str, ...] = key(
    (r".*/kernel$",),
    "Regexes of the parameter paths to which weight decay applies. [BV]",
  )
  grad_clip_norm: Positive | None = key(
    1.0, "Maximum gradient norm; None: no clipping. [P]"
  )
  grad_clip: Literal["global", "module", "parameter"] = key(
    "global",
    "Gradients to which the maximum norm applies: all together; those of the"
    " network and of each additional head separately [DV2]; or those of each"
    " parameter [DINO].",
  )
  b1: Fraction = key(0.9, "First decay rate of Adam and its relatives. [P]")
  b2: Fraction = key(0.999, "Second decay rate. [P]")
  eps: Positive = key(1e-8, "Adam's epsilon.")
  clipping_threshold: Positive | None = key(
    1.0,
    "Adafactor: RMS to which the update of each array is clipped; None: off."
    " [BV]: None.",
  )
  momentum: Fraction = key(0.9, "Momentum of SGD, LARS and Muon. [P] Table 4.")
  nesterov: bool = key(False, "Nesterov momentum (SGD, LARS).")
  mu_dtype: Literal["float32", "bfloat16"] = key(
    "float32", "Dtype of the first moment. [BV]: bfloat16."
  )
  decay_multipliers: tuple[tuple[str, NonNegative], ...] = key(
    (),
    "(regex, factor) pairs; the first match scales a parameter's weight"
    " decay, if it has any.",
  )
  lr_multipliers: tuple[tuple[str, NonNegative], ...] = key(
    (),
    "(regex, factor) pairs; the first match scales a parameter's learning"
    " rate.",
  )
  layer_decay: Annotated[float, pydantic.Field(gt=0, le=1)] | None = key(
    None,
    "Layer-wise learning rate decay: the rate of layer l is scaled by"
    " layer_decay ** (depth - l).",
  )
  freeze: str | None = key(
    None,
    "Parameters that are not trained: 'backbone', all but the heads; or a"
    " regex of parameter paths, such as 'embedding/.*|cls', or 'image/.*' for"
    " two towers [LiT].",
  )
  freeze_until: tuple[tuple[str, Duration], ...] = key(
    (),
    "(regex, duration) pairs; the first match freezes a parameter for that"
    " duration, without decay, such as the last layer of [DINO] for '1"
    " epochs'.",
  )
  freeze_until_mode: Literal["hold", "zero_rate"] = key(
    "hold",
    "hold: such a parameter has no moments until its training begins [DINO];"
    " zero_rate: its learning rate is 0, but moments accumulate from the"
    " first step [DV2].",
  )


class Schedule(Section):
  """The learning rate over the run."""

  base_lr: Positive = key(1e-3, "Peak learning rate. [P] Tables 3 and 4.")
  warmup_steps: Duration = key(
    0,
    "Length of the linear warmup: steps, '5 epochs' or '1M examples'. [P]:"
    " 10,000.",
  )
  warmup_prefix: bool = key(
    True,
    "Start the decay at the end of the warmup; False: at step 0, timm's"
    " default.",
  )
  decay: Literal["constant", "linear", "cosine", "rsqrt", "steps"] = key(
    "cosine", "Shape of the schedule after the warmup. [P] Table 3."
  )
  end_lr: NonNegative = key(0.0, "Final learning rate. [VT]: 1e-5 for linear.")
  cooldown_steps: Duration = key(
    0,
    "Length of a linear ramp to 0 at the end of the run, applied on top of"
    " the shape. [BV] train_vit_g: 50,000 after rsqrt.",
  )
  rsqrt_timescale: Duration = key(
    10_000, "rsqrt: lr * sqrt(timescale / (timescale + step - warmup))."
  )
  boundaries: tuple[Duration, ...] = key(
    (), "steps: points at which the rate is multiplied by `factor`."
  )
  factor: Annotated[float, pydantic.Field(gt=0, le=1)] = key(
    0.1, "steps: multiplier at each boundary."
  )


class Mesh(Section):
  """Device mesh; one axis may be -1, which takes the remaining devices."""

  data: int = key(-1, "Number of replicas of the parameters.")
  fsdp: int | Literal["auto"] = key(
    "auto",
    "Number of devices that share each large parameter, its moments and its"
    " update; 'auto': up to 8 of a slice, or of a GPU host, if `data` is -1,"
    " else 1.",
  )
  tensor: int = key(1, "Number of devices that split heads and MLP columns.")
  rules: tuple[tuple[str, tuple[str | None, ...]], ...] = key(
    (),
    "(regex on the parameter path, mesh axis per dimension) pairs, tried"
    " before the built-in rules.",
  )


class Checkpoint(Section):
  """Schedule of saves, and the number of checkpoints to keep."""

  every_steps: Interval = key(1000, "Interval between saves.")
  keep_last: PositiveInt = key(2, "Number of newest checkpoints to keep.")
  keep_every_steps: Interval | None = key(
    None, "Interval at whose multiples checkpoints are kept forever."
  )
  keep_best: str | None = key(
    None,
    "Metric of an evaluator, such as 'test/top1', whose best checkpoint is"
    " saved at once and kept as WORKDIR/best.",
  )
  on_save_error: Literal["stop", "continue"] = key(
    "stop",
    "Reaction to a failed save, as on a full disk: end the run, or continue"
    " training until the next save. A run with several processes always ends.",
  )


class Log(Section):
  """Experiment trackers that also receive the metrics, and a run's price."""

  to: Annotated[tuple[str, ...], pydantic.BeforeValidator(_split_words)] = key(
    (),
    "Trackers: 'wandb', 'mlflow', 'trackio', or another of"
    " `registry.TRACKERS`.",
  )
  project: str | None = key(
    None,
    "Project, or experiment in MLflow; None: WANDB_PROJECT or"
    " MLFLOW_EXPERIMENT_NAME, else 'vit_jax'.",
  )
  name: str | None = key(
    None, "Name of the run; None: the name of the workdir's folder."
  )
  group: str | None = key(None, "Group that the run belongs to; set by sweeps.")
  price_per_device_hour: Positive | None = key(
    None,
    "Price of one hour of one device, as counted by jax, in any currency; the"
    " report then shows the cost of the run so far. On CPUs the machine"
    " counts as one device.",
  )


class Sweep(Section):
  """Values for `vit_jax.sweep` to try; training itself ignores them."""

  learning_rates: tuple[Positive, ...] = key(
    (), "Values of base_lr to try. [P] T4."
  )
  train_split: str | None = key(
    None, "Split to train on while comparing rates; None: 90 % of train.split."
  )
  dev_split: str | None = key(
    None,
    "Split to compare rates on, with examples of train.split; None: the other"
    " 10 %.",
  )


class Profile(Section):
  """Range of steps to trace; on SIGUSR1 a running job traces the next ones."""

  first_step: PositiveInt | None = key(
    None, "First update to trace; None: no trace."
  )
  num_steps: PositiveInt = key(5, "Number of updates in a trace.")


class Faults(Section):
  """Reaction to non-finite numbers, spikes and stalls."""

  not_finite: Literal["stop", "skip", "roll_back"] = key(
    "stop",
    "Reaction to a NaN or infinite loss or gradient: stop, skip the update,"
    " or roll back to an earlier checkpoint and continue without the batches"
    " since then.",
  )
  roll_back_checkpoints: PositiveInt = key(
    1, "Number of saves (multiples of checkpoint.every_steps) to roll back."
  )
  max_not_finite: PositiveInt = key(
    10,
    "Maximum number of skipped updates or of rollbacks; one more stops the"
    " run.",
  )
  spike_zscore: Positive | None = key(
    8.0,
    "Number of standard deviations above its running mean at which a loss or"
    " gradient norm is a spike, which is logged as a warning; None: never.",
  )
  on_spike: Literal["warn", "skip"] = key(
    "warn", "warn: only log the warning; skip: also skip the update."
  )
  watchdog_seconds: NonNegative = key(
    1800.0,
    "Seconds without progress after which a run prints all stacks and ends"
    " with exit code 137, to be restarted; 0: off.",
  )


class Eval(Section):
  """An evaluator; its keys are those of its `type`."""

  type: str
  every_steps: Interval | None = key(
    None, "Interval between evaluations; None: only after the last step."
  )
  batch_size: PositiveInt | None = key(
    None, "Batch size; None: train.batch_size."
  )


class ClassificationEval(Eval):
  """Accuracy and loss over a whole split."""

  type: Literal["classification"]
  dataset: str | None = key(None, "Dataset; None: train.dataset.")
  split: str = key("test", "TFDS split string.")
  preprocess: str = key(
    "decode|resize", "Ops on the host; a plain square resize as in [VT]."
  )
  image_key: str = key("image", "Feature that holds the image.")
  label_key: str = key(
    "label", "Feature that holds the label or the set of accepted labels."
  )
  label_sets: str | None = key(
    None,
    "JSON file with sets of accepted labels that replace the labels, indexed"
    " by the numbers of ImageNet's validation files: ReaL's real.json.",
  )
  loss: Literal["softmax", "sigmoid"] | None = key(
    None, "Loss; None: objective.loss."
  )


class RegressionEval(Eval):
  """Errors of the predicted numbers over a whole split."""

  type: Literal["regression"]
  dataset: str | None = key(None, "Dataset; None: train.dataset.")
  split: str = key("test", "TFDS split string.")
  preprocess: str = key(
    "decode|resize", "Ops on the host; a plain square resize as in [VT]."
  )
  image_key: str = key("image", "Feature that holds the image.")
  label_key: str = key("label", "Feature that holds the number.")


class FewshotDataset(Section):
  """One dataset of an evaluator on frozen features."""

  dataset: str = key("digits", "TFDS name, 'folder', 'digits' or generated.")
  train_split: str = key(
    "train", "Split from which shots are drawn, or that is used in full."
  )
  test_split: str = key("test", "Split on which accuracy is measured.")
  preprocess: str | None = key(
    None,
    "Ops on the host. None: a central crop of 224 px from 256 px, at the"
    " paper's resolution; few-shot resizes the whole image to 256 px [BV],"
    " the other evaluators its smaller side.",
  )
  image_key: str = key("image", "Feature that holds the image.")
  label_key: str = key("label", "Feature that holds the label.")


class FeaturesEval(Eval):
  """Settings shared by all evaluators on frozen features."""

  default_preprocess: ClassVar[str] = (
    "decode|resize_small(scale=1.1429)|central_crop"
  )

  datasets: dict[str, FewshotDataset] = key(
    {}, "Name in the metrics -> dataset."
  )
  representation: str = key("pre_logits", "Feature to evaluate.")

  @pydantic.field_validator("datasets")
  @classmethod
  def _name_preprocess(
    cls, datasets: dict[str, FewshotDataset]
  ) -> dict[str, FewshotDataset]:
    """Fills in `preprocess`, so that a run's config records what was done."""
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
  num_seeds: PositiveInt = key(3, "Number of draws of the support set. [BV]")
  l2: Positive = key(2.0**10, "Ridge regularisation. [BV]")
  l2_sweep: tuple[Positive, ...] = key(
    (),
    "Also report the best of these values, chosen on held-out shots of the"
    " training split.",
  )


class KnnEval(FeaturesEval):
  """Classification by votes of the nearest training images, as in DINO."""

  type: Literal["knn"]
  neighbors: tuple[PositiveInt, ...] = key(
    (10, 20, 100, 200),
    "Numbers of training images that vote; one metric each. [DINO]",
  )
  temperature: Positive = key(
    0.07,
    "Temperature of the votes, whose weights are exp(cosine similarity /"
    " temperature). [DINO]",
  )


class LinearProbeEval(FeaturesEval):
  """A linear classifier trained on a whole training split.

  The keys from `epochs` on belong to the protocols that train by gradient
  descent; None: the protocol's value.
  """

  type: Literal["linear_probe"]
  protocol: Literal["logistic", "dino", "dinov2", "mae"] = key(
    "logistic",
    "logistic: regression by L-BFGS, ours; the others train as in the"
    " published evaluations. [DINO], [DV2], [MAE]",
  )
  l2_sweep: tuple[Positive, ...] = key(
    (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
    "Factors of half the squared weights, added to the mean loss; the one"
    " that is best on held-out training examples is used. Ours.",
  )
  held_out: Annotated[float, pydantic.Field(gt=0, lt=1)] = key(
    0.1, "Fraction of each class of the training split on which l2 is chosen."
  )
  max_iterations: PositiveInt = key(
    1000, "Maximum number of L-BFGS iterations for each l2."
  )
  epochs: PositiveInt | None = key(None, "Passes over the training split.")
  warmup_epochs: NonNegativeInt | None = key(
    None,
    "Passes during which the learning rate rises from 0; at most epochs - 1.",
  )
  train_batch_size: PositiveInt | None = key(
    None, "Examples per step; at most those of the training split."
  )
  learning_rates: tuple[Positive, ...] | None = key(
    None,
    "Learning rates for a batch of 256; one classifier is trained with each.",
  )
  blocks: tuple[PositiveInt, ...] | None = key(
    None,
    "Numbers of last layers whose class tokens are concatenated, each with"
    " its own classifier; (): representation is used instead.",
  )
  average_patches: tuple[bool, ...] | None = key(
    None,
    "Choices of whether the mean of the last layer's patches is appended to"
    " them, each with its own classifier.",
  )
  augment: str = key(
    "",
    "Ops on training images, whose features are then recomputed in every"
    " step; '': features of unaugmented images, computed once.",
  )


class SegmentationDataset(Section):
  """Images and masks for linear segmentation, in the layout of ADE20K."""

  directory: str | None = key(
    None,
    "Folder that contains images/SPLIT/NAME.jpg and"
    " annotations/SPLIT/NAME.png; None: data_dir.",
  )
  train_split: str = key("training", "SPLIT on which the layer is trained.")
  test_split: str = key("validation", "SPLIT on which it is measured.")
  num_classes: Annotated[int, pydantic.Field(gt=0, le=255)] | None = key(
    None,
    "Number of classes, with labels from 0 to one less; None: up to the"
    " largest label in the masks.",
  )
  reduce_zero_label: bool = key(
    False,
    "True: label 0 is not a class, and the other labels are reduced by one,"
    " as for ADE20K.",
  )


class LinearSegmentationEval(Eval):
  """A linear layer from patch tokens to pixel classes. [DV2]"""

  type: Literal["linear_segmentation"]
  datasets: dict[str, SegmentationDataset] = key(
    {}, "Name in the metrics -> dataset."
  )
  batch_size: PositiveInt | None = key(
    None, "Batch size; None: train_batch_size."
  )
  blocks: PositiveInt = key(
    1,
    "Number of last layers whose patch tokens are concatenated; 4 in the"
    " larger probe of [DV2].",
  )
  image_size: Size | None = key(
    None,
    "Side of the square input in pixels, regardless of the image's shape;"
    " None: the model's.",
  )
  mask_size: Size | None = key(
    None,
    "Side of the masks on which pixels are counted; None: that of the images.",
  )
  steps: PositiveInt = key(40_000, "Number of updates of the layer. [DV2]")
  warmup_steps: NonNegativeInt = key(
    1500,
    "Updates during which the learning rate rises from 0; at most steps - 1."
    " [DV2]",
  )
  train_batch_size: PositiveInt = key(
    16, "Images per update; at most those of the training split. [DV2]"
  )
  learning_rate: Positive = key(
    1e-3, "Learning rate of AdamW, before it falls to 0. [DV2]"
  )
  weight_decay: NonNegative = key(
    1e-4, "Weight decay, multiplied by the rate as in PyTorch. [DV2]"
  )


class ReconstructionEval(Eval):
  """Prediction of the hidden patches of images from the others. [MAE]"""

  type: Literal["reconstruction"]
  dataset: str | None = key(None, "Dataset; None: train.dataset.")
  split: str = key("test", "TFDS split string.")
  preprocess: str = key(
    "decode|resize_small(scale=1.1429)|central_crop", "Ops on the host. [BV]"
  )
  image_key: str = key("image", "Feature that holds the image.")
  num_shown: PositiveInt = key(12, "Number of images shown in the report.")


# torchvision's ops, rounded as it rounds.
_OF_CLIP = (
  "decode|resize_small(method='bicubic', antialias=True, rounding='down')"
  "|central_crop(rounding='nearest')"
)


class ZeroShotDataset(Section):
  """One dataset of a zero-shot evaluator."""

  dataset: str = key("imagenet2012", "TFDS name, 'folder' or another source.")
  split: str = key("validation", "Split on which accuracy is measured.")
  preprocess: str = key(_OF_CLIP, "Ops on the host. [CLIP]")
  image_key: str = key("image", "Feature that holds the image.")
  label_key: str = key(
    "label", "Feature that holds the label or the set of accepted labels."
  )
  label_sets: str | None = key(
    None,
    "JSON file with sets of accepted labels, as for a classification"
    " evaluator.",
  )
  class_names: str | None = key(
    None,
    "Class names in the order of the labels: 'imagenet', 'imagenet21k',"
    " 'imagenet22k', 'cifar10', 'cifar100', or a file with one per line;"
    " None: those of the dataset.",
  )
  templates: tuple[str, ...] = key(
    ("clip80",),
    "Sentences with {} for the name: 'clip80', 'clip7' and 'cifar18' from"
    " CLIP, a file with one per line, or a sentence itself.",
  )


class ZeroShotEval(Eval):
  """Classification by the nearest text. [CLIP] 3.1."""

  type: Literal["zeroshot"]
  datasets: dict[str, ZeroShotDataset] = key(
    {}, "Name in the metrics -> dataset."
  )
  prompts: Literal["clip", "siglip"] = key(
    "clip",
    "Treatment of the class names. siglip: split at commas into aliases,"
    " without punctuation and capitals; clip: unchanged.",
  )


class RetrievalDataset(Section):
  """One dataset of a retrieval evaluator."""

  dataset: str = key("captions", "Source of images and captions.")
  split: str = key("validation", "Split to search.")
  preprocess: str = key(_OF_CLIP, "Ops on the host. [CLIP]")
  image_key: str = key("image", "Feature that holds the image.")
  text_key: str | None = key(
    None,
    "Feature that holds the captions; None: train.text_key if the dataset is"
    " train.dataset, else text, caption or captions.",
  )


class RetrievalEval(Eval):
  """Retrieval of images by captions, and of captions by images. [CLIP]"""

  type: Literal["retrieval"]
  datasets: dict[str, RetrievalDataset] = key(
    {}, "Name in the metrics -> dataset."
  )


class PaperRow(Section):
  """Cells of the tables of [P] that a run fills; set by shipped configs."""

  cells: tuple[str, ...] = key(
    (),
    "Cells as 'TABLE:ROW:COLUMN=METRIC'. Pre-training leaves COLUMN empty;"
    " fine-tuning takes ROW from the run that it starts from.",
  )
  settings: tuple[str, ...] = key(
    (),
    "Values, as 'KEY=JSON', that the cells require; vit_jax.tables leaves out"
    " a run that overrides one.",
  )


class Config(Section):
  """One experiment."""

  seed: Annotated[int, pydantic.Field(ge=0, lt=2**32)] = key(
    0, "Seed of initialisation, data order and augmentation."
  )
  total_steps: PositiveInt | None = key(
    None, "Number of updates; takes precedence over total_epochs."
  )
  total_epochs: Positive | None = key(None, "Passes over train.split.")
  max_epochs: Positive | None = key(
    None,
    "With total_steps: end the run after this many passes, if that is sooner.",
  )
  early_stopping: PositiveInt | None = key(
    None,
    "Number of evaluations without a better checkpoint.keep_best after which"
    " the run ends.",
  )
  log_every_steps: PositiveInt = key(
    50,
    "Steps between lines of metrics, each of which holds the means over these"
    " steps.",
  )
  data_dir: str | None = key(
    None, "Directory of the datasets; None: TFDS_DATA_DIR, then TFDS's default."
  )
  init_from: str | None = key(
    None, "Checkpoint of any form to start from: a file, directory or workdir."
  )
  init_without: tuple[str, ...] = key(
    (),
    "Regexes of parameters that are not loaded from init_from; ('head/.*',)"
    " starts with a new head. [P] 3.2",
  )
  init_part: str | None = key(
    None,
    "Part of the network that is loaded from init_from, such as 'image' of"
    " two towers: init_from is then a checkpoint of any image family, or of"
    " two towers, and the rest is initialised from scratch. [LiT]",
  )
  init_classes: str | None = key(
    None,
    "Text file with one line per class: the class of init_from's head,"
    " counted from 0, from which it starts, such as Swin's"
    " data/map22kto1k.txt. None: a head of another size is initialised from"
    " scratch.",
  )
  model_from_init: bool = key(
    False,
    "Take the architecture from init_from, if that is set; of the keys of"
    " model, only those on the command line and those that control training"
    " (dropout, dtypes, remat, ...) are used.",
  )
  keep_model_keys: tuple[str, ...] = key(
    (),
    "Further keys of model to use although model_from_init is set; those on"
    " the command line are added.",
  )
  ema_decay: Annotated[float, pydantic.Field(gt=0, lt=1)] | None = key(
    None,
    "Decay of the Polyak average of the parameters; None: off. [P]: 0.9999.",
  )
  ema_warmup: bool = key(
    True,
    "Limit the decay of update t, counted from 0, to (1 + t) / (10 + t);"
    " False: ema_decay from the first update on.",
  )
  allow_change: str = key(
    "",
    "Comma-separated list of keys that may differ from the run being resumed,"
    " or from the network of init_from.",
  )
  extensions: tuple[str, ...] = key(
    (),
    "Python modules to import first, which register families, objectives and"
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
