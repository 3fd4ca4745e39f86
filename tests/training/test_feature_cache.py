"""Outputs of a frozen tower, computed once: the run is the same run."""

import jax
import numpy as np
import pytest

from vit_jax import checks, trees
from vit_jax.checkpoint.store import read_params
from vit_jax.config import experiment_file, resolve
from vit_jax.errors import UserError
from vit_jax.train import train


def config(directory=None, dtype="float32", **changes):
  """The small run of configs/lit.py, of five epochs, without evaluations."""
  built = experiment_file.load("configs/lit.py", "smoke")
  built.model.dtype = dtype
  built.evals = {}
  built.objective.cache_frozen = directory and str(directory)
  for path, value in changes.items():
    *parents, leaf = path.split("__")
    section = built
    for name in parents:
      section = section[name]
    section[leaf] = value
  return resolve.resolve(built)


def trained(config, workdir):
  assert train(config, str(workdir)) == 0
  params = read_params(workdir, 4, lambda params, state: params)
  return dict(trees.named_leaves(jax.device_get(params)))


def rows_of(directory):
  (path,) = directory.glob("*/rows.npy")
  return np.load(path)


@pytest.mark.parametrize(
  "dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)]
)
def test_a_run_with_it_is_the_run_without(tmp_path, dtype):
  wanted = trained(config(dtype=dtype), tmp_path / "without")
  found = trained(config(tmp_path / "cache", dtype), tmp_path / "with")
  assert found.keys() == wanted.keys()
  for path, leaf in found.items():
    np.testing.assert_array_equal(leaf, wanted[path], err_msg=path)


def test_it_continues_where_it_stopped(tmp_path):
  cache = tmp_path / "cache"
  trained(config(cache), tmp_path / "first")
  whole = rows_of(cache)
  (done,) = cache.glob("*/batches_done.txt")
  count = int(done.read_text())
  assert count > 1 and len(whole) > 16 and np.all(np.any(whole != 0, axis=1))
  # As after a kill: one batch is marked, and nothing else can be relied on.
  rows = np.load(done.parent / "rows.npy", mmap_mode="r+")
  rows[0] += 1  # What is marked is not computed again.
  rows[16:] = 0
  rows.flush()
  done.write_text("1")
  trained(config(cache), tmp_path / "second")
  np.testing.assert_array_equal(rows_of(cache)[1:], whole[1:])
  np.testing.assert_array_equal(rows_of(cache)[0], whole[0] + 1)
  assert int(done.read_text()) == count


@pytest.mark.parametrize(
  ("changes", "words"),
  [
    (
      {"train__preprocess": "decode|resize|tokenize|flip_lr"},
      ["cache_frozen", "flip_lr", "every time"],
    ),
    ({"train__max_bad_examples": 3}, ["max_bad_examples = 3", "exclude"]),
  ],
)
def test_images_that_change_are_refused(tmp_path, changes, words):
  with pytest.raises(UserError) as caught:
    checks.check(config(tmp_path, **changes))
  assert all(word in str(caught.value) for word in words)


def test_a_tower_that_is_trained_is_refused(tmp_path):
  with pytest.raises(UserError, match="but this one is trained"):
    train(config(tmp_path, optimizer__freeze=None), str(tmp_path / "run"))


def test_another_tower_has_another_file(tmp_path):
  for seed in (0, 1):
    trained(config(tmp_path / "cache", seed=seed), tmp_path / str(seed))
  assert len(list((tmp_path / "cache").iterdir())) == 2


def test_another_feature_of_the_images_has_another_file(tmp_path):
  for key in ("image", "crop"):
    keys = {"train__image_key": key}
    trained(config(tmp_path / "cache", **keys), tmp_path / key)
  assert len(list((tmp_path / "cache").iterdir())) == 2
