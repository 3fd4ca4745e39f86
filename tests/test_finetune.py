"""A checkpoint file and a folder of images are all that fine-tuning takes."""

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from sklearn import datasets

import vit_jax
from tests import experiments
from vit_jax import registry, trees
from vit_jax.config import experiment_file, resolve
from vit_jax.evaluate import evaluate
from vit_jax.pretrained import reading
from vit_jax.train import train

CONFIG = "configs/finetune_folder.py"


def size_of(model):
  """The numbers that fix the shapes of `config.model`'s network."""
  return registry.FAMILIES.get(model.name).size(model)


def resolved(repo, **changes):
  built = experiment_file.load(str(repo / CONFIG), None)
  built.update_from_flattened_dict(
    {name.replace("__", "."): value for name, value in changes.items()}
  )
  return resolve.resolve(built)


def write_images(root, images):
  """root/SPLIT/CLASS/NUMBER.png of {(split, class): [uint8 arrays]}."""
  for (split, name), arrays in images.items():
    folder = root / split / name
    folder.mkdir(parents=True)
    for number, array in enumerate(arrays):
      Image.fromarray(array).save(folder / f"{number:03}.png")
  return str(root)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
  """A folder of three classes."""
  rng = np.random.default_rng(0)
  keys = itertools.product(("train", "test"), ("cat", "dog", "owl"))
  return write_images(
    tmp_path_factory.mktemp("photos"),
    {key: rng.integers(0, 256, (8, 20, 24, 3), np.uint8) for key in keys},
  )


@pytest.fixture(scope="module")
def published(tmp_path_factory):
  """An .npz file of a network of 4 classes, in google-research's names."""
  path = tmp_path_factory.mktemp("published") / "file.npz"
  workdir = path.with_name("run")
  train(
    experiments.config(
      total_steps=1,
      schedule__warmup_steps=0,
      model__representation_size="width",
      evals={},
    ),
    str(workdir),
  )
  vit_jax.save(str(path), *vit_jax.load(str(workdir)))
  return path


@pytest.mark.slow
def test_the_body_is_the_files_and_the_head_is_new(
  repo, photos, published, tmp_path
):
  config = resolved(
    repo,
    data_dir=photos,
    init_from=str(published),
    total_steps=2,
    train__batch_size=8,
    schedule__warmup_steps=1,
    optimizer__freeze="backbone",
  )
  assert train(config, str(tmp_path)) == 0
  model = resolve.load((tmp_path / "config.json").read_text()).model
  assert size_of(model) == size_of(reading.read(str(published)).model)
  assert model.image_size == 8
  assert (model.pool, model.representation_size) == ("cls", None)
  body = dict(trees.named_leaves(reading.read(str(published)).params))
  tuned = dict(trees.named_leaves(reading.read(str(tmp_path)).params))
  assert tuned["head/kernel"].shape == (32, 3)
  assert np.abs(tuned["head/kernel"]).max() <= 2 * config.schedule.base_lr
  for name in set(tuned) - {"head/kernel", "head/bias"}:
    np.testing.assert_array_equal(tuned[name], body[name])
  summary = json.loads((tmp_path / "summary.json").read_text())
  top1 = summary["metrics"]["eval/test/top1"]
  looked_at = evaluate(resolved(repo, data_dir=photos), str(tmp_path))
  assert looked_at["eval/test/top1"] == pytest.approx(top1)


def command(repo, *arguments):
  return subprocess.run(
    [sys.executable, "-m", "vit_jax.train", f"--config={CONFIG}", *arguments],
    capture_output=True,
    text=True,
    cwd=repo,
  )


def test_a_dry_run_shows_the_files_network_with_the_overrides(
  repo, photos, published
):
  result = command(
    repo,
    "--dry_run",
    f"--config.data_dir={photos}",
    f"--config.init_from={published}",
    "--config.model.image_size=16",
    "--config.model.dropout_rate=0.2",
  )
  assert result.returncode == 0, result.stderr
  text = result.stdout.partition("== Config ==")[2]
  text = text.partition("== Parameters ==")[0]
  config = json.loads(text)
  model = config["model"]
  found = reading.read(str(published)).model
  assert (model["variant"], model["depth"]) == (found.variant, found.depth)
  assert (model["image_size"], model["dropout_rate"]) == (16, 0.2)
  assert config["keep_model_keys"] == ["image_size", "dropout_rate"]
  assert "image: uint8 (64, 16, 16, 3)" in result.stdout


@pytest.mark.parametrize("name", ["B_16.npz", "runs/none"])
def test_a_file_that_is_not_there_is_a_sentence(repo, photos, tmp_path, name):
  result = command(
    repo,
    f"--config.data_dir={photos}",
    f"--config.init_from={tmp_path / name}",
    f"--workdir={tmp_path / 'run'}",
  )
  assert result.returncode == 1
  assert "Traceback" not in result.stderr
  assert str(tmp_path / name) in result.stderr
  assert "does not exist" in result.stderr


def digits(labels, per_class):
  """{(split, digit): images} of scikit-learn's digits; the rest is test."""
  data = datasets.load_digits()
  images = {}
  for label in labels:
    pixels = data.images[data.target == label] / 16 * 255
    pixels = np.repeat(pixels.round().astype(np.uint8)[..., None], 3, axis=-1)
    images["train", str(label)] = pixels[:per_class]
    images["test", str(label)] = pixels[per_class:]
  return images


@pytest.mark.exhaustive
def test_what_was_learned_on_some_classes_helps_with_others(repo, tmp_path):
  """Ten images of each new class; the same steps from scratch do worse."""
  network = {
    "model__width": 96,
    "model__depth": 4,
    "model__num_heads": 3,
    "model__mlp_dim": 192,
    "model__image_size": 16,
  }
  often = {
    "train__preprocess": "decode|resize|pad(2)|random_crop",
    "evals__test__every_steps": None,
    "train__batch_size": 48,
  }
  short = {
    "total_steps": 60,
    "schedule__warmup_steps": 6,
    "optimizer__name": "adamw",
    "schedule__base_lr": 1e-3,
    **often,
  }
  base = write_images(tmp_path / "base", digits(range(5), 150))
  new = write_images(tmp_path / "new", digits(range(5, 10), 10))

  def top1(workdir, **changes):
    assert train(resolved(repo, **changes), str(workdir)) == 0
    summary = json.loads((workdir / "summary.json").read_text())
    return summary["metrics"]["eval/test/top1"]

  first = {"total_steps": 300, "schedule__warmup_steps": 50, **often}
  run = tmp_path / "pretrained"
  assert top1(run, data_dir=base, ema_decay=None, **first, **network) > 0.95
  file = tmp_path / "digits.npz"
  vit_jax.save(str(file), *vit_jax.load(str(run)))
  tuned = top1(tmp_path / "tuned", data_dir=new, init_from=str(file), **short)
  scratch = top1(
    tmp_path / "scratch", data_dir=new, ema_decay=None, **short, **network
  )
  assert tuned > scratch + 0.1
