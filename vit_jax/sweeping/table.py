"""The results of a sweep: sweep.json for programs, sweep.md for people."""

from typing import Any

from etils import epath

from vit_jax import records, text_tables
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.sweeping import plan, runner

_TITLES = {"top1": "top-1", "rmse": "RMSE"}


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
    self._metric = plan.metric(config)
    self._rows: list[dict[str, Any]] = []
    self._earlier: list[dict[str, Any]] = []
    for rate, run in plan.earlier(config, workdir):
      if runner.status(run) == "finished" and runner.has_ended(run):
        self._earlier.append(self._row(rate, run))
    self._values: dict[str, Any] = {
      "status": "running",
      "dataset": config.train.dataset,
      "train_split": train_split,
      "dev_split": dev_split,
      "final_split": config.train.split,
      "test_evaluator": self._test,
      "chosen": None,
      f"test_{self._metric}": None,
    }

  def add(self, rate: float, run: plan.Run) -> None:
    """Adds the result of a rate on the dev split."""
    self._rows.append({**self._row(rate, run), "chosen": False})
    self._write()

  def _row(self, rate: float, run: plan.Run) -> dict[str, Any]:
    metrics = runner.summary(run)["metrics"]
    return {
      "learning_rate": rate,
      "status": runner.status(run),
      **{
        f"dev_{name}": metrics.get(f"eval/{run.evaluator}/{name}")
        for name in (self._metric, "loss" if self._metric == "top1" else "r2")
      },
      "workdir": run.workdir.name,
    }

  def best(self) -> float:
    """The rate with the best top-1 on dev; of equals, that of lower loss.

    Of numbers it is the one with the least root mean squared error.

    Raises:
      UserError: No run finished.
    """
    ended = [row for row in self._rows if row["status"] == "finished"]
    if not ended:
      raise UserError(
        "With every learning rate the loss became infinite or NaN; try lower"
        " ones with --learning_rates."
      )

    def quality(row: dict[str, Any]) -> tuple[float, float]:
      if self._metric == "rmse":
        error = row["dev_rmse"]  # None where it is not finite.
        return -float("inf") if error is None else -error, 0.0
      loss = row["dev_loss"]
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
        " --learning_rates."
      )
    metrics = runner.summary(run)["metrics"]
    self._values |= {
      "status": "finished",
      f"test_{self._metric}": metrics.get(f"eval/{self._test}/{self._metric}"),
      "workdir": run.workdir.name,
      "metrics": metrics,
    }
    self._write()

  def text(self) -> str:
    """A Markdown table with aligned columns."""
    title = _TITLES[self._metric]
    header = ("learning rate", f"dev {title}", "chosen", f"test {title}")
    table = text_tables.markdown([header, *map(self._cells, self._rows)])
    values = self._values
    dev = f"dev: {values['dev_split']} of {values['dataset']}"
    test = f"test: evals.{self._test}, after training on"
    text = f"{table}\n\n{dev}; {test} {values['final_split']}"
    if "workdir" in values:
      text += f" in {values['workdir']}"
    text += f".{self._at_an_end()}"
    if self._earlier:
      rates = ", ".join(map(self._measured, self._earlier))
      text += f"\nMeasured here before and not compared now: {rates}."
    return text

  def _at_an_end(self) -> str:
    """A line that says that rates beyond those tried may be better."""
    chosen = self._values["chosen"]
    rates = [row["learning_rate"] for row in (*self._rows, *self._earlier)]
    if chosen is None or len(self._rows) < 2:
      return ""
    if chosen == max(rates):
      end, beyond = "highest", "higher"
    elif chosen == min(rates):
      end, beyond = "lowest", "lower"
    else:
      return ""
    told = f"The chosen rate is the {end} tried; a {beyond} one may do better."
    return f"\n{told}"

  def _cells(self, row: dict[str, Any]) -> tuple[str, ...]:
    is_chosen = row["chosen"]
    finished = row["status"] == "finished"
    dev = row[f"dev_{self._metric}"] if finished else None
    test = self._values[f"test_{self._metric}"] if is_chosen else None
    return (
      f"{row['learning_rate']:g}",
      row["status"] if dev is None else self._shown(dev),
      "yes" if is_chosen else "",
      "" if test is None else self._shown(test),
    )

  def _measured(self, row: dict[str, Any]) -> str:
    dev = row[f"dev_{self._metric}"]
    value = "not finite" if dev is None else self._shown(dev)
    return f"{row['learning_rate']:g} ({value})"

  def _shown(self, value: float) -> str:
    return format(value, ".2%" if self._metric == "top1" else ".4g")

  def _write(self) -> None:
    records.write_json(
      self._directory / "sweep.json",
      {**self._values, "runs": self._rows, "earlier_runs": self._earlier},
    )
    records.write_text(self._directory / "sweep.md", self.text() + "\n")
