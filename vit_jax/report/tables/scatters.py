"""Figures 3, 4 and 5 of the paper: accuracy against data and against cost."""

from collections.abc import Callable, Sequence

from vit_jax.config import named_sections, names, schema
from vit_jax.paper import results
from vit_jax.paper.table import Row
from vit_jax.report.figures import scatter
from vit_jax.report.figures.svg import Figure
from vit_jax.report.tables import costs, data_size
from vit_jax.report.tables.measuring import Measured, Measurement
from vit_jax.report.tables.runs import Found, differing

FEWSHOT = "fewshot/imagenet/5shot"
_KEY = "Hollow: the paper's numbers; full: runs."


def against_cost(measured: Measured) -> list[Figure]:
  """Draws figure 5: Table 6 over our computed exaFLOPs; two plots."""
  table = results.TABLE_6
  figures = []
  for title, columns in (
    ("Mean of ImageNet, CIFAR-10, CIFAR-100, Pets and Flowers", None),
    ("ImageNet", ("imagenet",)),
  ):
    columns = columns or results.AVERAGED
    clouds = {name: ([], []) for name in ("Transformer", "ResNet", "Hybrid")}
    for index, row in enumerate(table.rows):
      printed, ours = clouds[_family(row)]
      cost = costs.computed(table, row)["exaflops"]
      described = f"{row.name}, {row.epochs:g} epochs"
      value = sum(row.cells[k].value for k in columns) / len(columns)
      printed.append(_point(cost, value, f"{described}, the paper's"))
      cells = [measured.cells.get((index, key)) for key in columns]
      if None not in cells:
        value = sum(cell.mean for cell in cells) / len(cells)
        std = cells[0].std if len(cells) == 1 else None
        ours.append(_point(cost, value, f"{described}, ours", std))
    drawn = scatter.draw(
      [scatter.Cloud(k, tuple(p), tuple(o)) for k, (p, o) in clouds.items()],
      unit="top-1",
      x_label="exaFLOPs of pre-training",
      label=f"{title}: accuracy against the cost of pre-training on JFT-300M.",
    )
    figures.append(
      Figure(
        drawn,
        f"{title}: accuracy of Table 6's networks against the cost of their"
        f" pre-training, as Figure 5 of the paper has it. {_KEY}",
      )
    )
  return figures


def against_pretraining(measured: Measured) -> list[Figure]:
  """Draws figure 3: Table 5's ImageNet column over pre-training images."""
  table = results.TABLE_5
  clouds: dict[str, tuple[list, list]] = {}
  for index, row in enumerate(table.rows):
    printed, ours = clouds.setdefault(row.name, ([], []))
    images = costs.num_images(row.data)
    described = f"{row.name}, {results.PRETRAINING[row.data]}"
    value = row.cells["imagenet"].value
    printed.append(_point(images, value, f"{described}, the paper's"))
    cell = measured.cells.get((index, "imagenet"))
    if cell is not None:
      title = f"{described}, ours"
      ours.append(_point(images, cell.mean, title, cell.std))
  drawn = scatter.draw(
    [
      scatter.Cloud(name, tuple(printed), tuple(ours), is_joined=True)
      for name, (printed, ours) in clouds.items()
    ],
    unit="ImageNet top-1",
    x_label="images of pre-training",
    label="ImageNet accuracy against images of pre-training.",
  )
  return [
    Figure(
      drawn,
      "ImageNet accuracy after pre-training on ImageNet, ImageNet-21k and"
      " JFT-300M, after Figure 3 of the paper; the numbers are those of Table"
      f" 5. {_KEY}",
    )
  ]


def against_examples(
  runs: Sequence[Found], metric: str = FEWSHOT
) -> tuple[list[Figure], list[str]]:
  """Draws figure 4: a metric of runs from scratch over their images.

  The largest value of a run counts, as if it had stopped there (section 4.3 of
  the paper).

  Args:
    runs: Runs that were found; only finished supervised ones with the metric
      count.
    metric: Name of a fraction, such as 'eval/test/top1'.

  Returns:
    One figure, or none if no run counts; and sentences about omitted runs.
  """
  remarks, places = [], {}
  for run in runs:
    value, objective = run.largest.get(metric), run.config.objective.name
    if run.start is not None or value is None:
      continue
    images = data_size.count(run.config.train.dataset, run.config.train.split)
    if run.unfinished:
      remarks.append(f"{run.name} is left out: it {run.unfinished}.")
    elif objective != "supervised":
      remarks.append(f"{run.name} is left out: it is trained by {objective}.")
    elif images is None:
      remarks.append(
        f"{run.name} is left out: the number of images in"
        f" {run.config.train.split!r} of {run.config.train.dataset} is not"
        " known; write the split with numbers, as in 'train[:9000000]'."
      )
    else:
      place = (_network(run.config.model), run.config.train.dataset, images)
      places.setdefault(place, []).append((run, value))
  datasets = {dataset for _, dataset, _ in places}
  clouds: dict[str, list[scatter.Point]] = {}
  for (network, dataset, images), found in sorted(places.items()):
    name = network if len(datasets) == 1 else f"{network}, {dataset}"
    clouds.setdefault(name, []).extend(_seeds(name, images, found))
  drawn = scatter.draw(
    [
      scatter.Cloud(name, measured=tuple(points), is_joined=_is_line(points))
      for name, points in clouds.items()
    ],
    unit=metric,
    x_label="images trained on",
    label=f"{metric} against images trained on.",
  )
  if drawn is None:
    return [], remarks
  caption = (
    f"{metric}, the best of each run, of networks trained from nothing against"
    " the images they were trained on, after Figure 4 of the paper, whose"
    " numbers are not printed. Bars: standard deviation over seeds."
  )
  return [Figure(drawn, caption)], remarks


def _network(model: schema.Model) -> str:
  """Returns 'ViT-B/16 at 224 pixels' and anything unusual."""
  usual = named_sections.default_section("model")
  parts = [names.describe(model)]
  for key in ("pool", "pos_embedding", "pos_embedding_at"):
    value, default = getattr(model, key, None), getattr(usual, key)
    parts += [f"{key} {value}"] * (value not in (None, default))
  return ", ".join(parts)


def _is_line(points: Sequence[scatter.Point]) -> bool:
  """Tells if no two points share an x."""
  return len({point.x for point in points}) == len(points)


def _seeds(
  name: str, images: int, found: Sequence[tuple[Found, float]]
) -> list[scatter.Point]:
  """Returns one point for runs that differ only in seed, else one each."""
  groups = [found]
  if differing([run.config for run, _ in found]):
    groups = [[one] for one in found]
  points = []
  for group in groups:
    one = Measurement(
      tuple(value for _, value in group), tuple(run.name for run, _ in group)
    )
    title = f"{name}, {images:,} images: {', '.join(one.runs)}"
    points.append(scatter.Point(images, one.mean, title, one.std))
  return points


def _point(
  x: int | float, percent: float, title: str, std: float | None = None
) -> scatter.Point:
  text = f"{title}: {percent:.2f}%"
  return scatter.Point(
    x, percent / 100, text, None if std is None else std / 100
  )


def _family(row: Row) -> str:
  if "+" in row.name:
    return "Hybrid"
  return "Transformer" if row.name.startswith("ViT") else "ResNet"


# Figure -> the table it draws, and the function that draws it.
OF_TABLES: dict[int, tuple[int, Callable[[Measured], list[Figure]]]] = {
  3: (5, against_pretraining),
  5: (6, against_cost),
}
