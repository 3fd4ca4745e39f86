"""The head of a report: the run and its results in a few numbers."""

import dataclasses
import math
import posixpath
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from vit_jax.report import formatting, measures
from vit_jax.report.run import Run, number, whole

STATUS = {
  "finished": ("✓", "finished"),
  "running": ("…", "under way"),
  "preempted": ("‖", "preempted after saving"),
  "interrupted": ("‖", "interrupted after saving"),
  "diverged": ("✗", "stopped: loss or gradient not finite"),
  "failed": ("✗", "failed"),
}


@dataclasses.dataclass(frozen=True)
class Card:
  """One headline: `value` for display, `exact` as recorded."""

  value: str
  exact: float | None
  name: str
  detail: str


def title(run: Run) -> str:
  """Returns 'ViT-B/16 on imagenet2012', or 'ViT on photos' without a name.

  With two towers, it is 'ViT-B/16 and a text tower on captions'.
  """
  model = _network(run).partition(" ")[0]
  if isinstance(run.setting("model.text"), dict):
    model += " and a text tower"
  dataset = _dataset(run)
  return f"{model} on {dataset}" if dataset else f"{model}: {run.name}"


def status(run: Run) -> tuple[str, str]:
  """Returns (symbol, words) for the state of the run."""
  word = str(run.summary.get("status") or "running")
  return STATUS.get(word, ("•", word))


def sentence(run: Run) -> str:
  """Describes the run in one sentence."""
  parameters = number(run.summary.get("num_params"))
  total = run.total_steps
  text = _network(run)
  if parameters is not None:
    text += f", with {formatting.count(parameters)} parameters"
  text += ", trained for "
  if total and total != run.step:
    text += (
      f"{formatting.count(run.step)} of {formatting.counted(total, 'step')}"
    )
  else:
    text += formatting.counted(run.step, "step")
  if batch := number(run.setting("train.batch_size")):
    text += f" of {formatting.counted(batch, 'image')}"
  if dataset := _dataset(run):
    text += f" from {dataset}"
  if devices := _devices(run):
    text += f" on {devices}"
  if spent := number(_account(run).get("total_seconds")):
    text += f" in {formatting.seconds(spent)}"
  return text + "."


def _account(run: Run) -> Mapping[str, Any]:
  """Returns the times of all starts, or only of the last if unrecorded."""
  return run.section("goodput") or run.section("timings")


def _network(run: Run) -> str:
  """Returns 'ViT-B/16' or 'ViT of width 96, depth 4, ...'."""
  if described := run.summary.get("model"):
    return str(described)
  # An older summary, or none yet.
  family = str(run.setting("model.name", "model"))
  family = "ViT" if family == "vit" else family
  variant = run.setting("model.variant")
  return f"{family}-{variant}" if variant else family


def _dataset(run: Run) -> str | None:
  """Returns the name of the dataset or image folder."""
  dataset, place = run.setting("train.dataset"), run.setting("data_dir")
  if place and str(dataset).partition(":")[0] in ("folder", "captions"):
    return posixpath.basename(str(place).rstrip("/")) or dataset
  return dataset


def cards(run: Run) -> list[Card]:
  """Returns the headline results, most important first."""
  metrics = run.metrics()
  found = []
  for name in evaluator_names(run)[:3]:
    top1 = metrics[f"eval/{name}/top1"]
    num_examples = metrics.get(f"eval/{name}/num_examples")
    detail = ""
    if num_examples and math.isfinite(top1):
      low, high = formatting.interval95(top1, round(num_examples))
      detail = (
        f"{formatting.count(num_examples)} images; 95% interval"
        f" {100 * low:.1f} to {100 * high:.1f}"
      )
    found.append(
      Card(formatting.percent(top1), top1, f"top-1 accuracy, {name}", detail)
    )
  for name in _regressions(run)[:3]:
    rmse, r2, mae = (
      metrics.get(f"eval/{name}/{metric}") for metric in ("rmse", "r2", "mae")
    )
    details = [
      f"R² {formatting.quantity(r2, 3)}",
      f"MAE {formatting.quantity(mae)}",
      f"{formatting.count(metrics.get(f'eval/{name}/num_examples'))} images",
    ]
    found.append(
      Card(formatting.quantity(rmse), rmse, f"RMSE, {name}", "; ".join(details))
    )
  for group in measures.groups(run.evaluators):
    if group.prefix == "eval":
      continue  # Shown above with their intervals.
    table = measures.table(group, metrics)
    if table and (first := measures.headline(table)):
      column, cell, where = first
      unit = "%" if column.unit == "percent" else ""
      found.append(Card(f"{cell.text}{unit}", None, column.panel, where))
  loss = run.series("train/loss")
  if len(loss):
    found.append(
      Card(
        formatting.quantity(float(loss.values[-1])),
        float(loss.values[-1]),
        "training loss",
        _interval(run, loss.steps),
      )
    )
  if card := _throughput(run):
    found.append(card)
  return found + _time(run)


def _interval(run: Run, steps: np.ndarray) -> str:
  """Returns the steps covered by the last line of training metrics."""
  last = int(steps[-1])
  first = int(steps[-2]) + 1 if len(steps) > 1 else last
  text = f"step {formatting.count(last)}"
  if first < last and run.summary.get("lines_are_means"):
    text = (
      f"mean of steps {formatting.count(first)} to {formatting.count(last)}"
    )
  return text + (", of mixed images" if run.mixes_images else "")


def _time(run: Run) -> list[Card]:
  """Returns the total time over all starts, and its useful part."""
  account = _account(run)
  total = number(account.get("total_seconds"))
  if not total:
    return []
  starts = whole(account.get("starts")) or 1
  detail = f"over {starts} starts" if starts > 1 else ""
  cards = [Card(formatting.seconds(total), total, "wall clock", detail)]
  share = number(account.get("goodput"))
  if share is not None:
    detail = "of the time went into steps that counted"
    if lost := number(account.get("lost_seconds")):
      detail += f"; {formatting.seconds(lost)} of work were lost"
    cards.append(Card(formatting.percent(share, 1), share, "goodput", detail))
  return cards


def _throughput(run: Run) -> Card | None:
  speed = run.series("perf/images_per_second").finite
  if not len(speed):
    return None
  median = float(np.median(speed.values))
  details = []
  wait = run.series("perf/data_wait_fraction").finite
  if len(wait):
    details.append(
      f"{formatting.percent(float(np.median(wait.values)), 1)} waiting for data"
    )
  use = run.series("perf/model_flops_utilization").finite
  if len(use):
    details.append(f"MFU {formatting.percent(float(np.median(use.values)), 1)}")
  return Card(
    formatting.count(median)
    if median >= 100
    else formatting.quantity(median, 3),
    median,
    "images/s, median",
    ", ".join(details),
  )


def evaluator_names(run: Run) -> list[str]:
  """Returns evaluators with a top-1 accuracy, in the order of the config."""
  return _with_metric(run, r"eval/(.+)/top1")


def _regressions(run: Run) -> list[str]:
  """Returns evaluators with an RMSE, in the order of the config."""
  return _with_metric(run, r"eval/([^/]+)/rmse")


def _with_metric(run: Run, pattern: str) -> list[str]:
  names = [
    match[1]
    for metric in run.metrics()
    if (match := re.fullmatch(pattern, metric))
  ]
  order = list(run.section("evals"))
  return sorted(
    names, key=lambda n: (order.index(n) if n in order else len(order), n)
  )


def facts(run: Run) -> dict[str, dict[str, str]]:
  """Returns recorded facts about the run by group and name."""
  groups = {
    "Model": _model(run),
    "Data and devices": _data(run),
    "Optimisation": _optimisation(run),
  }
  known = {
    group: {k: str(v) for k, v in found.items() if v is not None and v != ""}
    for group, found in groups.items()
  }
  return {group: found for group, found in known.items() if found}


def _plain(value: Any) -> str | None:
  """Formats a config value: thousands separators, short floats."""
  if value is None:
    return None
  as_number = number(value)
  if as_number is None:
    return str(value)
  return formatting.quantity(as_number, 6)


def _model(run: Run) -> dict[str, Any]:
  sizes = [
    f"{name} {_plain(run.setting(f'model.{key}'))}"
    for key, name in (
      ("width", "width"),
      ("depth", "depth"),
      ("num_heads", "heads"),
      ("mlp_dim", "MLP"),
    )
    if run.setting(f"model.{key}") is not None
  ]
  return {
    "network": _network(run),
    "size": ", ".join(sizes),
    "parameters": _plain(run.summary.get("num_params")),
    "image": _image(run),
    "pooling": run.setting("model.pool"),
    "positions": run.setting("model.pos_embedding"),
    "head": _plain(run.setting("model.representation_size")),
    "compute": run.setting("model.dtype"),
    "started from": run.setting("init_from"),
  }


def _image(run: Run) -> str | None:
  size = number(run.setting("model.image_size"))
  if not size:
    return None
  text = f"{size:g} × {size:g} px"
  # A hybrid's patches, 'R+Ti/16', are those of its stem's maps.
  patch = re.fullmatch(r"[^+]*/(\d+)", str(run.setting("model.variant", "")))
  if patch and int(patch[1]):
    side = int(size) // int(patch[1])
    text += f", {side * side} patches of {patch[1]} px"
  return text


def _data(run: Run) -> dict[str, Any]:
  batch = _plain(run.setting("train.batch_size"))
  accumulate = number(run.setting("train.accumulate_steps")) or 1
  if batch and accumulate > 1:
    batch += f", in {accumulate:g} parts"
  mesh = ", ".join(
    f"{axis} {run.setting(f'mesh.{axis}')}"
    for axis in ("data", "fsdp", "tensor")
    if run.setting(f"mesh.{axis}") not in (None, 1, -1, "auto")
  )
  return {
    "training set": _dataset(run),
    "training images": _plain(run.summary.get("num_examples")),
    "split": run.setting("train.split"),
    "sampling": _sampling(run),
    "directory": run.setting("data_dir"),
    "preprocessing": run.setting("train.preprocess"),
    "batch": batch,
    "devices": _devices(run),
    "machine": _machine(run),
    "mesh": mesh,
    "date": str(run.summary.get("written") or "").replace("T", " ").rstrip("Z"),
  }


def _optimisation(run: Run) -> dict[str, Any]:
  return {
    **_objective(run),
    "optimizer": run.setting("optimizer.name"),
    "learning rate": _schedule(run),
    "weight decay": _plain(run.setting("optimizer.weight_decay")),
    "layer decay": _plain(run.setting("optimizer.layer_decay")),
    "frozen": run.setting("optimizer.freeze"),
    "gradient clip": _plain(run.setting("optimizer.grad_clip_norm")),
    "steps": _plain(run.total_steps),
    "epochs": _epochs(run),
    "computed": _computed(run),
    "estimated cost": _cost(run),
    "dropout": _plain(number(run.setting("model.dropout_rate")) or None),
    "stochastic depth": _plain(
      number(run.setting("model.stochastic_depth_rate")) or None
    ),
    "average": _plain(run.setting("ema_decay")),
    "seed": run.setting("seed"),
  }


def _machine(run: Run) -> str | None:
  """Returns 'AMD EPYC, 2 cores, 23.4 GiB'."""
  found = run.section("hardware")
  parts = [str(found["processor"])] if found.get("processor") else []
  if cores := whole(found.get("cores")):
    parts.append(formatting.counted(cores, "core"))
  if memory := number(found.get("memory_bytes")):
    parts.append(f"{formatting.quantity(memory / 2**30, 3)} GiB")
  return ", ".join(parts) or None


def _sampling(run: Run) -> str | None:
  """Names the sampling of examples, unless each is drawn once per epoch."""
  sampling = run.setting("train.sampling")
  return sampling if sampling == "balanced" else None


def _epochs(run: Run) -> str | None:
  """Returns the number of passes over the training images."""
  images, seen = number(run.summary.get("num_examples")), _images_seen(run)
  if images and seen is not None:
    return formatting.quantity(seen / images, 3)
  return _plain(run.setting("total_epochs"))


def _computed(run: Run) -> str | None:
  """Returns '1.2 PFLOPs': of all updates, including undone ones."""
  of_step = number(run.summary.get("flops_per_step"))
  if not of_step:
    return None
  batch, seen = number(run.setting("train.batch_size")), _images_seen(run)
  steps = run.step if seen is None or not batch else seen / batch
  return formatting.flops(steps * of_step)


def _images_seen(run: Run) -> float | None:
  """Counts the images of all batches, including those of undone updates."""
  batch = number(run.setting("train.batch_size"))
  if batch is None:
    return None
  seen = number(run.summary.get("images_seen"))
  counted = number(run.summary.get("step"))
  if seen is None or counted is None:  # An older summary, or none yet.
    return run.step * batch
  return seen + (run.step - counted) * batch


def _cost(run: Run) -> str | None:
  """Returns '12.40, for 6.2 device-hours at 2 each', over all starts."""
  cost = number(run.summary.get("estimated_cost"))
  hours = number(run.section("goodput").get("device_hours"))
  price = number(run.setting("log.price_per_device_hour"))
  if cost is None or hours is None or price is None:
    return None
  text = f"{cost:,.2f}" if cost >= 0.01 else formatting.quantity(cost, 2)
  hours = formatting.quantity(hours, 3)
  return (
    f"{text}, for {hours} device-hours at {formatting.quantity(price)} each"
  )


def _objective(run: Run) -> dict[str, Any]:
  """Returns the objective's description, as the run recorded it."""
  described = run.summary.get("objective")
  if isinstance(described, dict):
    return {str(label): text or None for label, text in described.items()}
  # An older summary, or none yet.
  return {"objective": run.setting("objective.name")}


def _schedule(run: Run) -> str | None:
  rate = number(run.setting("schedule.base_lr"))
  if rate is None:
    return None
  text = formatting.quantity(rate)
  warmup = run.setting("schedule.warmup_steps")
  if warmup:
    words = _duration(warmup)
    is_share = words.endswith(" of the run")
    text += (
      f" after a warmup of {words}" if is_share else f" after {words} of warmup"
    )
  decay = run.setting("schedule.decay")
  if decay:
    end = formatting.quantity(number(run.setting("schedule.end_lr")) or 0.0)
    towards = f" to {end}" if decay in ("linear", "cosine") else ""
    text += f", {decay}{towards}"
    counts = warmup and decay in ("linear", "cosine", "rsqrt")
    if counts and run.setting("schedule.warmup_prefix") is False:
      text += " counted from step 0"
  cooldown = run.setting("schedule.cooldown_steps")
  if cooldown:
    text += f", falling to 0 in the last {_duration(cooldown)}"
  return text


def _duration(value: Any) -> str:
  """Words for the value of a key that holds steps, epochs or a share."""
  steps = number(value)
  if steps is not None:
    return formatting.counted(steps, "step")
  return f"{value} of the run" if str(value).endswith("%") else str(value)


def _devices(run: Run) -> str | None:
  devices = run.summary.get("devices")
  return str(devices).replace(" x ", "\u00a0×\u00a0") if devices else None
