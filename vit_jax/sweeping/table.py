"""The results of a sweep: sweep.json for programs, sweep.md for people."""

from typing import Any

from etils import epath

from vit_jax import records, text_tables
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.sweeping import plan, runner

_HEADER = ("learning rate", "dev top-1", "chosen", "test top-1")


class Table:
  """Collects the results of runs; the files are written after each.

  Args:
    config: Experiment that is swept.
    workdir: Directory of all runs.
  """

  def __init__(self, config: schema.Config, workdir: str):
    self._directory = epath.Path(workdir)
    train_split, dev_split = plan.splits(config)
    self._test = plan.evaluator(config)
    self._rows: list[dict[str, Any]] = []
    self._values: dict[str, Any] = {
      "status": "running",
      "dataset": config.train.dataset,
      "train_split": train_split,
      "dev_split": dev_split,
      "final_split": config.train.split,
      "test_evaluator": self._test,
      "chosen": None,
      "test_top1": None,
    }

  def add(self, rate: float, run: plan.Run) -> None:
    """Adds the result of a rate on the dev split."""
    metrics = runner.summary(run)["metrics"]
    self._rows.append(
      {
        "learning_rate": rate,
        "status": runner.status(run),
        "dev_top1": metrics.get(f"eval/{run.evaluator}/top1"),
        "dev_loss": metrics.get(f"eval/{run.evaluator}/loss"),
        "chosen": False,
        "workdir": run.workdir.name,
      }
    )
    self._write()

  def best(self) -> float:
    """The rate with the best top-1 on dev; of equals, that of lower loss.

    Raises:
      UserError: No run finished.
    """
    ended = [row for row in self._rows if row["status"] == "finished"]
    if not ended:
      raise UserError(
        "With every learning rate the loss became infinite or NaN; try lower"
        " ones with --learning_rates, in another --workdir or after removing"
        f" {self._directory}."
      )

    def quality(row: dict[str, Any]) -> tuple[float, float]:
      loss = row["dev_loss"]  # None where it is not finite.
      return row["dev_top1"], -float("inf") if loss is None else -loss

    best = max(ended, key=quality)
    for row in self._rows:
      row["chosen"] = row is best
    self._values["chosen"] = best["learning_rate"]
    self._write()
    return best["learning_rate"]

  def finish(self, run: plan.Run) -> None:
    """Adds the metrics of the run on all of the training data.

    Raises:
      UserError: It did not finish.
    """
    if runner.status(run) != "finished":
      raise UserError(
        f"The run on all of {self._values['final_split']!r} in {run.workdir}"
        " stopped as its loss became infinite or NaN, though the same learning"
        " rate did well without the dev split; leave that rate out of"
        " --learning_rates and remove the directory."
      )
    metrics = runner.summary(run)["metrics"]
    self._values.update(
      status="finished",
      test_top1=metrics.get(f"eval/{self._test}/top1"),
      workdir=run.workdir.name,
      metrics=metrics,
    )
    self._write()

  def text(self) -> str:
    """A Markdown table with aligned columns."""
    table = text_tables.markdown([_HEADER, *map(self._cells, self._rows)])
    values = self._values
    dev = f"dev: {values['dev_split']} of {values['dataset']}"
    test = f"test: evals.{self._test}, after training on"
    return f"{table}\n\n{dev}; {test} {values['final_split']}."

  def _cells(self, row: dict[str, Any]) -> tuple[str, ...]:
    is_chosen = row["chosen"]
    dev = row["dev_top1"] if row["status"] == "finished" else None
    test = self._values["test_top1"] if is_chosen else None
    return (
      f"{row['learning_rate']:g}",
      row["status"] if dev is None else f"{dev:.2%}",
      "yes" if is_chosen else "",
      "" if test is None else f"{test:.2%}",
    )

  def _write(self) -> None:
    records.write_json(
      self._directory / "sweep.json", {**self._values, "runs": self._rows}
    )
    records.write_text(self._directory / "sweep.md", self.text() + "\n")
