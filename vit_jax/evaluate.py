"""Runs the evaluators of a config on a checkpoint.

  python -m vit_jax.evaluate --config=configs/quickstart.py \\
      --checkpoint=runs/first --output=result.json

  python -m vit_jax.evaluate --config=configs/finetune_folder.py \\
      --config.data_dir=DIR --checkpoint=photos.npz

CHECKPOINT is a workdir (its newest step counts), a checkpoints/STEP in one, a
published .npz or .safetensors file, or a Hugging Face directory. It has to be
of the config's model; where the config says `model_from_init`, as
finetune_folder.py does, the model is the checkpoint's. The JSON has no `step`
for a published file, which does not say how many updates it has seen.
"""

from collections.abc import Sequence

from absl import flags

from vit_jax import checks, command_line, records
from vit_jax.config import schema
from vit_jax.errors import UserError


def define_flags() -> None:
  command_line.define_config()
  flags.DEFINE_string(
    "checkpoint",
    None,
    "Workdir, one of its checkpoints/STEP, .npz, .safetensors or Hugging Face"
    " directory.",
  )
  flags.DEFINE_string(
    "output", None, "JSON file for the metrics, besides the terminal."
  )


def main(argv: Sequence[str]) -> int:
  command_line.no_arguments(argv)
  config = command_line.resolved_config()
  if not config.model_from_init:
    checks.check(config)
  if not flags.FLAGS.checkpoint:
    raise UserError("No checkpoint was named: give --checkpoint=PATH.")
  if not config.evals:
    raise UserError(
      "config.evals is empty: the config has no evaluators to run."
    )
  result = evaluate(config, flags.FLAGS.checkpoint)
  for name, value in result.items():
    print(f"{name}: {value:.6g}")
  if flags.FLAGS.output:
    command_line.writing(records.write_json, flags.FLAGS.output, result)
  return 0


def evaluate(config: schema.Config, checkpoint: str) -> dict[str, float | int]:
  """Metrics of a checkpoint: `step` if it says so, then of every evaluator.

  Args:
    config: the experiment; its `evals` are run on its `model`, or with
      `model_from_init` on the checkpoint's.
    checkpoint: a workdir, one of its steps, or a published file.

  Raises:
    UserError: if the checkpoint is not there or is of another model, or the
      data of an evaluator are not there.
  """
  # jax is imported after all checks of the config, which answer at once.
  import jax

  from vit_jax.checkpoint import fitting, initial_model, reading
  from vit_jax.evaluators import build as evaluators_build
  from vit_jax.evaluators.contract import Context
  from vit_jax.training import compile_cache, experiment, processes
  from vit_jax.weights import files

  processes.initialize()
  compile_cache.enable()
  weights = reading.read(checkpoint)
  config = initial_model.of_checkpoint(config, weights.model)
  checks.check(config)
  facts, _ = experiment.facts_of_config(config)
  parts = experiment.build(config, facts)
  params = fitting.place(parts.abstract_state.params, weights, config.model)
  metrics: dict[str, float | int] = {}
  if not files.is_published(checkpoint):
    metrics["step"] = reading.locate(checkpoint)[1]
  context = Context(
    config=config,
    outputs=parts.objective.outputs,
    mesh=parts.mesh,
    workdir=None,
    num_classes=facts.num_classes,
    class_names=facts.class_names,
  )
  state = parts.abstract_state.replace(params=params, ema_params=None)
  for name, entry in config.evals.items():
    evaluator = evaluators_build.build(name, entry, context)
    metrics |= jax.device_get(evaluator.run(state, metrics.get("step", 0)))
  return metrics


if __name__ == "__main__":
  define_flags()
  command_line.run(main, config_flag="config")
