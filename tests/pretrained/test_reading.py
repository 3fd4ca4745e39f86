"""Reading the parameters of any checkpoint, ours or a published one."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.checkpoint import runs
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


def test_a_file_of_an_unknown_form_is_a_sentence(tmp_path):
  (tmp_path / "B_16").write_text("")
  with pytest.raises(UserError, match="end in .npz, .safetensors or .pth"):
    reading.read(str(tmp_path / "B_16"))


def test_an_exported_program_is_told_from_weights(tmp_path):
  (tmp_path / "photos.stablehlo").write_bytes(b"program")
  with pytest.raises(UserError, match="runs by jax.export alone .*made of"):
    reading.read(str(tmp_path / "photos.stablehlo"))
