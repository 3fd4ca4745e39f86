"""The curves of a run, each with its caption."""

import dataclasses
import math
from collections.abc import Sequence

from vit_jax.report import formatting, measures, smoothing
from vit_jax.report.figures import curves, svg
from vit_jax.report.figures.curves import Line, Scale
from vit_jax.report.run import Run

# Numbers of single objectives, such as the health of self-distillation: title,
# unit, line name -> metric, and scale.
_OF_OBJECTIVES = (
  ("Scale of the cosines", "factor", {"": "train/scale"}, Scale()),
  ("Bias", "added to scaled cosines", {"": "train/bias"}, Scale()),
  (
    "Teacher",
    "nats",
    {
      "entropy": "train/teacher_entropy",
      "KL to student": "train/kl_to_student",
      "entropy, patches": "train/patch_teacher_entropy",
      "KL to student, patches": "train/patch_kl_to_student",
    },
    Scale("auto"),
  ),
  (
    "Rank of features",
    "directions",
    {"": "train/feature_rank"},
    Scale(from_zero=True),
  ),
  (
    "Prototypes in use",
    "share",
    {"": "train/prototypes_used", "patches": "train/patch_prototypes_used"},
    Scale(label=formatting.percent_tick, from_zero=True),
  ),
  (
    "Centre",
    "norm",
    {"": "train/center_norm", "patches": "train/patch_center_norm"},
    Scale(from_zero=True),
  ),
  (
    "Largest deviation from equal use",
    "of a prototype's share",
    {
      "": "train/marginal_deviation",
      "patches": "train/patch_marginal_deviation",
    },
    Scale(from_zero=True),
  ),
)


@dataclasses.dataclass(frozen=True)
class Panel:
  """One figure and the text below it."""

  figure: svg.Markup
  title: str
  caption: str


def panels(run: Run) -> list[Panel]:
  """Draws the recorded curves, loss and accuracy first."""
  percent = Scale(label=formatting.percent_tick, top=1.0)
  share = Scale(label=formatting.percent_tick, from_zero=True)
  train = "train, mixed images" if run.mixes_images else "train"
  lines = {
    "Loss": [Line(train, run.series("train/loss"), smooth=True)],
    "Accuracy": [
      Line(train, run.series("train/top1"), smooth=True),
      Line("prediction", run.series("train/accuracy"), smooth=True),
    ],
  }
  in_percent, notes = {"Accuracy"}, {}
  for group in measures.groups(run.evaluators):
    note = _changed(run, group)
    for name, (row, column) in _drawn(run, group).items():
      notes[column.panel] = note
      lines.setdefault(column.panel, []).append(Line(row, run.series(name)))
      if column.unit == "percent":
        in_percent.add(column.panel)
  drawn = []
  for title, found in lines.items():
    scale = percent if title in in_percent else Scale("auto")
    note = notes.get(title, "")
    drawn.append(_panel(run, title, _unit(title), found, scale, note))
  for title, unit, named, scale in _OF_OBJECTIVES:
    found = [
      Line(name, run.series(metric), smooth=True)
      for name, metric in named.items()
    ]
    drawn.append(_panel(run, title, unit, found, scale))
  drawn.append(_learning_rate(run))
  for title, unit, metric, scale in (
    ("Gradient norm", "global norm", "train/grad_norm", Scale("auto")),
    (
      "Throughput",
      "images per second",
      "perf/images_per_second",
      Scale(from_zero=True),
    ),
    (
      "Waiting for data",
      "share of the time",
      "perf/data_wait_fraction",
      share,
    ),
    (
      "Model FLOPs utilisation",
      "share of the peak",
      "perf/model_flops_utilization",
      share,
    ),
  ):
    line = Line("", run.series(metric), smooth=True)
    drawn.append(_panel(run, title, unit, [line], scale))
  return [panel for panel in drawn if panel is not None]


def _changed(run: Run, group: measures.Group) -> str:
  """A sentence on keys of a group's evaluators that starts have changed."""
  names = [
    name
    for name, entry in run.evaluators.items()
    if isinstance(entry, dict) and entry.get("prefix") == group.prefix
  ]
  keys = [
    key
    for key in run.changed_keys
    if any(key.startswith(f"evals.{name}.") for name in names)
  ]
  if not keys:
    return ""
  return f" Earlier points were measured with other {', '.join(keys)}."


def _unit(title: str) -> str:
  """Names a panel's y axis: 'accuracy', 'mean IoU of ...', 'R²'."""
  if title.lower().endswith("accuracy"):
    return "accuracy"
  return title[0].lower() + title[1:] if title[1:2].islower() else title


def _learning_rate(run: Run) -> Panel | None:
  """Draws the rate on a log scale if it falls in steps, else a linear one."""
  series = run.series("train/learning_rate")
  values = series.finite.values
  unit, scale = "learning rate", Scale("log")
  if run.setting("schedule.decay") != "steps":
    peak = float(values.max()) if len(values) else 1.0
    power = math.floor(math.log10(peak)) if peak > 0 else 0
    if power < -1:
      unit += f", ×10{str(power).translate(formatting.SUPERSCRIPT)}"
    else:
      power = 0
    scale = Scale(
      label=lambda value: formatting.tick(value / 10.0**power),
      from_zero=True,
    )
  panel = _panel(run, "Learning rate", unit, [Line("", series)], scale)
  if panel is None:
    return None
  caption = f"Highest recorded: {formatting.quantity(float(values.max()))}."
  return dataclasses.replace(panel, caption=f"{caption} {panel.caption}")


def _drawn(
  run: Run, group: measures.Group
) -> dict[str, tuple[str, measures.Column]]:
  """Selects metrics with a curve; of those with counts, only the headline.

  Counts draw a curve only if evaluated more than once.
  """
  metrics = run.metrics()
  table = measures.table(group, metrics)
  first = table and measures.headline(table)
  return {
    name: (row, column)
    for name, (row, column) in group.found(metrics).items()
    if column.panel
    and (
      column.count is None
      or (column == first[0] and len(run.series(name).finite) > 1)
    )
  }


def _span(run: Run) -> tuple[float, float]:
  """Returns the span of every x axis, up to the planned end if running."""
  first = min(record["step"] for record in run.records)
  last = max(run.step, run.total_steps or 0)
  return (0.0 if first < 0.5 * last else float(first), float(last))


def _panel(
  run: Run,
  title: str,
  unit: str,
  lines: Sequence[Line],
  scale: Scale,
  note: str = "",
) -> Panel | None:
  lines = [line for line in lines if len(line.series.finite)]
  if not lines:
    return None
  is_percent = scale.label is formatting.percent_tick
  write = formatting.percent if is_percent else formatting.quantity
  values = []
  for line in lines:
    finite = line.series.finite
    text = f"{line.name} {write(finite.values[-1])}".strip()
    if lost := len(line.series) - len(finite):
      text += f" ({lost} not finite, crossed)"
    values.append(text)
  caption = f"Last recorded: {'; '.join(values)}."
  windows = {
    line.name: smoothing.window_length(len(line.series))
    for line in lines
    if line.smooth
  }
  for name, window in windows.items():
    if window > 1:
      which = f" of {name}" if len(lines) > 1 else ""
      caption += f" Strong line{which}: centred mean of {window} records."
  caption += note
  first = lines[0].series.finite
  label = (
    f"{title} over training, from {write(first.values[0])} at step"
    f" {first.steps[0]:,}. {caption}"
  )
  span = _span(run)
  figure = curves.draw(lines, unit=unit, label=label, scale=scale, span=span)
  return Panel(figure, title, caption) if figure is not None else None
