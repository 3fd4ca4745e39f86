"""Workdirs such as a run leaves, made without running one."""

import json
import math
import pathlib
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from vit_jax.config import evaluator_declarations, schema

CONFIG = {
  "seed": 0,
  "total_steps": 1500,
  "total_epochs": None,
  "log_every_steps": 10,
  "data_dir": None,
  "ema_decay": None,
  "model": {
    "name": "vit",
    "variant": "Ti/4",
    "width": 96,
    "depth": 6,
    "num_heads": 3,
    "mlp_dim": 192,
    "num_classes": 10,
    "image_size": 32,
    "pool": "gap",
    "representation_size": None,
    "pos_embedding": "learned_1d",
    "dropout_rate": 0.0,
    "dtype": "float32",
  },
  "train": {
    "dataset": "digits",
    "split": "train",
    "batch_size": 64,
    "preprocess": "decode|resize(36)|random_crop(32)",
    "accumulate_steps": 1,
  },
  "objective": {
    "name": "supervised",
    "loss": "softmax",
    "label_smoothing": 0.1,
    "mixup_alpha": 0.0,
  },
  "optimizer": {"name": "adamw", "weight_decay": 0.05, "grad_clip_norm": 1.0},
  "schedule": {
    "base_lr": 1e-3,
    "warmup_steps": 100,
    "decay": "cosine",
    "end_lr": 0.0,
  },
  "mesh": {"data": -1, "fsdp": 1, "tensor": 1},
  "evals": {
    "test": {"type": "classification", "split": "test"},
    "fewshot": {"type": "fewshot", "num_seeds": 3, "shots": [1, 5, 10, 25]},
  },
}
# What the evaluators of `CONFIG` declare.
EVALUATORS = evaluator_declarations.declarations(
  schema.Config(
    evals={
      "test": schema.ClassificationEval(type="classification"),
      "fewshot": schema.FewshotEval(type="fewshot"),
    }
  )
)


def png(pixels: np.ndarray) -> bytes:
  """An 8-bit PNG of uint8 pixels [h, w] (grey) or [h, w, 3] (RGB)."""
  height, width = pixels.shape[:2]
  colour = 2 if pixels.ndim == 3 else 0

  def chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

  rows = b"".join(b"\0" + row.tobytes() for row in pixels)
  return (
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(rows))
    + chunk(b"IEND", b"")
  )


def learning_records(
  total_steps: int = 1500, every: int = 10, seed: int = 0
) -> list[dict[str, Any]]:
  """Metrics of a run that learns, noisily, with evaluations every 250."""
  rng = np.random.default_rng(seed)
  records = []
  for step in range(every, total_steps + 1, every):
    progress = step / total_steps
    loss = 2.3 * math.exp(-7 * progress) + 0.02
    rate = min(step / 100, 1) * 0.5e-3 * (1 + math.cos(math.pi * progress))
    records.append(
      {
        "step": step,
        "train/loss": loss * float(rng.lognormal(0, 0.35)),
        "train/top1": float(
          rng.binomial(64, 1 - 0.9 * math.exp(-6 * progress) - 0.003) / 64
        ),
        "train/learning_rate": rate,
        "train/grad_norm": float(rng.lognormal(0.4 - 1.5 * progress, 0.3)),
        "perf/images_per_second": float(rng.normal(1850, 60)),
        "perf/data_wait_fraction": float(rng.beta(1.2, 160)),
      }
    )
    if step % 250 == 0:
      top1 = 0.989 - 0.85 * math.exp(-7 * progress)
      evaluation = {
        "step": step,
        "eval/test/top1": top1,
        "eval/test/top5": 0.999 - 0.3 * math.exp(-9 * progress),
        "eval/test/loss": 1.9 * math.exp(-7 * progress) + 0.041,
        "eval/test/num_examples": 450,
      }
      for base, name in ((0.0, "digits"), (-0.13, "letters")):
        for shots, value in ((1, 0.61), (5, 0.84), (10, 0.91), (25, 0.958)):
          mean = (value + base) * (1 - 0.5 * math.exp(-5 * progress))
          key = f"fewshot/{name}/{shots}shot"
          evaluation[key] = mean
          evaluation[f"{key}_std"] = 0.05 / math.sqrt(shots)
      records.append(evaluation)
  return records


def summary(records: list[dict[str, Any]], status: str) -> dict[str, Any]:
  """The summary.json that goes with such records."""
  metrics: dict[str, Any] = {}
  for record in records:
    metrics |= {k: v for k, v in record.items() if k != "step"}
  return {
    "step": max(record["step"] for record in records),
    "total_steps": 1500,
    "status": status,
    "metrics": metrics,
    "timings": {
      "total_seconds": 74.3,
      "start_seconds": 4.1,
      "compile_seconds": 9.8,
      "train_seconds": 51.9,
      "evaluate_seconds": 6.2,
      "save_seconds": 0.84,
    },
    "versions": {"python": "3.11.9", "jax": "0.10.2", "flax": "0.12.8"},
    "num_params": 302890,
    "devices": "2 x cpu",
    "command": (
      "python -m vit_jax.train --config=configs/quickstart.py"
      " --workdir=/tmp/quickstart"
    ),
  }


def write_evaluation(
  directory: pathlib.Path,
  *,
  labels: np.ndarray,
  prediction: np.ndarray,
  probability: np.ndarray,
  classes: list[str] | None,
  num_classes: int,
  images: Callable[[int], np.ndarray],
) -> None:
  """What a classification evaluator leaves behind; labels [n] or [n, l]."""
  (directory / "images").mkdir(parents=True)
  sets = labels if labels.ndim == 2 else labels[:, None]
  correct = (sets == prediction[:, None]).any(axis=1)
  np.savez(
    directory / "predictions.npz",
    example_id=np.arange(len(labels), dtype=np.int64),
    label=labels.astype(np.int32),
    prediction=prediction.astype(np.int32),
    probability=probability.astype(np.float32),
  )
  if labels.ndim == 1 and num_classes <= 256:
    counts = np.zeros((num_classes, num_classes), np.int64)
    np.add.at(counts, (labels, prediction), 1)
    np.savez(directory / "confusion.npz", counts=counts)
  (directory / "classes.json").write_text(json.dumps(classes))
  samples = np.linspace(0, len(labels) - 1, 24).astype(int)
  wrong = np.flatnonzero(~correct)
  mistakes = wrong[np.argsort(-probability[wrong])][:24]
  examples = []
  for kind, ids in (("sample", samples), ("mistake", mistakes)):
    for k in ids.tolist():
      (directory / "images" / f"{k}.png").write_bytes(png(images(k)))
      examples.append(
        {
          "id": k,
          "image": f"images/{k}.png",
          "label": labels[k].tolist(),
          "prediction": int(prediction[k]),
          "probability": float(probability[k]),
          "kind": kind,
        }
      )
  (directory / "examples.json").write_text(json.dumps(examples))


def write_run(
  workdir: pathlib.Path,
  *,
  config: dict[str, Any] | None = CONFIG,
  records: list[dict[str, Any]] | None = None,
  status: str | None = "finished",
  evaluators: dict[str, Any] = EVALUATORS,
) -> pathlib.Path:
  """Writes config, metrics and (unless `status` is None) the summary."""
  workdir.mkdir(parents=True, exist_ok=True)
  if config is not None:
    (workdir / "config.json").write_text(json.dumps(config))
    (workdir / "evaluators.json").write_text(json.dumps(evaluators))
  if records is not None:
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (workdir / "metrics.jsonl").write_text(lines)
    if status is not None:
      (workdir / "summary.json").write_text(
        json.dumps(summary(records, status))
      )
  return workdir


def write_outcomes(
  workdir: pathlib.Path,
  *,
  num_classes: int = 10,
  num_labels: int = 1,
  classes: list[str] | None = None,
  num_examples: int = 450,
  accuracy: float = 0.96,
  name: str = "test",
  step: int = 1500,
  seed: int = 0,
) -> pathlib.Path:
  """An evaluation with random images and mistakes; gives its directory."""
  rng = np.random.default_rng(seed)
  shape = num_examples if num_labels == 1 else (num_examples, num_labels)
  labels = rng.integers(0, num_classes, shape)
  truth = labels if num_labels == 1 else labels[:, 0]
  wrong = rng.random(num_examples) > accuracy
  prediction = np.where(
    wrong, (truth + rng.integers(1, 3, num_examples)) % num_classes, truth
  )
  probability = np.where(
    wrong, rng.uniform(0.3, 0.95, num_examples), rng.beta(20, 1, num_examples)
  )
  directory = workdir / "evaluations" / name / str(step)
  write_evaluation(
    directory,
    labels=labels,
    prediction=prediction,
    probability=probability,
    classes=classes,
    num_classes=num_classes,
    images=lambda k: np.random.default_rng(k).integers(
      0, 256, (8, 8), np.uint8
    ),
  )
  return directory
