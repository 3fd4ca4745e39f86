"""Checkpoints of PyTorch: what is read, and that nothing in them runs."""

import base64
import builtins
import collections
import datetime
import os
import pathlib
import pickle
import types
import zipfile
import zlib

import numpy as np
import pytest

from vit_jax.errors import UserError
from vit_jax.weights import torch_file

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "torch_files"
TABLE = np.arange(24, dtype=np.float32).reshape(4, 6)


def test_kinds_and_views_are_those_of_torch():
  found = torch_file.read(GOLDEN / "kinds.pt")
  wanted = {
    "whole": TABLE,
    "transposed": TABLE.T,
    "view": TABLE[1:3, ::2],
    "half": TABLE,
    "brain": TABLE,
    "double": TABLE,
    "count": np.array(7),
    "flags": np.array([True, False]),
    "parameter": np.ones(2, np.float32),
    "empty": np.zeros((0, 3), np.float32),
  }
  assert found.keys() == wanted.keys()
  for name, array in wanted.items():
    np.testing.assert_array_equal(found[name], array)
    assert found[name].dtype == array.dtype


def test_settings_beside_the_weights_are_left_out():
  assert torch_file.read(GOLDEN / "deit.pth").keys() == {"model"}


def test_of_a_program_the_attributes_of_its_modules_are_read():
  found = torch_file.read(GOLDEN / "script.pt")
  assert found.keys() == {torch_file.SCRIPT}
  shapes = {name: x.shape for name, x in found[torch_file.SCRIPT].items()}
  assert shapes == {"weight": (2, 2), "bias": (2,)}


def test_nothing_of_a_program_is_run_or_looked_at(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  hostile = pickle.dumps(Calls(os.system, "touch ran"), 2)
  with zipfile.ZipFile(GOLDEN / "script.pt") as source:
    root = source.namelist()[0].split("/")[0]
    with zipfile.ZipFile("x.pt", "w") as target:
      for entry in source.infolist():
        content = source.read(entry)
        if entry.filename == f"{root}/constants.pkl":
          content = hostile
        elif "/code/" in entry.filename:
          content = b"import os; os.system('touch ran')"
        target.writestr(entry.filename, content)
  found = torch_file.read("x.pt")[torch_file.SCRIPT]
  assert found.keys() == {"weight", "bias"}
  assert not pathlib.Path("ran").exists()


def test_a_module_that_is_called_with_something_is_refused(tmp_path):
  data = b"\x80\x02c__torch__.os\nsystem\nX\x03\0\0\0ran\x85R."
  write(tmp_path / "x.pt", data)
  with pytest.raises(UserError, match="x.pt is not read"):
    torch_file.read(tmp_path / "x.pt")


def write(path, data: bytes, compression=zipfile.ZIP_STORED, **entries):
  with zipfile.ZipFile(path, "w", compression) as archive:
    archive.writestr("archive/data.pkl", data)
    for name, content in entries.items():
      archive.writestr(f"archive/{name}", content)


class Calls:
  def __init__(self, function, *arguments):
    self.call = function, arguments

  def __reduce__(self):
    return self.call


def nested(depth: int) -> bytes:
  return b"\x80\x02" + b"}X\x01\0\0\0a" * depth + b"N" + b"s" * depth + b"."


# A list in which every element is twice the one before it.
_BOMB = b"\x80\x02]q\0" + b"".join(
  b"]q%c(h%ch%ce" % (n + 1, n, n) for n in range(200)
)


@pytest.mark.parametrize(
  "data",
  [
    pickle.dumps(Calls(os.system, "touch ran"), 2),
    pickle.dumps(Calls(builtins.eval, "open('ran', 'w')"), 4),
    pickle.dumps({"model": [Calls(open, "ran", "w")]}, 2),
    pickle.dumps(Calls(getattr, Calls(os.system, "touch ran"), "a"), 0),
    b"\x80\x02ctorch\nload\nX\x03\0\0\0ran\x85R.",
    b"\x80\x02cbuiltins\ndict\n}X\x03\0\0\0getNsb.",
    b"\x80\x02cargparse\nNamespace\n}X\x01\0\0\0aNsb.",
    b"(S'touch ran'\nios\nsystem\n.",
    _BOMB + b".",
    nested(100_000),
    b"\x80\x02\x8b\xff\xff\xff\x7f\0.",
    b"\x80\x02\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    b"\x80\x02Nr\xff\xff\xff\x7f.",
    b"I" + b"9" * 100_000 + b"\n.",
    b"\x80\x02}h\x07.",
    b"\x80\x02}",
    b"0.",
    b"",
  ],
)
def test_hostile_pickle_is_refused_and_runs_nothing(
  tmp_path, monkeypatch, data
):
  monkeypatch.chdir(tmp_path)
  write("x.pth", data)
  with pytest.raises(UserError, match=r"x\.pth is (not read|damaged)"):
    torch_file.read("x.pth")
  assert not pathlib.Path("ran").exists()


def test_a_refused_file_comes_with_the_line_that_saves_its_weights(tmp_path):
  """As a sparse tensor, which a state dict alone would still have."""
  data = b"\x80\x02ctorch._utils\n_rebuild_sparse_tensor\n."
  write(tmp_path / "x.pth", data)
  with pytest.raises(UserError) as error:
    torch_file.read(tmp_path / "x.pth")
  assert "_rebuild_sparse_tensor" in str(error.value)
  assert "if x.is_floating_point() and not x.is_sparse}" in str(error.value)


def test_state_of_an_inert_object_is_ignored(tmp_path):
  data = b"\x80\x02}X\x01\0\0\0acargparse\nNamespace\n)\x81}b" + b"s."
  write(tmp_path / "x.pth", data)
  assert torch_file.read(tmp_path / "x.pth") == {}


# OmegaConf.create({"lr": 1e-3, "names": ["x"]}) of omegaconf 2.4.0, as
# {"hyper_parameters": ...} in a pickle of protocol 2.
_OMEGACONF = zlib.decompress(
  base64.b85decode(
    "c-m!BOK;Oa5O$N6Hk&lG1xibK6=-pJg!k)&5J()L5z1*Vm9=&@8N<e#vDXzjtON(7_NVZ7_$S;"
    "sFl#5m5vQG*-EY2czMXG1iymL|JP#&gnFeE#ijg!j&2S;oBRLe2P6nNR92pnHL-vlsw`GX6gYQ"
    "_kxaji+bqEM3`oaiYsz5`LNk#x8;zXv0(<cni5O&$(iqBUFo6138NC7q?I^tx=-Xs%-j5q00ho"
    "5C+%KK&%1YsU46DL8yoGyl~qJ<utSSLc^>Itt?{zXo(-Q`OZ4wM*Xc-G<?XR|a&wKlkZ%G(8fr"
    "qwacABhMgZbXq*ia4oZ#`<y~a%D=cbI|&M=X-de;3SSx)+R9CqJmU%B$KJui@@@bFFR|<S1RLH"
    "w}1uYjB)w4#Y;Y~QAwq^Q*kZPeVI8Ax)d<HOlDoNc-4phto`TcHF|X2;;s)3V9@Ns>It-A2Waj"
    "auzm^~P>8?T!&`X>TTthVPRlV_w)g(^r||IC@1K82uyZV-Ey!@cLZ;$uwgMk1oUOoZBK0jEkTP"
    "&zddK43serkka&U(CN=^Gt)BTF3P7fcz<~%^t65vB9Omu2t`v@O_bK<eZCyvhz{M6#Jxq&};uK"
    "Dvy^A|mQS+wwBk1x=0U-4BQiagBoFzfsU)pzrJ"
  )
)


@pytest.mark.parametrize(
  "data",
  [
    _OMEGACONF,
    *(
      pickle.dumps({"a": value}, 2)
      for value in (
        datetime.timedelta(1),
        datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
        datetime.date(2020, 1, 1),
        collections.deque([1]),
        frozenset([1]),
        types.SimpleNamespace(a=1),
      )
    ),
  ],
  ids=[
    "omegaconf",
    "duration",
    "time",
    "date",
    "deque",
    "frozen set",
    "namespace",
  ],
)
def test_settings_beside_weights_are_ignored(tmp_path, data):
  write(tmp_path / "x.ckpt", data)
  assert torch_file.read(tmp_path / "x.ckpt") == {}


def tensor(offset, shape, strides, size=4) -> bytes:
  storage = (
    b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpu"
    b"J" + size.to_bytes(4, "little") + b"tQ"
  )
  numbers = b"".join(
    b"("
    + b"".join(b"J" + n.to_bytes(4, "little", signed=True) for n in counts)
    + b"t"
    for counts in (shape, strides)
  )
  return (
    b"\x80\x02}X\x01\0\0\0actorch._utils\n_rebuild_tensor_v2\n("
    + storage
    + b"J"
    + offset.to_bytes(4, "little", signed=True)
    + numbers
    + b"tRs."
  )


@pytest.mark.parametrize(
  "offset, shape, strides, size",
  [
    (1, (4,), (1,), 4),
    (0, (2, 2), (3, 1), 4),
    (-1, (2,), (1,), 4),
    (3, (2,), (-1,), 4),
    (0, (1 << 30,), (0,), 4),
    (0, (4,), (1,), 1 << 30),
    (0, (2, 2), (1,), 4),
  ],
)
def test_views_stay_inside_their_numbers(
  tmp_path, offset, shape, strides, size
):
  data = tensor(offset, shape, strides, size)
  write(tmp_path / "x.pth", data, **{"data/0": bytes(16)})
  with pytest.raises(UserError, match=r"x\.pth is (not read|damaged)"):
    torch_file.read(tmp_path / "x.pth")


def test_an_expanded_tensor_repeats_its_numbers(tmp_path):
  """As `torch.ones(1).expand(3, 8)`, within a small multiple of the file."""
  data = tensor(0, (3, 8), (0, 0), 1)
  write(tmp_path / "x.pth", data, **{"data/0": np.float32([7]).tobytes()})
  found = torch_file.read(tmp_path / "x.pth")
  np.testing.assert_array_equal(found["a"], np.full((3, 8), 7, np.float32))


def test_big_endian_numbers_are_turned(tmp_path):
  numbers = np.arange(4, dtype=">f4").tobytes()
  entries = {"data/0": numbers, "byteorder": b"big"}
  write(tmp_path / "x.pth", tensor(1, (3,), (1,)), **entries)
  found = torch_file.read(tmp_path / "x.pth")
  np.testing.assert_array_equal(found["a"], [1, 2, 3])


def test_the_first_form_of_programs_is_named(tmp_path):
  path = tmp_path / "x.pt"
  with zipfile.ZipFile(path, "w") as archive:
    for name in ("model.json", "attributes.pkl", "tensors/0"):
      archive.writestr(f"x/{name}", "{}")
  with pytest.raises(UserError, match=r"TorchScript from before PyTorch 1\.4"):
    torch_file.read(path)


def test_compressed_and_cut_archives_are_refused(tmp_path):
  path = tmp_path / "x.pth"
  write(path, bytes(1 << 20), zipfile.ZIP_DEFLATED)
  with pytest.raises(UserError, match="compressed"):
    torch_file.read(path)
  path.write_bytes((GOLDEN / "kinds.pt").read_bytes()[:-100])
  with pytest.raises(UserError, match="damaged"):
    torch_file.read(path)
  path.write_bytes(b"text")
  with pytest.raises(UserError, match="not a zip archive"):
    torch_file.read(path)
