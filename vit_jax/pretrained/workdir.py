"""Writing a checkpoint in another format as a workdir, like a run's."""

from etils import epath

from vit_jax import versions
from vit_jax.checkpoint import resume
from vit_jax.checkpoint.store import CheckpointStore
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.pretrained import run_files
from vit_jax.pretrained.inference import Inference


def write(path: epath.PathLike, source: Inference) -> None:
  """Writes config.json, classes.json and one checkpoint.

  The workdir can be used for evaluation, prediction and fine-tuning like a
  run's. It has no optimizer state, so no run can be resumed in it.

  Args:
    path: Directory, created if it does not exist.
    source: Checkpoint to write; without a step, step 0 is used.

  Raises:
    UserError: The directory cannot be written.
  """
  weights, step = source.weights, source.step or 0
  evaluation: schema.Eval = schema.ClassificationEval(
    type="classification", preprocess=weights.preprocess
  )
  loss = weights.activation
  if weights.predicts_numbers:
    loss = "mse"
    evaluation = schema.RegressionEval(
      type="regression", preprocess=weights.preprocess
    )
  config = schema.Config(
    extensions=source.extensions,
    model=weights.model,
    total_steps=max(step, 1),
    objective=schema.Supervised(loss=loss),
    evals={"test": evaluation},
  )
  try:
    path = epath.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    run_files.write_config(path, config)
    run_files.write_class_names(path, weights.class_names)
  except OSError as error:
    raise UserError(
      f"{path} cannot be written ({error.strerror or error})."
    ) from None
  metadata = resume.metadata(
    config, fingerprint="", versions=versions.installed()
  )
  store = CheckpointStore(path)
  try:
    store.save(step, {"params": weights.params, "ema_params": None}, metadata)
  finally:
    store.close()
