"""Declarations of the evaluators, which need no jax.

Configs are checked and reports are drawn from these records alone; the module
that `build` names is imported when an evaluator is made.
"""

from vit_jax.config import schema
from vit_jax.config.evaluator_declarations import Column
from vit_jax.evaluators import entry_checks
from vit_jax.evaluators.kind import EvaluatorKind


def _representation(entry: schema.FeaturesEval) -> tuple[str, ...]:
  return (entry.representation,)


def _classification_check(
  name: str, entry: schema.ClassificationEval, config: schema.Config
) -> None:
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
    Column("loss", "loss", better="lower", panel="Loss"),
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


LINEAR_PROBE = EvaluatorKind(
  section=schema.LinearProbeEval,
  build="vit_jax.evaluators.linear_probe:build",
  prefix="linear_probe",
  title="Linear probe",
  protocol=_linear_probe_protocol,
  features=_representation,
  check=entry_checks.features("l2_sweep", "(1e-4, 1e-3, 1e-2)"),
  columns=lambda entry: (
    Column(
      "top1",
      "top-1, %",
      "percent",
      better="higher",
      panel="Linear-probe accuracy",
    ),
    Column("l2", "l2"),
  ),
)
