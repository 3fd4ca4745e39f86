"""Writes a run's report: one HTML file that loads nothing from the network."""

import json
from typing import Any

from etils import epath

from vit_jax import printable, records
from vit_jax.report import (
  gallery,
  load,
  measures,
  overview,
  pages,
  panels,
  reconstructions,
  regressions,
  retrievals,
)
from vit_jax.report.figures import fewshot, svg
from vit_jax.report.run import Run, number, whole


def write_report(workdir: epath.PathLike) -> str:
  """Writes the report of a workdir into the workdir.

  Args:
    workdir: Workdir of a training run at any stage.

  Returns:
    The path of `report/index.html`.

  Raises:
    UserError: There is no run in `workdir`.
  """
  page = render(load.load_run(workdir))
  path = epath.Path(workdir) / "report" / "index.html"
  path.parent.mkdir(parents=True, exist_ok=True)
  with records.replacing(path) as partial:
    partial.write_bytes(printable.in_utf8(page).encode())
  return str(path)


def render(run: Run) -> str:
  """Renders the page of a run."""
  symbol, words = overview.status(run)
  return (
    pages.environment()
    .get_template("report.html")
    .render(
      run=run,
      title=overview.title(run),
      symbol=symbol,
      status=words,
      sentence=overview.sentence(run),
      cards=overview.cards(run),
      facts=overview.facts(run),
      panels=panels.panels(run),
      measured=_measured(run),
      retrieved=[retrievals.section(r) for r in run.retrievals],
      reconstructed=[reconstructions.section(r) for r in run.reconstructions],
      regressions=[regressions.section(r) for r in run.regressions],
      galleries=[gallery.gallery(e) for e in run.evaluations],
      timings=_timings(run),
      starts=whole(run.section("goodput").get("starts")) or 1,
      versions=_versions(run),
      metrics=run.metrics(),
      config=json.dumps(run.config, indent=2) if run.config else None,
      command=_command(run),
      changed=_changed(run),
    )
  )


def _command(run: Run) -> str | None:
  """Returns the recorded command, one flag per line unless quoting forbids."""
  command = run.summary.get("command")
  if not isinstance(command, str):
    return None
  if any(c in command for c in "'\"\\\n"):
    return command
  return command.replace(" --", " \\\n  --")


def _changed(run: Run) -> list[tuple[str, list[str]]]:
  """Returns the changed keys that steps were 'trained' and 'evaluated' with."""
  evaluated = [key for key in run.changed_keys if key.startswith("evals.")]
  trained = [key for key in run.changed_keys if key not in evaluated]
  both = ("trained", trained), ("evaluated", evaluated)
  return [(how, keys) for how, keys in both if keys]


def _measured(run: Run) -> list[tuple[measures.Table, svg.Markup | None]]:
  """Returns the evaluators' tables, each with its figure over counts if any."""
  found = []
  for group in measures.groups(run.evaluators):
    if table := measures.table(group, run.metrics()):
      title = group.title.removesuffix(", %")
      figure = fewshot.draw(table.rows, title=title, counts=group.counts)
      found.append((table, figure))
  return found


def _timings(run: Run) -> list[dict[str, Any]]:
  """Returns the parts of the time with their fractions, then the total.

  They cover all starts of the run, if these were recorded.
  """
  account = run.section("goodput") or run.section("timings")
  timings = {
    name.removesuffix("_seconds"): value
    for name, raw in account.items()
    if name.endswith("_seconds") and (value := number(raw)) is not None
  }
  total = timings.pop("total", None)
  rows = [
    {"name": name, "seconds": value, "share": value / total if total else None}
    for name, value in timings.items()
  ]
  if total is not None:
    rows.append({"name": "total", "seconds": total, "share": 1.0})
  return rows


def _versions(run: Run) -> list[tuple[str, str]]:
  return [
    (str(name), str(value)) for name, value in run.section("versions").items()
  ]
