"""Workdirs as a run would leave them, without the run."""

from tests import experiments
from vit_jax.checkpoint.store import CheckpointStore
from vit_jax.config import resolve


def write(workdir, model, params_of_step):
  """Saves parameters of each step, and config.json with this `model`."""
  workdir.mkdir(exist_ok=True)
  store = CheckpointStore(workdir, keep_last=5)
  for step, params in params_of_step.items():
    store.save(step, {"params": params, "ema_params": None}, {})
  store.close()
  config = experiments.config().model_copy(update={"model": model})
  (workdir / "config.json").write_text(resolve.dump(config))
