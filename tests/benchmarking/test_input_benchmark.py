import jax
import pytest
from jax.sharding import AxisType

from vit_jax.benchmarking import input_benchmark


def test_both_pipelines_are_measured_in_every_round(jpegs, monkeypatch):
  monkeypatch.setattr(input_benchmark, "_SECONDS", 0.05)
  result = input_benchmark.compare(
    jpegs,
    preprocess="decode|inception_crop|flip_lr",
    image_size=16,
    batch_size=4,
    seed=0,
    mesh=jax.make_mesh(
      (1, 1), ("data", "fsdp"), axis_types=(AxisType.Auto,) * 2
    ),
    rounds=2,
  )
  assert len(result["ratios"]) == 2
  assert result["ratio"] == pytest.approx(sum(result["ratios"]) / 2)
  assert result["images_per_second"] > 0
  assert result["plain_images_per_second"] > 0
