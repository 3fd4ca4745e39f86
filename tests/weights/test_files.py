"""Paths to published files, and paths to nothing."""

import errno
import shutil

import jax
import numpy as np
import pytest
from etils import epath
from safetensors.numpy import load_file, save_file

from tests.weights import published_npz
from tests.weights.published import GOLDEN, change, change_tensors, folder
from vit_jax.errors import UserError
from vit_jax.weights import files, path_errors


def test_an_npz_is_read(tmp_path):
  _, params = published_npz.vit()
  path = str(tmp_path / "x.npz")
  np.savez(path, **params)
  assert files.is_published(path)
  assert files.read(path).path == path


def test_a_network_of_timm_saved_by_transformers_is_timms(tmp_path):
  source = GOLDEN / "timm_vit"
  path = shutil.copytree(source, tmp_path / "wrapped")
  change_tensors(path, lambda x: {f"timm_model.{n}": a for n, a in x.items()})
  kind = "TimmWrapperForImageClassification"
  change(path, model_type="timm_wrapper", architectures=[kind])
  found, wanted = files.read(str(path)), files.read(str(source))
  assert found.model == wanted.model and found.assumed == ()
  assert found.class_names == wanted.class_names
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)


def test_a_workdir_is_no_published_file(tmp_path):
  (tmp_path / "checkpoints").mkdir()
  assert not files.is_published(str(tmp_path))


@pytest.mark.parametrize("name", ["x.npz", "x.safetensors", "directory"])
def test_a_path_that_is_not_there_is_a_sentence(tmp_path, name):
  with pytest.raises(UserError, match="does not exist"):
    files.read(str(tmp_path / name))


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_named(tmp_path, suffix, value):
  """-inf of a buffer that follows from shapes does not count."""
  path = str(tmp_path / f"x{suffix}")
  if suffix == ".npz":
    _, params = published_npz.vit()
    params["embedding/bias"] = np.array(params["embedding/bias"])
    params["embedding/bias"][:2] = value
    np.savez(path, **params)
  else:
    params = load_file(GOLDEN / "timm_swin" / "model.safetensors")
    params["layers.0.blocks.1.attn_mask"] = np.float32([-np.inf])
    save_file(params, path)
    files.read(path)
    params["patch_embed.proj.bias"][:2] = value
    params["patch_embed.proj.weight"][:1, 0, 0, 0] = value
    save_file(params, path)
  with pytest.raises(UserError, match="NaN or infinity: 2 of the") as caught:
    files.read(path)
  name = "embedding/bias" if suffix == ".npz" else "stem/conv/bias"
  assert f"numbers of {name}" in str(caught.value)
  assert ("(1 other" in str(caught.value)) == (suffix == ".safetensors")


def test_a_directory_in_place_of_a_file_is_a_sentence(tmp_path):
  (tmp_path / "x.npz").mkdir()
  with pytest.raises(UserError, match="is a directory"):
    files.read(str(tmp_path / "x.npz"))


def test_a_file_that_may_not_be_read_is_a_sentence(tmp_path, monkeypatch):
  path = tmp_path / "x.npz"
  path.write_bytes(b"")

  def refuse(*args, **kwargs):
    raise PermissionError(errno.EACCES, "Permission denied")

  monkeypatch.setattr(type(epath.Path(path)), "open", refuse)
  with pytest.raises(UserError, match="cannot be read .Permission denied."):
    files.read(str(path))


@pytest.mark.parametrize(
  "error", [RuntimeError("no\ncredentials"), ImportError("gcsfs"), KeyError()]
)
def test_a_bucket_that_does_not_answer_is_a_sentence(error, bucket):
  path = str(bucket / "x.npz")
  with pytest.raises(UserError) as raised, path_errors.explained(path):
    raise error
  message = str(raised.value)
  assert message.startswith(f"{path} cannot be reached")
  assert "gcloud auth" in message and "\n" not in message


def test_a_bug_is_not_taken_for_a_bucket():
  with pytest.raises(RuntimeError), path_errors.explained("x.npz"):
    raise RuntimeError


@pytest.mark.parametrize("start", ["net.", "net._orig_mod.", "module.net."])
@pytest.mark.parametrize(
  "name",
  [
    "huggingface_clip",
    "huggingface_dinov2",
    "huggingface_vit",
    "timm_swin",
    "timm_vit",
  ],
)
def test_attribute_of_a_lightning_module_is_not_part_of_the_names(
  tmp_path, name, start
):
  wanted = files.read(str(folder(name)))
  copy = shutil.copytree(folder(name), tmp_path / name)
  change_tensors(
    copy, lambda found: {start + key: x for key, x in found.items()}
  )
  found = files.read(str(copy))
  assert found.model == wanted.model
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)


def test_an_attribute_of_a_module_in_a_file_of_authors_names(tmp_path):
  folder_of_clip = shutil.copytree(GOLDEN / "open_clip", tmp_path / "clip")
  wanted = files.read(str(folder_of_clip))
  path = folder_of_clip / "open_clip_model.safetensors"
  save_file({f"net.{key}": x for key, x in load_file(path).items()}, path)
  found = files.read(str(folder_of_clip))
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)
