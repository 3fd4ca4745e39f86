"""DALL-E's encoder, beside Hugging Face's FlavaImageCodebook."""

import shutil
import struct

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.objectives.beit import test_objective as objectives
from vit_jax.errors import UserError
from vit_jax.objectives.beit import dvae, tokenizers


@pytest.fixture
def golden(repo):
  return repo / "tests" / "golden" / "dvae"


def test_tokens_are_those_of_hugging_face(golden):
  params = dvae.read(str(golden / "encoder.pth"))
  with np.load(golden / "expected.npz") as file:
    pixels, wanted = np.float32(file["images"] / 255), file["tokens"]
  assert dvae.num_tokens(params) == 24 and len(np.unique(wanted)) > 3
  np.testing.assert_array_equal(jax.jit(dvae.tokens)(params, pixels), wanted)


def test_the_encoder_may_be_in_the_home_directory(golden, monkeypatch):
  monkeypatch.setenv("HOME", str(golden))
  assert dvae.num_tokens(dvae.read("~/encoder.pth")) == 24


def test_it_sees_the_students_image_at_eight_pixels_a_patch(golden):
  path = str(golden / "encoder.pth")
  settings = objectives.config(tokenizer=path)
  objective, params, batch = objectives.started(settings)
  metrics = objectives.loss_of(objective, params, batch)
  assert np.isfinite(metrics["loss"])
  found = tokenizers.read(settings)
  # 4 x 4 patches: 32 pixels.
  pixels = jax.image.resize(
    np.float32(objectives.images_of() / 255), (4, 32, 32, 3), "lanczos3"
  )
  wanted = dvae.tokens(dvae.read(path), jnp.clip(pixels, 0, 1))
  places = np.tile(np.arange(16), (4, 1))
  np.testing.assert_array_equal(
    found.tokens(
      found.constants.params, jnp.asarray(objectives.images_of()), places
    ),
    wanted,
  )


def test_its_cost_is_that_of_its_convolutions(golden):
  params = dvae.read(str(golden / "encoder.pth"))
  # Widths 4, 4, 8, 16, 32, a quarter of them inside of blocks.
  macs, before = 32**2 * 49 * 3 * 4, 4
  for group, after in enumerate((4, 8, 16, 32)):
    inner = after // 4
    kernels = 9 * (before * inner + 2 * inner**2) + inner * after
    kernels += 0 if before == after else before * after
    macs += (32 >> group) ** 2 * kernels
    before = after
  macs += 4**2 * 32 * 24
  assert dvae.flops(params, 32) == 2 * macs


def test_another_file_is_refused(repo):
  path = next((repo / "tests" / "golden" / "torch_files").rglob("*.pth"))
  with pytest.raises(UserError, match="dVAE|not read"):
    dvae.read(str(path))


def test_layers_that_do_not_follow_on_one_another_are_refused(
  golden, monkeypatch
):
  path = str(golden / "encoder.pth")
  found = dict(dvae.torch_file.read(path))
  name = "blocks.group_2.block_1.res_path.conv_2.w"
  found[name] = found[name][:, :1]
  monkeypatch.setattr(dvae.torch_file, "read", lambda path: found)
  with pytest.raises(UserError, match="does not hold the encoder"):
    dvae.read(path)


def test_a_pickle_of_the_module_is_answered_with_a_sentence(golden, tmp_path):
  old = tmp_path / "encoder.pkl"
  old.write_bytes(b"\x80\x02" + struct.pack("<i", 0))
  with pytest.raises(UserError, match="pickle"):
    dvae.read(str(old))
  shutil.copy(golden / "encoder.pth", old)
  assert dvae.num_tokens(dvae.read(str(old))) == 24
