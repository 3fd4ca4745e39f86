"""Reading the parameters of any checkpoint, ours or a published one."""

import shutil
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.checkpoint import runs
from vit_jax.checkpoint import verification
from vit_jax.config import named_sections
from vit_jax.errors import UserError
from vit_jax.pretrained import reading
from vit_jax.processes import agreement

MODEL = named_sections.section("model")


def test_workdir_directory_and_step_all_lead_to_a_checkpoint(tmp_path):
  runs.write(tmp_path, MODEL, {n: {"x": jnp.full(2, n)} for n in (5, 20)})
  for path, step in [
    (tmp_path, 20),
    (tmp_path / "checkpoints", 20),
    (tmp_path / "checkpoints" / "5", 5),
  ]:
    found = reading.read(str(path))
    assert reading.locate(str(path)) == (tmp_path, step)
    np.testing.assert_array_equal(found.params["x"], step)
    assert found.model == MODEL


def test_a_run_that_diverged_is_refused_like_a_published_file(tmp_path):
  params = {3: {"x": jnp.ones(2)}, 5: {"x": jnp.array([1, jnp.nan])}}
  runs.write(tmp_path, MODEL, params)
  with pytest.raises(UserError, match="holds NaN or infinity: 1 of the 2 num"):
    reading.read(str(tmp_path))
  earlier = reading.read(str(tmp_path / "checkpoints" / "3"))
  np.testing.assert_array_equal(earlier.params["x"], 1)


def test_a_workdir_may_be_in_the_home_directory(tmp_path, monkeypatch):
  monkeypatch.setenv("HOME", str(tmp_path))
  runs.write(tmp_path / "run", MODEL, {3: {"x": jnp.ones(2)}})
  np.testing.assert_array_equal(reading.read("~/run").params["x"], 1)
  assert not reading.is_published("~/run")


@pytest.mark.parametrize(
  "name", ["x.pth", "x.npz", "x.safetensors", "x.stablehlo"]
)
def test_a_workdir_may_be_named_like_a_file_of_weights(tmp_path, name):
  workdir = tmp_path / name
  runs.write(workdir, MODEL, {5: {"x": jnp.full(2, 5)}})
  found, step = reading.read_with_step(str(workdir))
  assert (step, found.model) == (5, MODEL)
  np.testing.assert_array_equal(found.params["x"], 5)
  assert reading.run_config(str(workdir)).model == MODEL
  assert not reading.is_published(str(workdir))


def test_a_run_tells_the_step_of_what_was_read_and_a_file_tells_none(
  tmp_path, shared
):
  runs.write(tmp_path, MODEL, {n: {"x": jnp.full(2, n)} for n in (5, 20)})
  for path, step in [(tmp_path, 20), (tmp_path / "checkpoints" / "5", 5)]:
    found, told = reading.read_with_step(str(path))
    assert (told, found.path) == (step, str(path))
    np.testing.assert_array_equal(found.params["x"], step)
  published = str(shared / "golden/vit_token.npz")
  assert reading.read_with_step(published)[1] is None


def test_processes_read_the_step_that_process_0_has_found(
  tmp_path, monkeypatch
):
  """A run that still trains may have saved before the others looked."""
  runs.write(tmp_path, MODEL, {n: {"x": jnp.full(2, n)} for n in (5, 20)})
  monkeypatch.setattr(agreement, "gather", lambda step: ["5", step])
  found, told = reading.read_with_step(str(tmp_path), agreed=True)
  assert told == 5
  np.testing.assert_array_equal(found.params["x"], 5)


def a_save_removes(monkeypatch, workdir, steps, seconds=0.0):
  """Each read begins as its run saves the next of `steps` and removes it.

  All files of the step that is read but one go after that many seconds.
  """
  left, before = list(steps), reading.read_params

  def read_params(directory, step, *others):
    if left:
      new = left.pop(0)
      runs.write(workdir, MODEL, {new: {"x": jnp.full(2, new)}})
      old = workdir / "checkpoints" / str(step)
      (old / "manifest.json").unlink()
      threading.Timer(seconds, shutil.rmtree, [old]).start()
    return before(directory, step, *others)

  monkeypatch.setattr(reading, "read_params", read_params)


@pytest.mark.parametrize("seconds", [0, 0.5])
@pytest.mark.parametrize("path", ["", "checkpoints"])
def test_a_step_that_its_run_removes_is_no_damage(
  tmp_path, monkeypatch, path, seconds
):
  runs.write(tmp_path, MODEL, {20: {"x": jnp.full(2, 20)}})
  a_save_removes(monkeypatch, tmp_path, [30, 40], seconds)
  found, told = reading.read_with_step(str(tmp_path / path))
  assert told == 40
  np.testing.assert_array_equal(found.params["x"], 40)


def test_a_named_step_that_is_removed_is_told_so(tmp_path, monkeypatch):
  runs.write(tmp_path, MODEL, {20: {"x": jnp.full(2, 20)}})
  a_save_removes(monkeypatch, tmp_path, [30])
  with pytest.raises(UserError, match="checkpoints/20 was removed by its run"):
    reading.read(str(tmp_path / "checkpoints/20"))


def test_processes_do_not_choose_anew_a_step_that_they_agreed_on(
  tmp_path, monkeypatch
):
  """Not all may have met its end, and each agrees as often as the others."""
  runs.write(tmp_path, MODEL, {n: {"x": jnp.ones(2)} for n in (20, 30)})
  asked = []
  monkeypatch.setattr(jax, "process_count", lambda: 2)
  monkeypatch.setattr(agreement, "gather", lambda s: asked.append(s) or ["20"])
  before = reading.read_params

  def read_params(directory, step, *others):
    shutil.rmtree(tmp_path / "checkpoints/20")
    return before(directory, step, *others)

  monkeypatch.setattr(reading, "read_params", read_params)
  with pytest.raises(UserError, match="checkpoints/20 was removed by its run"):
    reading.read_with_step(str(tmp_path), agreed=True)
  assert asked == ["30"]


def test_a_run_that_removes_whatever_is_read_is_told_in_a_sentence(
  tmp_path, monkeypatch
):
  runs.write(tmp_path, MODEL, {20: {"x": jnp.full(2, 20)}})
  a_save_removes(monkeypatch, tmp_path, range(21, 40))
  with pytest.raises(UserError, match=r"keep_last"):
    reading.read(str(tmp_path))


def test_a_damaged_step_that_stays_is_told_to_be_damaged(tmp_path):
  runs.write(tmp_path, MODEL, {n: {"x": jnp.ones(2)} for n in (5, 20)})
  for step, path in [(20, tmp_path), (5, tmp_path / "checkpoints/5")]:
    (tmp_path / f"checkpoints/{step}/manifest.json").unlink()
    with pytest.raises(UserError, match=f"/{step} is damaged: manifest.json"):
      reading.read(str(path))


@pytest.mark.parametrize("name", ["", "checkpoints/20"])
def test_the_config_of_a_run_is_that_of_a_step_that_stays(
  tmp_path, monkeypatch, name
):
  runs.write(tmp_path, MODEL, {n: {"x": jnp.ones(2)} for n in (20, 30)})
  check, steps = verification.check, [20, 30]
  monkeypatch.setattr(verification, "steps_in", lambda directory: steps)

  def removed(directory, step):
    shutil.rmtree(directory / "20", ignore_errors=True)
    steps[:] = [30]
    check(directory, step)

  monkeypatch.setattr(verification, "check", removed)
  if name:
    with pytest.raises(UserError, match="was removed by its run"):
      reading.run_config(str(tmp_path / name))
  else:
    assert reading.run_config(str(tmp_path)).model == MODEL


def test_a_workdir_without_its_config_is_a_sentence(tmp_path):
  runs.write(tmp_path, MODEL, {5: {"x": jnp.ones(2)}})
  (tmp_path / "config.json").unlink()
  with pytest.raises(UserError, match=r"config\.json"):
    reading.read(str(tmp_path))


def test_a_published_file_is_read_by_its_name(shared):
  found = reading.read(str(shared / "golden/vit_token.npz"))
  assert found.model.num_classes == 10


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
    reading.read(str(path))


def test_weights_of_another_name_in_a_directory_are_named(tmp_path):
  (tmp_path / "config.json").write_text("{}")
  (tmp_path / "model.fp16.safetensors").write_bytes(b"")
  with pytest.raises(UserError, match=r"\(model.fp16.safetensors\): name one"):
    reading.read(str(tmp_path))


def test_a_file_of_an_unknown_form_is_a_sentence(tmp_path):
  (tmp_path / "B_16").write_text("")
  with pytest.raises(UserError, match="end in .npz, .safetensors or .pth"):
    reading.read(str(tmp_path / "B_16"))


def test_an_exported_program_is_told_from_weights(tmp_path):
  (tmp_path / "photos.stablehlo").write_bytes(b"program")
  with pytest.raises(UserError, match="runs by jax.export alone .*made of"):
    reading.read(str(tmp_path / "photos.stablehlo"))
