import errno
import hashlib
import os

import pytest
from etils import epath

from vit_jax.data import checksums
from vit_jax.errors import UserError


@pytest.fixture
def directory(tmp_path):
  """Three files and their checksums."""
  for number in range(3):
    (tmp_path / f"{number}.bin").write_bytes(bytes([number]) * 5_000_000)
  files = {p.name: checksums.of_file(p) for p in tmp_path.iterdir()}
  checksums.write(epath.Path(tmp_path), files)
  return epath.Path(tmp_path)


def _verify(directory):
  shown = []
  files = checksums.read(directory)
  checksums.verify(directory, files, lambda *all: shown.append(all))
  return shown


def test_they_are_sha256_of_the_whole_file(directory):
  found = checksums.read(directory)["1.bin"]
  content = (directory / "1.bin").read_bytes()
  assert found.sha256 == hashlib.sha256(content).hexdigest()
  assert found.size == 5_000_000


def test_whole_files_pass(directory):
  assert _verify(directory)[-1] == ("files", 3, 3)


def test_file_systems_that_cannot_be_written_to_can_be_checked(
  directory, monkeypatch
):
  """Some, as squashfs, refuse fsync."""

  def fsync(descriptor):
    raise OSError(errno.EINVAL, "Invalid argument")

  monkeypatch.setattr(os, "fsync", fsync)
  assert _verify(directory)[-1] == ("files", 3, 3)


def test_one_flipped_bit_is_found(directory):
  path = directory / "1.bin"
  content = bytearray(path.read_bytes())
  content[4_999_999] ^= 1
  path.write_bytes(content)
  with pytest.raises(UserError, match=r"1 of 3 files .* 1.bin \(other bytes\)"):
    _verify(directory)


def test_missing_and_shorter_files_are_named_together(directory):
  (directory / "0.bin").unlink()
  (directory / "2.bin").write_bytes(b"short")
  with pytest.raises(UserError) as error:
    _verify(directory)
  message = str(error.value)
  assert "2 of 3 files" in message
  assert "0.bin (No such file or directory)" in message
  assert "2.bin (5 bytes instead of 5000000)" in message


def test_datasets_without_checksums_have_none(tmp_path):
  assert checksums.read(epath.Path(tmp_path)) is None


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("{", "is damaged"),
    ("[]", "is damaged"),
    ('{"sha256": {"a": 1}}', "is damaged"),
    ('{"sha256": {"../a": {"size": 1, "sha256": ""}}}', "not in its folder"),
  ],
)
def test_damaged_lists_are_told(tmp_path, text, message):
  (tmp_path / checksums.FILE).write_text(text)
  with pytest.raises(UserError, match=message):
    checksums.read(epath.Path(tmp_path))
