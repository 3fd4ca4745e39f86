"""safetensors files: all that is wrong with one is a sentence."""

import json
import shutil
import struct
import zipfile

import numpy as np
import pytest
from etils import epath
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from tests.weights.published import GOLDEN, folder
from vit_jax.errors import UserError
from vit_jax.weights import files, tensors, torch_file
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import huggingface

FILE = GOLDEN / "huggingface_deit_distilled" / "model.safetensors"


def header(text: bytes, data: bytes = b"") -> bytes:
  return struct.pack("<Q", len(text)) + text + data


def tensor(dtype: str, shape: list[int], end: int) -> bytes:
  entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}
  return header(json.dumps({"a": entry}).encode(), bytes(8))


DAMAGED = {
  "empty": b"",
  "no header": b"\x01\x02",
  "cut header": FILE.read_bytes()[:100],
  "cut data": FILE.read_bytes()[:-1],
  "huge header": struct.pack("<Q", 2**62) + b"{}",
  "long header": struct.pack("<Q", 1000) + b"{}",
  "no JSON": header(b"{abc}"),
  "a list": header(b"[]"),
  "offsets outside": tensor("F32", [2], 80),
  "other size": tensor("F32", [3], 8),
  "overflow": tensor("F32", [2**40, 2**40], 8),
  "unknown dtype": tensor("F31", [2], 8),
  "text": b"<!DOCTYPE html>\n",
}
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n"


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_file_is_named(tmp_path, name):
  path = epath.Path(tmp_path / "x.safetensors")
  path.write_bytes(DAMAGED[name])
  with pytest.raises(UserError, match="x.safetensors is damaged"):
    tensors.read(path)


@pytest.mark.parametrize("name", ["x.safetensors", "x.pth", "x.npz"])
def test_a_pointer_of_git_lfs_says_how_to_get_the_weights(tmp_path, name):
  (tmp_path / name).write_bytes(POINTER)
  with pytest.raises(UserError, match=f"{name} is a pointer.*git lfs pull"):
    files.read(str(tmp_path / name))


def test_places_of_tokens_are_no_parameters(tmp_path):
  """Older files of CLIP hold them."""
  path = epath.Path(tmp_path / "x.safetensors")
  places = {"text_model.embeddings.position_ids": np.arange(3)[None]}
  save_file({"a": np.ones(2, np.float32)} | places, path)
  assert tensors.read(path).keys() == {"a"}


@pytest.mark.parametrize("dtype, shape", [("I64", [1]), ("F8_E4M3", [8])])
def test_other_than_floats_are_named(tmp_path, dtype, shape):
  path = epath.Path(tmp_path / "x.safetensors")
  path.write_bytes(tensor(dtype, shape, 8))
  with pytest.raises(UserError, match=f"'a' holds {dtype}"):
    tensors.read(path)


def test_batch_norm_is_named(tmp_path):
  path = epath.Path(tmp_path / "x.safetensors")
  found = {"bn.num_batches_tracked": np.ones(1, np.int64)}
  save_file(found, path)
  with pytest.raises(UserError, match="has batch norm"):
    tensors.read(path)


def test_missing_file_is_named(tmp_path):
  with pytest.raises(UserError, match="no.safetensors does not exist"):
    tensors.read(epath.Path(tmp_path / "no.safetensors"))
  with pytest.raises(UserError, match="holds no weights"):
    tensors.read(epath.Path(tmp_path))


def test_an_old_pickle_is_read_and_another_one_is_refused(tmp_path):
  path = tmp_path / "pytorch_model.bin"
  shutil.copy(GOLDEN / "torch_files" / "legacy.pth", path)
  for source in (tmp_path, path):
    assert tensors.read(epath.Path(source)).keys() == {"a"}
  path.write_bytes(b"\x80\x04K\x01.")
  for source in (tmp_path, path):
    with pytest.raises(UserError, match="pickle that PyTorch did not write"):
      tensors.read(epath.Path(source))


def test_pytorch_model_bin_is_read_where_there_is_no_safetensors(tmp_path):
  source = GOLDEN / "torch_files" / "kinds.pt"
  shutil.copy(source, tmp_path / "pytorch_model.bin")
  found = tensors.read(epath.Path(tmp_path))
  # Whole numbers, such as counts, are no parameters.
  assert {"whole", "transposed"} <= found.keys()
  assert {tensor.dtype for tensor in found.values()} == {np.dtype(np.float32)}
  newer = {"a": np.ones(2, np.float32)}
  tensors.write(epath.Path(tmp_path / "model.safetensors"), newer)
  assert tensors.read(epath.Path(tmp_path)).keys() == {"a"}


def test_written_tensors_are_read_back(tmp_path):
  path = epath.Path(tmp_path / "x.safetensors")
  wanted = {"a": np.arange(6.0, dtype=np.float32).reshape(2, 3).T}
  tensors.write(path, wanted)
  np.testing.assert_array_equal(tensors.read(path)["a"], wanted["a"])


@pytest.fixture
def shards(tmp_path):
  return shutil.copytree(GOLDEN / "huggingface_mae", tmp_path / "mae")


def index(directory) -> dict:
  return json.loads((directory / tensors.INDEX).read_text())


def shard_names(directory) -> list[str]:
  return sorted(set(index(directory)["weight_map"].values()))


def test_shards_make_up_one_file(shards):
  found = tensors.read(epath.Path(shards))
  assert len(shard_names(shards)) == 2
  assert found.keys() == index(shards)["weight_map"].keys()


def test_missing_shard_is_named(shards):
  name = shard_names(shards)[1]
  (shards / name).unlink()
  with pytest.raises(UserError, match=f"{name} does not exist"):
    tensors.read(epath.Path(shards))


def test_shard_without_a_tensor_is_named(shards):
  path = shards / shard_names(shards)[0]
  found = load_file(path)
  gone = sorted(found)[0]
  del found[gone]
  save_file(found, path)
  with pytest.raises(UserError, match=f"'{gone}' is not there"):
    tensors.read(epath.Path(shards))


@pytest.mark.parametrize("name", ["../x.safetensors", "/x.safetensors", "x", 3])
def test_shard_elsewhere_is_refused(shards, name):
  changed = {"weight_map": {"a": name}}
  (shards / tensors.INDEX).write_text(json.dumps(changed))
  with pytest.raises(UserError, match="not the name of a shard"):
    tensors.read(epath.Path(shards))


def pickled_shards(directory, *sources):
  """Copies files of `torch.save` to shards of a directory, with an index."""
  places = {}
  for number, source in enumerate(sources):
    name = f"pytorch_model-{number + 1:05}-of-{len(sources):05}.bin"
    shutil.copy(GOLDEN / source, directory / name)
    places |= dict.fromkeys(torch_file.read(GOLDEN / source), name)
  content = json.dumps({"weight_map": places})
  (directory / tensors.PICKLE_INDEX).write_text(content)


def test_pickled_shards_make_up_one_file(tmp_path):
  source = "dino/dinov2.pth"
  pickled_shards(tmp_path, source)
  found = tensors.read(epath.Path(tmp_path))
  wanted = torch_file.read(GOLDEN / source)
  assert found.keys() == wanted.keys()
  for name, tensor in wanted.items():
    np.testing.assert_array_equal(found[name], tensor)
  assert files.is_published(str(tmp_path))


def test_a_missing_pickled_shard_and_whole_numbers_are_named(tmp_path):
  pickled_shards(tmp_path, "dino/dinov2.pth", "torch_files/kinds.pt")
  with pytest.raises(UserError, match="'count' holds int64"):
    tensors.read(epath.Path(tmp_path))
  (tmp_path / "pytorch_model-00001-of-00002.bin").unlink()
  with pytest.raises(UserError, match="00001-of-00002.bin does not exist"):
    tensors.read(epath.Path(tmp_path))


def rekeyed(directory, key):
  """Gives the class token in the only pickled shard another key."""
  shard = directory / "pytorch_model-00001-of-00001.bin"
  with zipfile.ZipFile(shard) as archive:
    entries = {entry: archive.read(entry) for entry in archive.infolist()}
  name = b"X\x09\0\0\0cls_token"
  assert sum(data.count(name) for data in entries.values()) == 1
  with zipfile.ZipFile(shard, "w") as archive:
    for entry, data in entries.items():
      archive.writestr(entry.filename, data.replace(name, key))


def test_a_tensor_without_a_name_in_a_pickled_shard_is_no_parameter(tmp_path):
  """A number is its key, as in the state of an optimizer."""
  pickled_shards(tmp_path, "dino/dinov2.pth")
  rekeyed(tmp_path, b"K\x01")
  with pytest.raises(UserError, match="'cls_token' is not there"):
    tensors.read(epath.Path(tmp_path))


def test_places_of_tokens_in_pickled_shards_are_no_parameters(tmp_path):
  pickled_shards(tmp_path, "dino/dinov2.pth")
  rekeyed(tmp_path, b"X\x0e\0\0\0a.position_ids")
  index = tmp_path / tensors.PICKLE_INDEX
  index.write_text(index.read_text().replace("cls_token", "a.position_ids"))
  found = tensors.read(epath.Path(tmp_path))
  wanted = torch_file.read(GOLDEN / "dino/dinov2.pth").keys() - {"cls_token"}
  assert found.keys() == wanted


VALUES = st.recursive(
  st.none()
  | st.booleans()
  | st.integers()
  | st.floats()
  | st.text(max_size=5)
  | st.sampled_from(["vit", "bit", "gelu", [4, 4], 1e-12, 16, 32]),
  lambda inner: (
    st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=3), inner, max_size=3)
  ),
  max_leaves=4,
)


def read_or_refuse(directory) -> None:
  try:
    assert isinstance(huggingface.read(directory), Weights)
  except UserError as error:
    assert str(error)


@settings(max_examples=150)
@given(st.data())
def test_any_directory_gives_weights_or_a_sentence(tmp_path_factory, data):
  name = data.draw(st.sampled_from(["huggingface_vit", "huggingface_bit"]))
  directory = tmp_path_factory.mktemp("fuzz") / name
  shutil.copytree(folder(name), directory)
  file = data.draw(
    st.sampled_from(
      ["config.json", "preprocessor_config.json", "model.safetensors"]
    )
  )
  path = directory / file
  if file == "model.safetensors":
    content = bytearray(path.read_bytes())
    places = st.integers(0, 3000) | st.integers(0, len(content) - 1)
    for _ in range(data.draw(st.integers(0, 3))):
      content[data.draw(places)] = data.draw(st.integers(0, 255))
    end = data.draw(st.none() | places)
    path.write_bytes(bytes(content[:end]))
  else:
    values = json.loads(path.read_text())
    names = st.sampled_from(sorted(values))
    values |= data.draw(st.dictionaries(names, VALUES, max_size=2))
    path.write_text(json.dumps(values))
  read_or_refuse(directory)
