import jax
import pytest
from jax.sharding import AxisType
from PIL import Image

from tests import experiments
from vit_jax.benchmarking import input_benchmark
from vit_jax.data import features, sources
from vit_jax.errors import UserError


def test_both_pipelines_are_measured_in_every_round(jpegs, monkeypatch):
  monkeypatch.setattr(input_benchmark, "_SECONDS", 0.05)
  done = []
  result = input_benchmark.compare(
    jpegs,
    show=done.append,
    preprocess="decode|inception_crop|flip_lr",
    image_size=16,
    batch_size=4,
    seed=0,
    mesh=jax.make_mesh(
      (1, 1), ("data", "fsdp"), axis_types=(AxisType.Auto,) * 2
    ),
    rounds=2,
  )
  assert len(result["ratios"]) == 2 and done == [0, 1]
  assert result["ratio"] == pytest.approx(sum(result["ratios"]) / 2)
  assert result["images_per_second"] > 0
  assert result["plain_images_per_second"] > 0


def test_crops_are_measured_together_and_apart(jpegs, monkeypatch):
  monkeypatch.setattr(input_benchmark, "_SECONDS", 0.05)
  crop = "decode|random_resized_crop"
  config = experiments.config(
    train__preprocess="decode|keep('image')",
    train__views={
      "global": {"count": 2, "preprocess": crop, "size": 16},
      "local": {"count": 3, "preprocess": crop, "size": 8},
    },
  )
  done = []
  result = input_benchmark.compare_views(
    jpegs,
    features.parse(config),
    show=done.append,
    batch_size=4,
    seed=0,
    mesh=jax.make_mesh(
      (1, 1), ("data", "fsdp"), axis_types=(AxisType.Auto,) * 2
    ),
    rounds=2,
  )
  assert len(result["ratios"]) == 2 and done == [0, 1]
  assert result["images_per_second"] > 0
  assert result["apart_images_per_second"] > 0
  assert result["build_seconds"] > 0 < result["apart_build_seconds"]


def test_data_without_labels_are_a_sentence(tmp_path):
  (tmp_path / "captions.csv").write_text("image,caption\n1.png,a dot\n")
  Image.new("RGB", (8, 8)).save(tmp_path / "1.png")
  with pytest.raises(UserError, match="have no classes, which the plain"):
    input_benchmark.compare(
      sources.open_source("captions", "train", data_dir=str(tmp_path)),
      preprocess="decode|resize",
      image_size=8,
      batch_size=1,
      seed=0,
      mesh=jax.make_mesh(
        (1, 1), ("data", "fsdp"), axis_types=(AxisType.Auto,) * 2
      ),
      rounds=1,
    )
