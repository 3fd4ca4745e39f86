"""Declaration of `zeroshot`: classification by the texts of class names."""

from collections.abc import Mapping

from vit_jax.config import schema
from vit_jax.config.evaluator_declarations import Column
from vit_jax.evaluators import entry_checks
from vit_jax.evaluators.kind import EvaluatorKind
from vit_jax.prompts import class_names, ensemble, templates


def _check(
  name: str, entry: schema.ZeroShotEval, config: schema.Config
) -> None:
  entry_checks.check_texts(name, config)
  entry_checks.check_datasets(name, config)
  for data_name, data in entry.datasets.items():
    key = f"config.evals.{name}.datasets.{data_name}"
    templates.read(data.templates, key=f"{key}.templates")
    if data.class_names is not None:
      here = f"{key}.class_names"
      names = class_names.read(data.class_names, key=here)
      # Only names can be wrong here, so one template is enough.
      ensemble.prompts(names, ["{}"], style=entry.prompts, key=here)


def _protocol(
  name: str, entry: schema.ZeroShotEval, config: schema.Config
) -> str:
  prompts = (
    "A class is embedded as the mean of the texts of its name in"
    f" {_all_words(entry.datasets)}, each of unit length; an image is of the"
    " class whose embedding is nearest."
  )
  if entry.prompts == "siglip":
    prompts += (
      " Names are split at commas into aliases; texts are lower-cased and have"
      " no punctuation."
    )
  return prompts


def _all_words(datasets: Mapping[str, schema.ZeroShotDataset]) -> str:
  """Templates, with the names of their datasets unless all have the same."""
  named: dict[str, list[str]] = {}
  for name, data in datasets.items():
    named.setdefault(_words(data), []).append(name)
  if len(named) < 2:
    return "".join(named)
  return " or ".join(f"{one} ({', '.join(of)})" for one, of in named.items())


def _words(data: schema.ZeroShotDataset) -> str:
  return " + ".join(
    repr(one) if "{" in one else f"the templates {one}"
    for one in data.templates
  )


KIND = EvaluatorKind(
  section=schema.ZeroShotEval,
  build="vit_jax.evaluators.zeroshot:build",
  prefix="zeroshot",
  title="Zero-shot classification",
  protocol=_protocol,
  features=lambda entry: ("image_embedding", "text_embedding"),
  check=_check,
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
