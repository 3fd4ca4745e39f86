"""The score of VTAB: vtab.json for programs, vtab.md for people."""

from typing import Any

from etils import epath

from vit_jax import records, text_tables
from vit_jax.paper import vtab
from vit_jax.sweeping import runner
from vit_jax.sweeping.plan import Run

_HEADER = ("task", "group", "top-1", "examples")
# Status of a task without a run; otherwise it is that of the run.
NOT_RUN, ABSENT, FAILED = "not run", "absent", "failed"


class VtabTable:
  """Collects the results of tasks; the files are written after each.

  Args:
    workdir: Directory of all runs.
  """

  def __init__(self, workdir: str):
    self._directory = epath.Path(workdir)
    self._rows = {
      task: {
        "task": task,
        "group": vtab.TASKS[task].group,
        "status": NOT_RUN,
        "dataset": vtab.TASKS[task].dataset,
        "split": None,
        "top1": None,
        "num_examples": None,
      }
      for task in vtab.TASKS
    }

  def set(self, task: str, status: str) -> None:
    """Marks a task as absent or failed."""
    self._rows[task]["status"] = status

  def add(self, task: str, run: Run) -> None:
    """Adds the result of the run of a task."""
    summary = runner.summary(run)
    row = self._rows[task]
    row["status"] = summary["status"]
    if row["status"] == "finished":
      prefix = f"eval/{run.evaluator}"
      row["top1"] = summary["metrics"].get(f"{prefix}/top1")
      row["num_examples"] = summary["metrics"].get(f"{prefix}/num_examples")
      row["split"] = run.config.evals[run.evaluator].split

  def tasks(self, status: str) -> list[str]:
    """The tasks of a status, in the order of the paper's Table 9."""
    return [task for task, r in self._rows.items() if r["status"] == status]

  def write(self) -> None:
    """Writes both files."""
    value = {
      name: {"top1": mean.value, "over": mean.over, "of": mean.of}
      for name, mean in self._means().items()
    }
    value["tasks"] = list(self._rows.values())
    records.write_json(self._directory / "vtab.json", value)
    records.write_text(self._directory / "vtab.md", self.text() + "\n")

  def text(self) -> str:
    """A Markdown table with aligned columns: the tasks, then the means."""
    rows = [_HEADER, *(self._cells(row) for row in self._rows.values())]
    for name, mean in self._means().items():
      title = f"{vtab.GROUPS[name]} mean" if name != "mean" else "Mean"
      over = f"over {mean.over} of {mean.of} tasks"
      rows.append((title, over, _percent(mean.value), ""))
    return text_tables.markdown(rows)

  def _means(self) -> dict[str, vtab.Mean]:
    return vtab.means(
      {t: r["top1"] for t, r in self._rows.items() if r["top1"] is not None}
    )

  def _cells(self, row: dict[str, Any]) -> tuple[str, ...]:
    task = vtab.TASKS[row["task"]]
    count = row["num_examples"]
    return (
      task.title,
      vtab.GROUPS[task.group],
      row["status"] if row["top1"] is None else _percent(row["top1"]),
      "" if count is None else f"{count:.0f}",
    )


def _percent(fraction: float | None) -> str:
  return "" if fraction is None else f"{fraction:.2%}"
