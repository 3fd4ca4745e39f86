"""Runs the evaluators of a config on a checkpoint, or compares several.

  python -m vit_jax.evaluate --config=configs/quickstart.py \\
      --checkpoint=runs/first --output=result.json

  python -m vit_jax.evaluate --config=configs/finetune_folder.py \\
      --config.data_dir=DIR --checkpoint=photos.npz

  python -m vit_jax.evaluate --config=configs/quickstart.py \\
      --checkpoint=runs/first --checkpoint=runs/second --report=compared.html

CHECKPOINT is a workdir (its newest step is used), a checkpoints/STEP in one, a
published .npz, .safetensors or .pth file, or a Hugging Face directory. It must
contain the config's model; if the config sets `model_from_init`, as
finetune_folder.py and frozen_features.py do, the model is the checkpoint's. If
all evaluators use features below the head, the head may have any classes or be
missing.

The JSON file of --output contains the metrics of the checkpoint or, for several
checkpoints, an object with the metrics of each under its path. A published file
has no `step`, because it does not record its number of updates.
--report=FILE.html, or .md, shows the checkpoints side by side with the protocol
of each evaluator. If a checkpoint cannot be evaluated, the command stops there
with an error, and both files contain the checkpoints before it, as they do
after Ctrl-C or SIGTERM.
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from absl import flags

from vit_jax import checks, command_line, records, registry
from vit_jax.config import evaluator_declarations, schema
from vit_jax.errors import UserError
from vit_jax.evaluators import build as evaluators_build
from vit_jax.models import attention_key
from vit_jax.objectives import build as objectives_build
from vit_jax.processes.termination import EXIT_TERMINATED, WORDS

if TYPE_CHECKING:
  from vit_jax.evaluators.contract import Evaluator
  from vit_jax.report.subjects import Subject
  from vit_jax.training.experiment import Experiment
  from vit_jax.weights.contract import Weights


def define_flags() -> None:
  command_line.define_config()
  flags.DEFINE_multi_string(
    "checkpoint",
    None,
    f"{command_line.CHECKPOINT_HELP}; repeat it to compare several.",
  )
  flags.DEFINE_string(
    "output", None, "JSON file for the metrics, which are also printed."
  )
  flags.DEFINE_string(
    "report", None, "HTML or Markdown file that compares the checkpoints."
  )


def main(argv: Sequence[str]) -> int:
  command_line.no_arguments(argv)
  config = command_line.resolved_config()
  if not config.model_from_init:
    checks.check(config)
  options = flags.FLAGS
  paths = options.checkpoint or []
  _check_flags(paths, options.output, options.report)
  if not config.evals:
    raise UserError(
      "config.evals is empty: the config has no evaluators to run."
    )
  from vit_jax.report import comparison, formatting

  found: list[Subject] = []

  def show() -> None:
    if len(paths) > 1 and found:
      print(comparison.text(found), end="")
    elif found:
      for name, value in found[0].metrics.items():
        print(f"{name}: {formatting.metric(value)}")
    if options.report and found:
      _report(options.report, config, found)

  try:
    with _together(config, show):
      for subject in measure(config, paths):
        found.append(subject)
        if options.output:
          # Written after each checkpoint, so that nothing is lost if a later
          # one fails.
          value = {one.path: one.metrics for one in found}
          if len(paths) == 1:
            value = dict(subject.metrics)
          command_line.writing(records.write_json, options.output, value)
  finally:
    # Nor is anything lost from the printed output or the report.
    show()
  return 0


def _report(
  path: str, config: schema.Config, found: Sequence["Subject"]
) -> None:
  from vit_jax.report import comparison, comparison_formats

  write = comparison_formats.FORMATS[_ending(path)]
  declared = evaluator_declarations.declarations(config)
  text = write(comparison.compare(found, declared))
  command_line.writing(records.write_text, path, text)
  print(f"report: {path}")


def _check_flags(
  paths: Sequence[str], output: str | None, report: str | None
) -> None:
  """Raises UserError for flags that would otherwise fail after measuring."""
  from vit_jax.report import comparison_formats, subjects

  if not paths or not all(paths):
    raise UserError(command_line.NO_CHECKPOINT)
  places = [subjects.same_place(path) for path in paths]
  for path, place in zip(paths, places, strict=True):
    if places.count(place) > 1:
      raise UserError(
        f"--checkpoint={path} was given more than once; give each checkpoint"
        " once."
      )
  endings = comparison_formats.FORMATS
  if report and _ending(report) not in endings:
    raise UserError(
      f"--report={report} must end in {' or '.join(endings)}, which says in"
      " which format it is written."
    )
  command_line.check_writable("output", output)
  command_line.check_writable("report", report)


def _ending(path: str) -> str:
  return pathlib.PurePath(path).suffix.lower()


def evaluate(config: schema.Config, checkpoint: str) -> dict[str, float | int]:
  """Returns a checkpoint's metrics: `step` if known, then evaluators'.

  Args:
    config: The experiment; its `evals` are run on its `model` or, with
      `model_from_init`, on the checkpoint's.
    checkpoint: A workdir, one of its steps, or a published file.

  Raises:
    UserError: Any error from `measure`.
  """
  with _together(config):
    (subject,) = measure(config, [checkpoint])
  return dict(subject.metrics)


@contextlib.contextmanager
def _together(
  config: schema.Config, on_sigterm: Callable[[], None] | None = None
) -> Iterator[None]:
  """Joins the processes, all of which end if one of them has an error.

  Args:
    config: Config that all of them must have.
    on_sigterm: Called before SIGTERM ends the process.
  """
  # jax is imported after all checks of the config, which are immediate.
  from vit_jax.processes import start
  from vit_jax.processes.liveness import Liveness
  from vit_jax.processes.stopping import LeaveAtOnce

  start.initialize()
  liveness = Liveness()

  def leave(code: int) -> None:
    try:
      if on_sigterm is not None:
        on_sigterm()
    finally:
      liveness.leave(code)

  with liveness, LeaveAtOnce(leave, EXIT_TERMINATED, WORDS):
    start.check_alike(config)
    yield


def measure(
  config: schema.Config, checkpoints: Sequence[str]
) -> Iterator["Subject"]:
  """Runs the evaluators on each checkpoint in turn.

  Checkpoints of the same model share open data and compiled programs.

  Args:
    config: Same as in `evaluate`.
    checkpoints: Paths, each as in `evaluate`.

  Raises:
    UserError: A checkpoint is missing or has another model, or the data of an
      evaluator is missing.
  """
  from vit_jax.pretrained import initial_model, reading
  from vit_jax.processes import compile_cache

  compile_cache.enable()
  # All paths are checked before hours are spent on the first one.
  for path in checkpoints:
    _require(path)
  bench = None
  for path in checkpoints:
    weights, step = reading.read_with_step(path, agreed=True)
    _check_head(config, weights)
    settled = initial_model.of_checkpoint(config, weights.model)
    if not _looks_at_head(config):
      model = settled.model.model_copy(
        update={"num_classes": config.model.num_classes}
      )
      settled = settled.model_copy(update={"model": model})
    settled = _with_tokenizer(settled, path, weights.model)
    names = weights.class_names if _looks_at_head(config) else None
    if bench is None or (bench.config, bench.class_names) != (settled, names):
      bench = _build(settled, names)
    yield bench.measure(path, weights, step)


def _require(path: str) -> None:
  """Raises UserError unless there is a checkpoint at the path."""
  from vit_jax.pretrained import reading
  from vit_jax.weights import files

  if reading.is_published(path):
    files.require(path)
  else:
    reading.locate(path)


def _looks_at_head(config: schema.Config) -> bool:
  """Returns True if an evaluator reads the logits."""
  return "logits" in evaluators_build.features(config)


def _with_tokenizer(
  config: schema.Config, path: str, model: schema.Model
) -> schema.Config:
  """Returns a config that names a tokenizer if its evaluators need one.

  Args:
    config: Config with the checkpoint's model.
    path: Path of the checkpoint, whose tokenizer is used if the config names
      none. Warns about a tokenizer with other tokens than the model's.
    model: The checkpoint's own model, which may not be the config's.

  Raises:
    UserError: The checkpoint has no text tower; neither the config nor the
      checkpoint has a tokenizer; or the config names something that is not one.
  """
  from vit_jax.pretrained import text_tokenizer
  from vit_jax.tokenization.load import load_tokenizer

  if "text_embedding" not in evaluators_build.features(config):
    return config
  models = config.model, model
  if not all(registry.FAMILIES.get(one.name).has_text for one in models):
    raise UserError(
      f"{path} has no text tower, and config.evals compares images with texts;"
      " evaluate it by evaluators of the type classification, knn, fewshot or"
      " linear_probe, as in --config=configs/frozen_features.py."
    )
  if (named := config.train.tokenizer) is not None:
    text = config.model.text
    text_tokenizer.warn_of_another(
      named, path, length=text.length, num_tokens=text.vocab_size
    )
    return config
  try:
    load_tokenizer(path)
  except UserError as error:
    raise UserError(
      f"{path} has no tokenizer that can be used ({error}) Name the one that it"
      " was trained with as --config.train.tokenizer=PATH."
    ) from None
  train = config.train.model_copy(update={"tokenizer": path})
  return config.model_copy(update={"train": train})


def _check_head(config: schema.Config, weights: "Weights") -> None:
  """Raises UserError for a missing head, or numbers mistaken for classes."""
  if not _looks_at_head(config):
    return
  if weights.model.num_classes is None:
    raise UserError(
      f"{weights.path} has no head, and config.evals asks for its classes;"
      " measure its features by evaluators of the type fewshot, knn or"
      " linear_probe, or CLIP and SigLIP by --config=configs/zero_shot.py."
    )
  if weights.activation is None:
    return
  wanted = config.objective.predicts_numbers
  if wanted != weights.predicts_numbers:
    has, asked = ("classes", "numbers") if wanted else ("numbers", "classes")
    raise UserError(
      f"{weights.path} predicts {has}, and config.evals asks for {asked}"
      f" (config.objective.loss); take the config of its training."
    )


@dataclasses.dataclass(frozen=True)
class _Bench:
  """The evaluators of a config, ready for any checkpoint of its model."""

  config: schema.Config
  class_names: Sequence[str] | None
  parts: "Experiment"
  evaluators: Sequence["Evaluator"]

  def measure(
    self, path: str, weights: "Weights", step: int | None
  ) -> "Subject":
    import jax

    from vit_jax import trees
    from vit_jax.pretrained import fitting, parts
    from vit_jax.report.subjects import Subject

    state, model = self.parts.abstract_state, self.config.model
    wanted = self.parts.exported(state)
    # A file may have only the network.
    for name in objectives_build.kind_of(self.config).beside:
      if name not in weights.beside:
        del wanted[name]
    if _looks_at_head(self.config):
      params = fitting.place(wanted, weights, model)
    else:
      params = fitting.place_body(wanted, weights, model)
    state = state.replace(params=params, ema_params=None)
    metrics: dict[str, float | int] = {} if step is None else {"step": step}
    for evaluator in self.evaluators:
      measured = evaluator.run(state, step or 0)
      # A list, as jax sorts the names of a dictionary: r10 before r5.
      values = jax.device_get(list(measured.values()))
      metrics |= dict(zip(measured, values, strict=True))
    return Subject(
      path=path,
      model=registry.FAMILIES.get(model.name).describe(model),
      image_size=model.image_size,
      num_params=trees.num_elements(parts.image_weights(weights, model).params),
      metrics=metrics,
    )


def _build(config: schema.Config, class_names: Sequence[str] | None) -> _Bench:
  from vit_jax.data import facts
  from vit_jax.sharding import mesh as meshes
  from vit_jax.training import evaluation, experiment

  checks.check(config)
  if attention_key.value(config.model) == "cudnn":
    # The config may be that of a run on GPUs; results do not depend on the
    # device.
    config = attention_key.changed(config, "auto")
  found, _ = facts.find(config)
  # The data's names are used for the network, unless it has its own or another
  # number of classes.
  number = config.model.num_classes
  is_other = number is not None and number != len(found.class_names or ())
  if class_names is not None or is_other:
    found = dataclasses.replace(found, class_names=class_names)
  axes = config.mesh
  if axes.fsdp == "auto":  # There is no update to share.
    axes = axes.model_copy(update={"fsdp": 1})
  mesh = meshes.create_mesh(axes)
  parts = experiment.build(config, found, mesh, trains=False)
  evaluators = evaluation.build_evaluators(parts)
  return _Bench(config, class_names, parts, list(evaluators.values()))


if __name__ == "__main__":
  define_flags()
  command_line.run(main, config_flag="config")
