"""A checkpoint of another form as a workdir, as if a run had left it."""

from etils import epath

from vit_jax import records, versions
from vit_jax.checkpoint import resume
from vit_jax.checkpoint.store import CheckpointStore
from vit_jax.config import resolve, schema
from vit_jax.errors import UserError
from vit_jax.pretrained import class_names, run_config
from vit_jax.pretrained.inference import Inference


def write(path: epath.PathLike, source: Inference) -> None:
  """Writes config.json, classes.json and one checkpoint.

  It may be evaluated, predicted with and started from like a run's. There is
  no optimizer in it, so no run goes on in it.

  Args:
    path: created if absent.
    source: what to write; without a step, its step is 0.

  Raises:
    UserError: the directory cannot be written to.
  """
  weights, step = source.weights, source.step or 0
  evaluation = schema.ClassificationEval(
    type="classification", preprocess=weights.preprocess
  )
  config = schema.Config(
    model=weights.model,
    total_steps=max(step, 1),
    objective=schema.Supervised(loss=weights.activation),
    evals={"test": evaluation},
  )
  try:
    path = epath.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    records.write_text(path / run_config.FILE, resolve.dump(config) + "\n")
    class_names.write(path, weights.class_names)
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
