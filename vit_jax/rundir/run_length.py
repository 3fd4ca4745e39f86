"""Check that an unfinished run is not shortened below its progress."""

from etils import epath

from vit_jax import records
from vit_jax.errors import UserError
from vit_jax.processes import agreement


def check(workdir: epath.Path, step: int, total_steps: int) -> None:
  """Checks that a run does not exceed its length; all processes call it.

  A run that ended there and was evaluated may be restarted with any length,
  because nothing is left to do; its records keep the length it was trained for.

  Args:
    workdir: Directory of the run.
    step: Number of updates of its latest checkpoint.
    total_steps: New length of the run.

  Raises:
    UserError: The run exceeds it; raised on all processes.
  """
  if step <= total_steps:
    return
  summary = records.read_json(workdir / "summary.json")
  ended = summary.get("status") == "finished" and summary.get("step") == step
  if agreement.gather("ended" * ended)[0]:
    return
  raise UserError(
    f"The run in {workdir} is at step {step:,} already, and its length would be"
    f" {total_steps:,} steps (config.total_steps, total_epochs or max_epochs)."
    f" Give it a length of {step:,} steps or more, or begin another with a new"
    " --workdir; python -m vit_jax.evaluate measures the network as it is."
  )
