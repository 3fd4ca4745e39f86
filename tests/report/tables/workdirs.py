"""Workdirs of the shipped configs, as finished runs leave them."""

import functools
import json
import pathlib

from vit_jax.config import experiment_file, resolve
from vit_jax.paper import results
from vit_jax.report.tables import measuring, runs

ROOT = pathlib.Path(__file__).parents[3]


@functools.cache
def load(config):
  path, _, arguments = config.partition(":")
  return resolve.resolve(
    experiment_file.load(str(ROOT / path), arguments or None)
  )


def write(workdir, config, metrics=None, *, status="finished", **changes):
  """A run of a shipped config, with other values at dotted keys."""
  value = json.loads(resolve.dump(load(config)))
  for key, change in changes.items():
    *parts, last = key.split("__")
    functools.reduce(dict.__getitem__, parts, value)[last] = change
  workdir.mkdir(parents=True)
  (workdir / "config.json").write_text(json.dumps(value))
  steps = value["total_steps"] or 1000
  line = {"step": steps, "train/loss": 0.5} | (metrics or {})
  (workdir / "metrics.jsonl").write_text(json.dumps(line) + "\n")
  if status:
    summary = {"step": steps, "total_steps": steps, "status": status}
    (workdir / "summary.json").write_text(json.dumps(summary))
  return workdir


def pretrain(
  workdir, config="configs/pretrain.py:model=B/16,data=i21k", **more
):
  return write(workdir, config, **more)


def finetune(
  workdir, start, top1, *, dataset="cifar10", model="B/16", **changes
):
  """A fine-tuning that measured `top1`, a fraction, on all of its test set."""
  count = {"cifar10": 10_000, "oxford_iiit_pet": 3669}.get(dataset, 50_000)
  metrics = {"eval/test/top1": top1, "eval/test/num_examples": count}
  return write(
    workdir,
    f"configs/finetune.py:dataset={dataset},model={model}",
    metrics | changes.pop("metrics", {}),
    init_from=str(start),
    **changes,
  )


def measure(directory, number=5, pretrained=None):
  """(row's name, pre-training, column) -> measurement, and the remarks."""
  table = results.TABLES[number]
  found, unread = runs.find(directory, pretrained or {})
  measured = measuring.measure(table, found, unread)
  cells = {
    (table.rows[index].name, table.rows[index].data, column): one
    for (index, column), one in measured.cells.items()
  }
  return cells, list(measured.remarks)
