"""Checkpoints of a family's own authors."""

import io
import json
import pathlib
import pickle
import re
import shutil
import zipfile

import jax
import numpy as np
import pytest

import vit_jax
from tests.weights import torch_zip
from tests.weights.published import GOLDEN, expected, relative_error
from vit_jax.errors import UserError
from vit_jax.weights import files, torch_file

DEIT = GOLDEN / "torch_files" / "deit.pth"


def test_logits_are_those_of_timm():
  network, params = vit_jax.load(str(DEIT))
  wanted = expected("torch_files")
  found = jax.jit(network.apply)({"params": params}, wanted["images"])
  assert relative_error(np.asarray(found), wanted["logits"]) < 1e-5


def test_what_no_tensor_tells_is_assumed_and_said():
  weights = files.read(str(DEIT))
  assert weights.model.normalize == "imagenet"
  assert weights.model.num_heads == 1
  assert any("model.num_heads=1" in note for note in weights.assumed)


def checkpoint(path: pathlib.Path, data: bytes) -> str:
  """The fixture with another data.pkl."""
  stream = io.BytesIO()
  with (
    zipfile.ZipFile(DEIT) as source,
    zipfile.ZipFile(stream, "w") as target,
  ):
    for entry in source.infolist():
      is_pickle = entry.filename.endswith("/data.pkl")
      content = data if is_pickle else source.read(entry)
      target.writestr(entry.filename, content)
  path.write_bytes(stream.getvalue())
  return str(path)


def fixture_pickle() -> bytes:
  with zipfile.ZipFile(DEIT) as archive:
    name = next(n for n in archive.namelist() if n.endswith("/data.pkl"))
    return archive.read(name)


def renamed(old: str, new: str) -> bytes:
  def text(value: str) -> bytes:
    return b"X" + len(value).to_bytes(4, "little") + value.encode()

  return fixture_pickle().replace(text(old), text(new))


@pytest.mark.parametrize(
  "key",
  [
    "state_dict",
    "model_state_dict",
    "net",
    "module",
    "model_ema",
    "state_dict_ema",
  ],
)
def test_other_containers_are_opened(tmp_path, key):
  path = checkpoint(tmp_path / "x.pth", renamed("model", key))
  found, wanted = files.read(path), files.read(str(DEIT))
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)


@pytest.mark.parametrize(
  "start",
  [
    "module.",
    "_orig_mod.",
    "module._orig_mod.",
    "_orig_mod.module.",
    "model.",
    "model._orig_mod.",
  ],
)
def test_start_of_parallel_and_compiled_names_is_taken_off(tmp_path, start):
  data = renamed("cls_token", f"{start}cls_token")
  found = files.read(checkpoint(tmp_path / "x.ckpt", data))
  wanted = files.read(str(DEIT))
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)


def test_checkpoints_of_timms_training_are_read_by_their_name(tmp_path):
  path = checkpoint(
    tmp_path / "model_best.pth.tar", renamed("model", "state_dict")
  )
  found, wanted = vit_jax.load(path), vit_jax.load(str(DEIT))
  assert found[0] == wanted[0]
  jax.tree.map(np.testing.assert_array_equal, found[1], wanted[1])


def test_a_directory_of_timms_has_parallel_names_too(tmp_path):
  data = renamed("cls_token", "module.cls_token")
  path = checkpoint(tmp_path / "pytorch_model.bin", data)
  config = {"architecture": "deit_tiny_patch16_224", "num_classes": 10}
  (tmp_path / "config.json").write_text(json.dumps(config))
  found, wanted = files.read(str(tmp_path)), files.read(str(DEIT))
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)
  jax.tree.map(
    np.testing.assert_array_equal, files.read(path).params, wanted.params
  )


@pytest.mark.parametrize(
  ("file", "is_doubtful"),
  [("deit.pth", True), ("deit_distilled.pth", False), ("deit3.pth", False)],
)
def test_statistics_that_timms_own_networks_want_are_said(file, is_doubtful):
  notes = files.read(str(DEIT.with_name(file))).assumed
  assert any("minus_one_to_one" in note for note in notes) == is_doubtful


def test_first_of_several_containers_is_said(tmp_path):
  data = fixture_pickle()[:-1] + b"X\x09\0\0\0model_ema}s."
  weights = files.read(checkpoint(tmp_path / "x.pth", data))
  (note,) = (n for n in weights.assumed if "'model' is taken" in n)
  assert f"{weights.path}/model_ema" in note


def test_path_names_one_of_several_state_dicts(tmp_path, monkeypatch):
  tensors, wanted = torch_file.read(DEIT)["model"], files.read(str(DEIT)).params
  average = {name: 2 * x for name, x in tensors.items()}
  contents = {"state_dict": tensors, "state_dict_ema": average}
  monkeypatch.setattr(torch_file, "read", lambda path: contents)
  path = tmp_path / "last.pth.tar"
  path.touch()
  for name, factor in {"": 1, "/state_dict": 1, "/state_dict_ema": 2}.items():
    found = vit_jax.load(f"{path}{name}")[1]
    jax.tree.map(
      lambda x, y, factor=factor: np.testing.assert_array_equal(x, factor * y),
      found,
      wanted,
    )
  with pytest.raises(UserError, match="no dictionary 'ema'") as error:
    files.read(f"{path}/ema")
  assert f"{path}/state_dict_ema" in str(error.value)


def test_settings_under_the_name_of_a_state_dict_are_not_taken(tmp_path):
  data = renamed("model", "state_dict_ema")[:-1] + b"X\x05\0\0\0model}s."
  weights = files.read(checkpoint(tmp_path / "x.pth", data))
  assert any("'state_dict_ema' is taken" in note for note in weights.assumed)


def test_path_of_a_state_dict_in_a_missing_file_does_not_exist(tmp_path):
  with pytest.raises(UserError, match="does not exist"):
    vit_jax.load(f"{tmp_path}/last.pth.tar/state_dict_ema")


def test_state_dict_of_an_unknown_name_is_offered(tmp_path):
  path = checkpoint(tmp_path / "x.pt", renamed("model", "weights"))
  with pytest.raises(UserError, match=f"unknown name.*{path}/weights"):
    files.read(path)
  found, wanted = files.read(f"{path}/weights"), files.read(str(DEIT))
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)


@pytest.mark.parametrize("start", ["net.", "net._orig_mod.", "module.net."])
def test_attribute_of_a_lightning_module_is_not_part_of_the_names(
  tmp_path, start
):
  data = re.sub(
    rb"X(.)\0\0\0((?:cls_token|pos_embed|patch_embed|blocks|norm|head))",
    lambda m: b"X%c\0\0\0%s%s" % (m[1][0] + len(start), start.encode(), m[2]),
    fixture_pickle(),
    flags=re.DOTALL,
  )
  found = files.read(checkpoint(tmp_path / "x.ckpt", data))
  wanted = files.read(str(DEIT))
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)


def prefixed(**factors):
  """DeiT's tensors after each prefix, multiplied by its factor."""
  tensors = torch_file.read(DEIT)["model"]
  return {
    f"{prefix}.{name}": factor * x
    for prefix, factor in factors.items()
    for name, x in tensors.items()
  }


@pytest.fixture
def read(tmp_path, monkeypatch):
  """Reads a file with given contents; returns parameters over DeiT's."""
  wanted = files.read(str(DEIT)).params

  def read(contents, part=""):
    path = tmp_path / "x.ckpt"
    path.touch()
    with monkeypatch.context() as patch:
      patch.setattr(torch_file, "read", lambda path: contents)
      weights = files.read(f"{path}{part}")
    ratio = weights.params["cls"].flat[0] / wanted["cls"].flat[0]
    jax.tree.map(
      lambda x, y: np.testing.assert_array_equal(x, ratio * y),
      weights.params,
      wanted,
    )
    return ratio, " ".join(weights.assumed)

  return read


@pytest.mark.parametrize("keys", [("model", "state_dict"), ("net", "model")])
def test_a_container_in_a_container_is_opened(read, keys):
  outer, inner = keys
  tensors = torch_file.read(DEIT)["model"]
  average = {name: 2 * x for name, x in tensors.items()}
  contents = {outer: {inner: tensors}, "optimizer": {"state": {}}}
  assert read(contents)[0] == 1
  contents[outer]["state_dict_ema"] = average
  ratio, notes = read(contents)
  assert ratio == 1 and f"'{inner}' is taken" in notes
  assert read(contents, "/state_dict_ema")[0] == 2
  contents["ema"] = average
  assert read(contents, "/ema")[0] == 2
  assert read(contents, f"/{outer}")[0] == 1


def test_of_a_teacher_and_a_student_in_one_state_dict_the_teacher_is_taken(
  read,
):
  tensors = prefixed(student=1, teacher=2)
  tensors["dino_loss.center"] = np.zeros((1, 4), np.float32)
  ratio, notes = read({"model": tensors})
  assert ratio == 2
  assert "begin with 'teacher.' are taken, without student, dino_loss." in notes
  assert read({"model": tensors}, "/student")[0] == 1


@pytest.mark.parametrize("is_container", [True, False])
def test_a_student_alone_is_said(read, is_container):
  tensors = torch_file.read(DEIT)["model"]
  contents = {"student": tensors} if is_container else prefixed(student=1)
  assert "a student without its teacher" in read(contents)[1]


@pytest.mark.parametrize("network", ["model", "net"])
def test_weights_of_a_loss_are_left_out(read, network):
  tensors = prefixed(**{network: 1})
  tensors["criterion.weight"] = np.ones(10, np.float32)
  ratio, notes = read({"state_dict": tensors})
  assert ratio == 1 and "criterion.weight" in notes


def test_a_loss_alone_is_named(tmp_path):
  names = ("loss.dino.center", "loss.ibot.center", "criterion.weight")
  state = dict.fromkeys(names, np.ones(3, np.float32))
  path = torch_zip.save(tmp_path / "loss.ckpt", state)
  with pytest.raises(UserError) as error:
    files.read(path)
  assert str(error.value).startswith(
    f"{path} holds no network, only tensors of"
  )
  assert "loss.dino.center" in str(error.value)


def test_what_a_module_has_beside_its_network_is_left_out(read):
  tensors = prefixed(net=1)
  for name in ("projector.weight", "projector.model.weight"):
    tensors[name] = np.ones((2, 2), np.float32)
  ratio, notes = read({"state_dict": tensors})
  assert ratio == 1
  assert "begin with 'net.' are taken, without projector." in notes


def test_quantised_weights_are_refused(read):
  """A bias or a head that is not read could look like one that is not there."""
  tensors = dict(torch_file.read(DEIT)["model"])
  tensors["head.weight"] = (100 * tensors["head.weight"]).astype(np.int8)
  tensors["head.bias"] = np.zeros(tensors["head.bias"].shape, np.int8)
  with pytest.raises(UserError, match=r"'head.weight' holds int8.*Quantised"):
    read({"model": tensors})


@pytest.mark.parametrize("name", ["blocks.0.attn.mask", "rng_state"])
def test_masks_and_states_of_bytes_are_left_out(read, name):
  tensors = torch_file.read(DEIT)["model"]
  assert read({"model": {**tensors, name: np.ones(8, np.uint8)}})[0] == 1
  assert read({**tensors, name: np.ones(8, np.uint8)})[0] == 1


def test_the_state_of_a_generator_is_not_quantised_weights(read):
  contents = {
    "weights": torch_file.read(DEIT)["model"],
    "rng": np.zeros(8, np.uint8),
  }
  with pytest.raises(UserError, match="unknown name"):
    read(contents)
  assert read(contents, "/weights")[0] == 1


def test_one_of_several_networks_is_asked_for(read):
  contents = {"state_dict": prefixed(net=1, net_ema=2)}
  with pytest.raises(UserError, match="several networks.*: net, net_ema. Add"):
    read(contents)
  assert read(contents, "/net_ema")[0] == 2


@pytest.mark.parametrize("name", ["ema_model", "model_ema", "ema"])
def test_a_lightning_module_with_an_average_is_read_without_it(read, name):
  contents = {"state_dict": prefixed(model=1, **{f"{name}.module": 2})}
  ratio, notes = read(contents)
  assert ratio == 1
  assert re.search(f"an average of the network: {name}.*x.ckpt/{name}", notes)
  assert read(contents, f"/{name}")[0] == 2


def test_unknown_network_is_named(tmp_path):
  path = checkpoint(tmp_path / "x.pth", pickle.dumps({"model": {}}, 2))
  with pytest.raises(
    UserError, match="not a checkpoint of .*DeiT.*tensors: none"
  ):
    files.read(path)


@pytest.mark.parametrize(
  ("file", "folder"),
  [
    ("deit_distilled.pth", "timm_deit_distilled"),
    ("deit3.pth", "timm_deit3"),
  ],
)
def test_deits_by_the_names_of_their_authors_are_those_by_timms(
  tmp_path, file, folder
):
  found = files.read(str(DEIT.with_name(file)))
  lone = tmp_path / "model.safetensors"
  shutil.copy(GOLDEN / folder / lone.name, lone)
  wanted = files.read(str(lone))
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)
  keys = ("distillation", "layer_scale", "cls_position", "image_size", "gelu")
  for key in keys:
    assert getattr(found.model, key) == getattr(wanted.model, key), key
