"""Starting from the parameters of another run."""

import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.checkpoint import initial
from vit_jax.checkpoint.store import CheckpointStore
from vit_jax.errors import UserError


def params(num_classes=3, width=4):
  return {
    "embedding": {"kernel": jnp.ones((2, width))},
    "head": {
      "kernel": jnp.zeros((width, num_classes)),
      "bias": jnp.zeros(num_classes),
    },
  }


def loaded(num_classes=3, width=4):
  return {
    "embedding": {"kernel": np.full((2, width), 5.0, np.float32)},
    "head": {
      "kernel": np.full((width, num_classes), 6.0, np.float32),
      "bias": np.full(num_classes, 7.0, np.float32),
    },
  }


def test_all_that_fits_is_taken():
  result = initial.replace(params(), loaded(), "x")
  np.testing.assert_array_equal(result["embedding"]["kernel"], 5)
  np.testing.assert_array_equal(result["head"]["bias"], 7)


def test_a_head_of_another_size_starts_afresh_and_is_named(caplog):
  result = initial.replace(params(num_classes=10), loaded(), "x")
  np.testing.assert_array_equal(result["embedding"]["kernel"], 5)
  assert result["head"]["bias"].shape == (10,)
  np.testing.assert_array_equal(result["head"]["bias"], 0)
  assert "head/kernel starts afresh" in caplog.text


def test_a_body_that_does_not_fit_is_a_table_of_shapes():
  with pytest.raises(UserError) as error:
    initial.replace(params(width=8), loaded(), "runs/x")
  assert "runs/x do not fit config.model" in str(error.value)
  (row,) = [
    line for line in str(error.value).splitlines() if "embedding" in line
  ]
  assert row.split("  ")[0] == "embedding/kernel"
  assert "(2, 4)" in row and "(2, 8)" in row


def test_parameters_missing_or_too_many_are_named():
  extra = loaded() | {"pre_logits": {"bias": np.zeros(3)}}
  del extra["embedding"]
  with pytest.raises(UserError) as error:
    initial.replace(params(), extra, "x")
  assert "embedding/kernel" in str(error.value)
  assert "pre_logits/bias" in str(error.value)
  assert "missing" in str(error.value)


def test_evaluation_takes_no_other_head():
  with pytest.raises(UserError, match="head/bias"):
    initial.place(params(num_classes=10), loaded(), "x")


def test_workdir_directory_and_step_all_lead_to_a_checkpoint(tmp_path):
  store = CheckpointStore(tmp_path, keep_last=5)
  for step in (5, 20):
    state = {"params": {"x": jnp.full(2, step)}, "ema_params": None}
    store.save(step, state, {})
  store.close()
  for path, step in [
    (tmp_path, 20),
    (tmp_path / "checkpoints", 20),
    (tmp_path / "checkpoints" / "5", 5),
  ]:
    found, found_step = initial.load_params(str(path))
    assert found_step == step
    np.testing.assert_array_equal(found["x"], step)


@pytest.mark.parametrize(
  ("make", "sentence"),
  [(False, "does not exist"), (True, "holds no checkpoint")],
)
def test_a_path_without_checkpoints_is_said_in_a_sentence(
  tmp_path, make, sentence
):
  path = tmp_path / "run"
  if make:
    path.mkdir()
  with pytest.raises(UserError, match=sentence):
    initial.load_params(str(path))
