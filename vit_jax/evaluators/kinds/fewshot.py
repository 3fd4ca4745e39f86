"""Declaration of `fewshot`: few-shot ridge regression on frozen features."""

from vit_jax.config import schema
from vit_jax.config.evaluator_declarations import Column
from vit_jax.evaluators import entry_checks
from vit_jax.evaluators.kind import EvaluatorKind


def _protocol(
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


def _columns(entry: schema.FewshotEval) -> list[Column]:
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


KIND = EvaluatorKind(
  section=schema.FewshotEval,
  build="vit_jax.evaluators.fewshot:build",
  prefix="fewshot",
  title="Few-shot linear accuracy, %",
  protocol=_protocol,
  features=lambda entry: (entry.representation,),
  check=entry_checks.features("shots", "(1, 5, 10, 25)"),
  columns=_columns,
  counts="examples per class",
)
