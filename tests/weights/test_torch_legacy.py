"""Checkpoints in PyTorch's form from before 1.6, written here by hand."""

import io
import os
import pathlib
import pickle
import struct
import tarfile

import numpy as np
import pytest

from vit_jax.errors import UserError
from vit_jax.weights import torch_file

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "torch_files"
MAGIC = 0x1950A86A20F9469CFC6C
TABLE = np.arange(6, dtype="<f4")


def doubled(times: int) -> list:
  """Lists that each hold the one before twice."""
  items: list = []
  for _ in range(times):
    items = [items, items]
  return items


def text(value: str) -> bytes:
  return b"X" + struct.pack("<I", len(value)) + value.encode()


def number(value: int) -> bytes:
  return b"J" + struct.pack("<i", value)


def counts(*values: int) -> bytes:
  return b"(" + b"".join(map(number, values)) + b"t"


def storage(key, size, kind="FloatStorage", view=None) -> bytes:
  """A reference to numbers, or to a view of them: first and how many."""
  end = b"N"
  if view is not None:
    end = b"(" + text("9") + b"".join(map(number, view)) + b"t"
  name = b"ctorch\n" + kind.encode() + b"\n"
  return (
    b"("
    + (text("storage") + name + text(key) + text("cpu"))
    + (number(size) + end + b"tQ")
  )


def tensor(storage, shape, strides, offset=0, old=False) -> bytes:
  """A tensor, or one of PyTorch before 0.4, without what training needs."""
  function, end = (b"", b"") if old else (b"_v2", b"\x89N")
  return (
    b"ctorch._utils\n_rebuild_tensor"
    + function
    + b"\n("
    + (storage + number(offset) + counts(*shape) + counts(*strides))
    + end
    + b"tR"
  )


def state(**items: bytes) -> bytes:
  items = b"".join(text(name) + item for name, item in items.items())
  return b"\x80\x02}(" + items + b"u."


def write(
  path, value, storages, *, magic=MAGIC, protocol=1001, keys=None, little=True
):
  facts = {"protocol_version": protocol, "little_endian": little}
  parts = [pickle.dumps(part, 2) for part in (magic, protocol, facts)]
  parts += [value, pickle.dumps(list(storages) if keys is None else keys, 2)]
  for numbers in storages.values():
    parts += [struct.pack("<q", numbers.size), numbers.tobytes()]
  path.write_bytes(b"".join(parts))
  return path


def of_table(**items):
  return state(**(items or {"a": tensor(storage("5", 6), (2, 3), (3, 1))}))


@pytest.mark.parametrize("little", [True, False])
def test_the_numbers_are_little_endian_on_every_computer(tmp_path, little):
  """PyTorch turns them when it writes, whatever it says of the computer."""
  path = write(tmp_path / "x.pth", of_table(), {"5": TABLE}, little=little)
  found = torch_file.read(path)
  np.testing.assert_array_equal(found["a"], TABLE.reshape(2, 3))


def test_a_file_of_pytorch():
  found = torch_file.read(GOLDEN / "legacy.pth")
  assert found.keys() == {"a"}
  table = np.arange(24, dtype=np.float32).reshape(4, 6)
  np.testing.assert_array_equal(found["a"], table)


def test_tensors_share_storages_of_several_kinds(tmp_path):
  """The order of the file's storages is that of its list of them."""
  value = state(
    whole=tensor(storage("5", 6), (6,), (1,)),
    turned=tensor(storage("5", 6), (3, 2), (1, 3)),
    half=tensor(storage("10", 2, "HalfStorage"), (2,), (1,)),
    # In a list, which is not read: its numbers are skipped.
    optimizer=b"](" + tensor(storage("2", 3, "LongStorage"), (3,), (1,)) + b"e",
    flag=tensor(storage("7", 1, "BoolStorage"), (), ()),
  )
  storages = {
    "10": np.array([0.5, 2], "<f2"),
    "2": np.arange(3, dtype="<i8"),
    "5": TABLE,
    "7": np.array([True]),
  }
  found = torch_file.read(write(tmp_path / "x.pth", value, storages))
  assert found.keys() == {"whole", "turned", "half", "flag"}
  np.testing.assert_array_equal(found["whole"], TABLE)
  np.testing.assert_array_equal(found["turned"], TABLE.reshape(2, 3).T)
  np.testing.assert_array_equal(found["half"], np.float32([0.5, 2]))
  assert found["flag"].dtype == np.bool_ and found["flag"]


def test_a_storage_may_be_a_view_of_another(tmp_path):
  value = of_table(a=tensor(storage("5", 6, view=(2, 3)), (2,), (1,), offset=1))
  path = write(tmp_path / "x.pth", value, {"5": TABLE})
  np.testing.assert_array_equal(torch_file.read(path)["a"], [3, 4])


@pytest.mark.parametrize("view", [(2, 5), (-1, 3), (2, -1), (2, 1)])
def test_a_view_stays_inside_its_numbers(tmp_path, view):
  value = of_table(a=tensor(storage("5", 6, view=view), (2,), (1,)))
  path = write(tmp_path / "x.pth", value, {"5": TABLE})
  with pytest.raises(UserError, match="ends after its numbers"):
    torch_file.read(path)


def test_tensors_and_parameters_before_0_4(tmp_path):
  """Variables were objects, with their tensor in the state or an argument."""
  old = tensor(storage("5", 6), (6,), (1,), old=True)
  name = b"ctorch.nn.parameter\nParameter\n"
  value = state(
    plain=old,
    built=name + b")\x81(" + old + b"N\x88\x89Ntb",
    called=name + b"(" + old + b"\x88tR(\x88\x89Ntb",
  )
  found = torch_file.read(write(tmp_path / "x.pth", value, {"5": TABLE}))
  assert found.keys() == {"plain", "built", "called"}
  for array in found.values():
    np.testing.assert_array_equal(array, TABLE)


def test_every_cut_is_damage(tmp_path):
  path = write(tmp_path / "x.pth", of_table(), {"5": TABLE})
  whole = path.read_bytes()
  for length in range(1, len(whole)):
    path.write_bytes(whole[:length])
    with pytest.raises(UserError, match=r"x\.pth is damaged"):
      torch_file.read(path)


@pytest.mark.parametrize(
  "others, message",
  [
    ({"magic": 1}, "a pickle that PyTorch did not write"),
    ({"protocol": 1002}, "its protocol is not 1001"),
    ({"keys": ["6"]}, "its list of numbers"),
    ({"keys": []}, "its list of numbers"),
    ({"keys": 5}, "its list of numbers"),
    ({"keys": [5]}, "its list of numbers"),
    # Its text would have 2^60 brackets.
    ({"keys": [doubled(60)]}, "its list of numbers"),
  ],
)
def test_other_pickles_are_refused(tmp_path, others, message):
  path = write(tmp_path / "x.pth", of_table(), {"5": TABLE}, **others)
  with pytest.raises(UserError, match=message):
    torch_file.read(path)


@pytest.mark.parametrize("size", [5, 7, -6, 2**31 - 1])
def test_sizes_have_to_agree(tmp_path, size):
  value = of_table(a=tensor(storage("5", size), (2,), (1,)))
  path = write(tmp_path / "x.pth", value, {"5": TABLE})
  with pytest.raises(UserError, match=r"x\.pth is damaged"):
    torch_file.read(path)


def test_one_storage_is_of_one_kind(tmp_path):
  value = of_table(
    a=tensor(storage("5", 6), (6,), (1,)),
    b=tensor(storage("5", 6, "IntStorage"), (6,), (1,)),
  )
  path = write(tmp_path / "x.pth", value, {"5": TABLE})
  with pytest.raises(UserError, match="of two kinds"):
    torch_file.read(path)


def test_unknown_numbers_are_named(tmp_path):
  value = of_table(a=tensor(storage("5", 6, "QInt8Storage"), (6,), (1,)))
  path = write(tmp_path / "x.pth", value, {"5": TABLE})
  with pytest.raises(UserError, match=r"torch\.QInt8Storage"):
    torch_file.read(path)


class Calls:
  def __reduce__(self):
    return os.system, ("touch ran",)


@pytest.mark.parametrize("place", ["magic", "protocol", "keys", "value"])
def test_nothing_runs(tmp_path, monkeypatch, place):
  monkeypatch.chdir(tmp_path)
  path, hostile = tmp_path / "x.pth", Calls()
  if place == "value":
    write(path, pickle.dumps({"a": hostile}, 2), {})
  else:
    write(path, of_table(), {"5": TABLE}, **{place: hostile})
  with pytest.raises(UserError, match="not read.*system"):
    torch_file.read(path)
  assert not pathlib.Path("ran").exists()


def test_the_earliest_form_is_named(tmp_path):
  path = tmp_path / "x.pth"
  with tarfile.open(path, "w") as archive:
    archive.addfile(tarfile.TarInfo("storages"), io.BytesIO())
  with pytest.raises(UserError, match="is a tar archive.*torch.save"):
    torch_file.read(path)
