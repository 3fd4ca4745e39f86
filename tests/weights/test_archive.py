"""Arrays of .npz files: what `test_npz` does not reach through whole models."""

import io
import zipfile

import numpy as np
import pytest
from etils import epath

from vit_jax.errors import UserError
from vit_jax.weights import archive


def everything(names):
  return names


def header(shape, dtype="<f4"):
  """An array's header in front of four bytes."""
  file = io.BytesIO()
  np.lib.format.write_array_header_1_0(
    file, {"shape": shape, "fortran_order": False, "descr": dtype}
  )
  return file.getvalue() + b"\0\0\0\0"


def saved(path, **members):
  with zipfile.ZipFile(path, "w") as file:
    for name, content in members.items():
      file.writestr(f"{name}.npy", content)
  return epath.Path(path)


@pytest.mark.parametrize("shape", [(2,), (2**33,), (2**62,), (2**40, 2**40)])
def test_a_shape_beyond_the_file_takes_no_memory(tmp_path, shape):
  path = saved(tmp_path / "x.npz", a=header(shape))
  with pytest.raises(UserError, match="is damaged: 'a' cannot be read"):
    archive.read(path, everything)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"hello" * 100])
def test_a_member_that_is_no_array_is_damage(tmp_path, content):
  path = saved(tmp_path / "x.npz", a=content)
  with pytest.raises(UserError, match="is damaged: 'a' cannot be read"):
    archive.read(path, everything)


def test_bytes_beyond_the_shape_are_damage(tmp_path):
  path = saved(tmp_path / "x.npz", a=header(()) + b"more")
  with pytest.raises(UserError, match="longer than its shape"):
    archive.read(path, everything)


def test_what_is_not_selected_is_not_read(tmp_path):
  path = saved(tmp_path / "x.npz", a=header(()), b=b"damaged")
  contents = archive.read(path, lambda names: names[:1])
  assert contents.names == ["a", "b"] and set(contents.arrays) == {"a"}
  assert contents.arrays["a"] == 0 and contents.comment == b""


def test_arrays_in_column_order_keep_their_elements(tmp_path):
  array = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
  archive.write(epath.Path(tmp_path / "x.npz"), {"a": array}, b"comment")
  contents = archive.read(epath.Path(tmp_path / "x.npz"), everything)
  np.testing.assert_array_equal(contents.arrays["a"], array)
  assert contents.comment == b"comment"
