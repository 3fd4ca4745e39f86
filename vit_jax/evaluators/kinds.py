"""Declarations of the evaluators, which need no jax.

Configs are checked and reports are drawn from these records alone; the module
that `build` names is imported when an evaluator is made.
"""

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.config.evaluator_declarations import Column
from vit_jax.errors import UserError
from vit_jax.evaluators import entry_checks, probe_protocols
from vit_jax.evaluators.kind import EvaluatorKind
from vit_jax.prompts import class_names, ensemble, templates


def _representation(entry: schema.FeaturesEval) -> tuple[str, ...]:
  return (entry.representation,)


def _classification_check(
  name: str, entry: schema.ClassificationEval, config: schema.Config
) -> None:
  if config.objective.predicts_numbers:
    raise UserError(
      f'config.evals.{name} is of type "classification", but'
      f" {_objective(config)} predicts numbers; set its type to"
      ' "regression".'
    )
  entry_checks.check_data(
    f"config.evals.{name}",
    entry.dataset or config.train.dataset,
    {"split": entry.split},
    entry.preprocess,
    config,
  )


def _classification_protocol(
  name: str, entry: schema.ClassificationEval, config: schema.Config
) -> str:
  sentence = (
    f"{name}: the model's own head on every labelled image of split"
    f" {entry.split!r} of {entry.dataset or config.train.dataset}"
  )
  if entry.label_sets:
    sentence += f", any of the labels of {entry.label_sets} being right"
  return f"{sentence}."


CLASSIFICATION = EvaluatorKind(
  section=schema.ClassificationEval,
  build="vit_jax.evaluators.classification:build",
  prefix="eval",
  title="Classification",
  protocol=_classification_protocol,
  features=lambda entry: ("logits",),
  check=_classification_check,
  columns=lambda entry: (
    Column("top1", "top-1, %", "percent", better="higher", panel="Accuracy"),
    Column("top5", "top-5, %", "percent", better="higher"),
    Column(
      "mean_average_precision",
      "mAP, %",
      "percent",
      better="higher",
      panel="Mean average precision",
    ),
    Column("loss", "loss", better="lower", panel="Loss"),
    Column("num_examples", "images"),
  ),
)


def _regression_check(
  name: str, entry: schema.RegressionEval, config: schema.Config
) -> None:
  if not config.objective.predicts_numbers:
    raise UserError(
      f'config.evals.{name} is of type "regression", but'
      f" {_objective(config)} predicts no numbers; set config.objective.loss ="
      " 'mse'."
    )
  entry_checks.check_data(
    f"config.evals.{name}",
    entry.dataset or config.train.dataset,
    {"split": entry.split},
    entry.preprocess,
    config,
  )


def _objective(config: schema.Config) -> str:
  """The objective, as the sentence about what it does not do names it."""
  loss = getattr(config.objective, "loss", None)
  if config.objective.name == "supervised":
    return f"config.objective.loss = {loss!r}"
  return f'objective "{config.objective.name}"'


REGRESSION = EvaluatorKind(
  section=schema.RegressionEval,
  build="vit_jax.evaluators.regression:build",
  prefix="eval",
  title="Regression",
  protocol=lambda name, entry, config: (
    f"{name}: the numbers that the model's own head predicts of every image of"
    f" split {entry.split!r} of {entry.dataset or config.train.dataset}, in"
    " their own units. R² is the share of their variance that is explained: 0"
    " of always answering their mean, 1 of no error."
  ),
  features=lambda entry: ("logits",),
  check=_regression_check,
  columns=lambda entry: (
    Column("rmse", "RMSE", better="lower", panel="Root mean squared error"),
    Column("mae", "MAE", better="lower", panel="Mean absolute error"),
    Column("r2", "R²", better="higher", panel="R²"),
    Column("num_examples", "images"),
  ),
)


def _fewshot_protocol(
  name: str, entry: schema.FewshotEval, config: schema.Config
) -> str:
  seeds = entry.num_seeds
  over = f"over {seeds} draws" if seeds > 1 else "of a single draw"
  sentences = [
    "A linear classifier is fitted by ridge regression to the frozen"
    f" {entry.representation} features of a few labelled images per class and"
    " tested on the whole test split.",
    f"Its l2 is {entry.l2:g}, fixed beforehand.",
  ]
  if entry.l2_sweep:
    sentences.append(
      "'l2 swept': the most accurate of"
      f" {entry_checks.listed(entry.l2_sweep)} on held-out examples of the"
      " training split, the test split having no say in it."
    )
  sentences.append(
    f"Mean ± standard deviation {over} of the labelled images, the same images"
    " for every checkpoint."
  )
  return " ".join(sentences)


def _fewshot_columns(entry: schema.FewshotEval) -> list[Column]:
  return [
    Column(
      f"{shots}shot{suffix}",
      f"{shots}-shot",
      "percent",
      decimals=1,
      better="higher",
      count=shots,
      variant=variant,
      panel=f"{shots}-shot accuracy",
    )
    for suffix, variant in (("", ""), ("_l2_swept", "l2 swept"))
    for shots in sorted(entry.shots)
  ]


FEWSHOT = EvaluatorKind(
  section=schema.FewshotEval,
  build="vit_jax.evaluators.fewshot:build",
  prefix="fewshot",
  title="Few-shot linear accuracy, %",
  protocol=_fewshot_protocol,
  features=_representation,
  check=entry_checks.features("shots", "(1, 5, 10, 25)"),
  columns=_fewshot_columns,
  counts="examples per class",
)


def _knn_protocol(
  name: str, entry: schema.KnnEval, config: schema.Config
) -> str:
  return (
    "The k most similar images of the whole training split vote on the class of"
    " each test image; similar is a large cosine of"
    f" {entry.representation} features. A vote weighs"
    f" exp(cosine / {entry.temperature:g})."
  )


KNN = EvaluatorKind(
  section=schema.KnnEval,
  build="vit_jax.evaluators.knn:build",
  prefix="knn",
  title="k-nearest-neighbour accuracy, %",
  protocol=_knn_protocol,
  features=_representation,
  check=entry_checks.features("neighbors", "(10, 20, 100, 200)"),
  columns=lambda entry: [
    Column(
      f"k{count}",
      f"k = {count}",
      "percent",
      better="higher",
      count=count,
      panel=f"{count}-nearest-neighbour accuracy",
    )
    for count in sorted(entry.neighbors)
  ],
  counts="neighbours",
)


def _linear_probe_protocol(
  name: str, entry: schema.LinearProbeEval, config: schema.Config
) -> str:
  if (protocol := probe_protocols.of(entry)) is not None:
    return _trained_probe_protocol(entry, protocol)
  fitted = (
    "A multinomial logistic regression is fitted to the frozen"
    f" {entry.representation} features of the whole training split,"
    " standardised, and tested on the whole test split."
  )
  if len(entry.l2_sweep) == 1:
    return f"{fitted} Its l2 is {entry.l2_sweep[0]:g}, fixed beforehand."
  return (
    f"{fitted} Its l2 is the most accurate of"
    f" {entry_checks.listed(entry.l2_sweep)} on {100 * entry.held_out:g}% of"
    " each class of the training split, held out of the fit that is compared;"
    " the test split has no say in it."
  )


def _trained_probe_protocol(
  entry: schema.LinearProbeEval, protocol: probe_protocols.Protocol
) -> str:
  """Sentences on what is trained, how long, and what is reported."""
  seen = f"the frozen {entry.representation} features"
  if protocol.blocks:
    counts = entry_checks.listed(protocol.blocks).replace(" and ", " or ")
    seen = f"the frozen class tokens of the last {counts} layers, joined,"
    if protocol.has_patches:
      always = all(protocol.average_patches)
      seen += " with" if always else " with or without"
      seen += " the mean of the patches"
  of_what = f"augmented images ({entry.augment})" if entry.augment else "images"
  rates = entry_checks.listed(protocol.learning_rates)
  several = len(protocol.learning_rates) > 1
  sentences = [
    f"{_PROBES[entry.protocol]}: a linear layer on {seen} of {of_what} of the"
    " whole training split"
    + (", brought to mean 0 and variance 1," if protocol.batch_norm else ""),
    f"is trained for {protocol.epochs} epochs by"
    f" {_OPTIMIZERS[protocol.optimizer]}, batches of"
    f" {protocol.train_batch_size}, learning rate{'s' if several else ''}"
    f" {rates} x batch / 256 with cosine decay",
  ]
  if protocol.warmup_epochs:
    sentences[-1] += f" after {protocol.warmup_epochs} epochs of warmup"
  sentences[-1] += ", and tested on the whole test split."
  count = len(protocol.settings)
  if count > 1:
    sentences.append(
      f"Of {count} such layers the one most accurate on the test split is"
      " reported, as published: that split has a say in it."
    )
  return " ".join(sentences)


_PROBES = {
  "dino": "DINO's protocol",
  "dinov2": "DINOv2's protocol",
  "mae": "MAE's protocol",
}
_OPTIMIZERS = {"sgd": "SGD with momentum", "lars": "LARS"}


def _linear_probe_features(entry: schema.LinearProbeEval) -> tuple[str, ...]:
  protocol = probe_protocols.of(entry)
  if protocol is not None and protocol.blocks:
    return ()  # Of the network's layers, none of the objective's outputs.
  return _representation(entry)


def _linear_probe_check(
  name: str, entry: schema.LinearProbeEval, config: schema.Config
) -> None:
  probe_protocols.check(name, entry, config)
  entry_checks.check_features(name, entry, config)


def _linear_probe_columns(entry: schema.LinearProbeEval) -> list[Column]:
  top1 = Column(
    "top1",
    "top-1, %",
    "percent",
    better="higher",
    panel="Linear-probe accuracy",
  )
  protocol = probe_protocols.of(entry)
  if protocol is None:
    return [top1, Column("l2", "l2")]
  if len(protocol.settings) == 1:
    return [top1]
  return [
    top1,
    Column("learning_rate", "rate for 256"),
    Column("blocks", "last layers"),
    Column("average_patches", "with patches"),
  ]


LINEAR_PROBE = EvaluatorKind(
  section=schema.LinearProbeEval,
  build="vit_jax.evaluators.linear_probe:build",
  prefix="linear_probe",
  title="Linear probe",
  protocol=_linear_probe_protocol,
  features=_linear_probe_features,
  check=_linear_probe_check,
  columns=_linear_probe_columns,
)


def _linear_segmentation_check(
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


def _linear_segmentation_protocol(
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


LINEAR_SEGMENTATION = EvaluatorKind(
  section=schema.LinearSegmentationEval,
  build="vit_jax.evaluators.linear_segmentation:build",
  prefix="linear_segmentation",
  title="Linear segmentation",
  protocol=_linear_segmentation_protocol,
  features=lambda entry: (),  # Of the network's layers.
  check=_linear_segmentation_check,
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


def _reconstruction_check(
  name: str, entry: schema.ReconstructionEval, config: schema.Config
) -> None:
  key, objective = f"config.evals.{name}", config.objective.name
  if not registry.OBJECTIVES.get(objective).beside:
    raise UserError(
      f'{key} is of type "reconstruction", but objective "{objective}" has no'
      ' decoder that draws images; "mae" has.'
    )
  entry_checks.check_data(
    key,
    entry.dataset or config.train.dataset,
    {"split": entry.split},
    entry.preprocess,
    config,
  )


def _reconstruction_protocol(
  name: str, entry: schema.ReconstructionEval, config: schema.Config
) -> str:
  return (
    f"{name}: the training loss on all images of split {entry.split!r} of"
    f" {entry.dataset or config.train.dataset}, with the same patches hidden at"
    " every step."
  )


RECONSTRUCTION = EvaluatorKind(
  section=schema.ReconstructionEval,
  build="vit_jax.evaluators.reconstruction:build",
  prefix="reconstruction",
  title="Reconstruction",
  protocol=_reconstruction_protocol,
  features=lambda entry: ("reconstruction",),
  check=_reconstruction_check,
  columns=lambda entry: (
    Column("loss", "loss", better="lower", panel="Loss of hidden patches"),
    Column("num_examples", "images"),
  ),
)


def _zeroshot_check(
  name: str, entry: schema.ZeroShotEval, config: schema.Config
) -> None:
  entry_checks.check_texts(name, config)
  entry_checks.check_dataset_names(name, config)
  for data_name, data in entry.datasets.items():
    key = f"config.evals.{name}.datasets.{data_name}"
    splits = {"split": data.split}
    entry_checks.check_data(key, data.dataset, splits, data.preprocess, config)
    templates.read(data.templates, key=f"{key}.templates")
    if data.class_names is not None:
      here = f"{key}.class_names"
      names = class_names.read(data.class_names, key=here)
      # Only names can be wrong here, so that one template is enough.
      ensemble.prompts(names, ["{}"], style=entry.prompts, key=here)


def _zeroshot_protocol(
  name: str, entry: schema.ZeroShotEval, config: schema.Config
) -> str:
  prompts = (
    "A class is embedded as the mean of the texts of its name in"
    f" {' + '.join(dict.fromkeys(map(_words, entry.datasets.values())))}, each"
    " of unit length; an image is of the class whose embedding is nearest."
  )
  if entry.prompts == "siglip":
    prompts += (
      " Names are split at commas into aliases; texts are lower-cased and have"
      " no punctuation."
    )
  return prompts


def _words(data: schema.ZeroShotDataset) -> str:
  return " + ".join(
    repr(one) if "{" in one else f"the templates {one}"
    for one in data.templates
  )


ZEROSHOT = EvaluatorKind(
  section=schema.ZeroShotEval,
  build="vit_jax.evaluators.zeroshot:build",
  prefix="zeroshot",
  title="Zero-shot classification",
  protocol=_zeroshot_protocol,
  features=lambda entry: ("image_embedding", "text_embedding"),
  check=_zeroshot_check,
  columns=lambda entry: (
    Column(
      "top1",
      "top-1, %",
      "percent",
      better="higher",
      panel="Zero-shot accuracy",
    ),
    Column("top5", "top-5, %", "percent", better="higher"),
    Column("loss", "loss", better="lower"),
    Column("num_examples", "images"),
  ),
)


def _retrieval_check(
  name: str, entry: schema.RetrievalEval, config: schema.Config
) -> None:
  entry_checks.check_texts(name, config)
  entry_checks.check_dataset_names(name, config)
  for data_name, data in entry.datasets.items():
    key = f"config.evals.{name}.datasets.{data_name}"
    splits = {"split": data.split}
    entry_checks.check_data(key, data.dataset, splits, data.preprocess, config)


RETRIEVAL = EvaluatorKind(
  section=schema.RetrievalEval,
  build="vit_jax.evaluators.retrieval:build",
  prefix="retrieval",
  title="Retrieval",
  protocol=lambda name, entry, config: (
    "Recall at k: 'text' is the share of images of which a caption is among the"
    " k nearest of all captions, 'image' the share of captions whose image is"
    " among the k nearest of all images; near is a large cosine."
  ),
  features=lambda entry: ("image_embedding", "text_embedding"),
  check=_retrieval_check,
  columns=lambda entry: (
    *(
      Column(
        f"{direction}_r{rank}",
        f"{short} R@{rank}, %",
        "percent",
        decimals=1,
        better="higher",
        panel=f"{words}, recall at 1" if rank == 1 else "",
      )
      for direction, short, words in (
        ("image_to_text", "text", "Image to text"),
        ("text_to_image", "image", "Text to image"),
      )
      for rank in (1, 5, 10)
    ),
    Column("num_images", "images"),
    Column("num_texts", "captions"),
  ),
)
