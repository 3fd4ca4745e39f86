"""Every kind of damage to a checkpoint's files is found and named."""

import errno
import json

import pytest
from etils import epath

from vit_jax import buckets
from vit_jax.checkpoint import manifest

MIB = 1 << 20


@pytest.fixture
def step(tmp_path):
  """A directory with a large, a small and an empty file, and its manifest."""
  (tmp_path / "state" / "d").mkdir(parents=True)
  (tmp_path / "state" / "d" / "data").write_bytes(bytes(range(256)) * 160_000)
  (tmp_path / "state" / "manifest.json").write_text("{}")
  (tmp_path / "empty").touch()
  manifest.write(tmp_path)
  return tmp_path


def flip(path, byte, bit=0):
  content = bytearray(path.read_bytes())
  content[byte] ^= 1 << bit
  path.write_bytes(content)


def test_files_as_they_were_written_pass(step):
  assert manifest.damage(step) == []


def test_every_file_but_the_manifest_itself_is_in_it(step):
  content = json.loads((step / manifest.NAME).read_text())["content"]
  assert set(content["files"]) == {
    "state/d/data",
    "state/manifest.json",
    "empty",
  }
  assert len(content["files"]["state/d/data"]["crc32"]) == 3


@pytest.mark.parametrize("byte", [0, 16 * MIB - 1, 16 * MIB, 40_959_999])
def test_a_flipped_bit_is_found_in_its_piece(step, byte):
  flip(step / "state" / "d" / "data", byte, bit=7)
  (line,) = manifest.damage(step)
  start = byte // (16 * MIB) * 16 * MIB
  assert line.startswith("state/d/data: not as it was written")
  assert line.endswith(f"from byte {start}")


def test_a_shorter_a_longer_and_a_missing_file_are_found(step):
  (step / "state" / "d" / "data").write_bytes(b"short")
  (step / "empty").write_text("more")
  (step / "state" / "manifest.json").unlink()
  assert sorted(manifest.damage(step)) == [
    "empty: 4 bytes instead of 0",
    "state/d/data: 5 bytes instead of 40960000",
    "state/manifest.json: missing",
  ]


def test_every_bit_of_the_manifest_counts(step):
  path = step / manifest.NAME
  sound = path.read_bytes()
  for byte in range(len(sound)):
    flip(path, byte, bit=byte % 8)
    assert manifest.damage(step), f"byte {byte}"
    path.write_bytes(sound)
  for length in (0, 1, len(sound) // 2, len(sound) - 1):
    path.write_bytes(sound[:length])
    assert manifest.damage(step), f"cut to {length} bytes"
  path.unlink()
  assert manifest.damage(step) == ["manifest.json: missing"]


def test_shares_together_find_what_one_process_does(step):
  for byte in (3, 17 * MIB, 39 * MIB):
    flip(step / "state" / "d" / "data", byte)
  shares = [manifest.damage(step, share=(i, 2)) for i in range(2)]
  assert [len(found) for found in shares] == [2, 1]
  assert sorted(sum(shares, [])) == sorted(manifest.damage(step))


def test_a_manifest_does_not_lead_out_of_its_directory(step, tmp_path):
  content = json.loads((step / manifest.NAME).read_text())["content"]
  content["files"] = {
    "../secret": {"bytes": 1, "crc32": [0]},
    "/etc/hostname": {"bytes": 1, "crc32": [0]},
  }
  (step / manifest.NAME).write_text(manifest._seal(content))
  found = manifest.damage(step)
  assert len(found) == 2
  assert all("outside" in line for line in found)


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOTCONN, None])
def test_a_file_that_cannot_be_reached_is_not_damaged(step, monkeypatch, code):
  def fail(*unused, **unused_too):
    raise OSError(code, "Not now.") if code else OSError("Not now.")

  path = type(epath.Path(step))
  for place, name in ((path, "read_text"), (path, "open"), (buckets, "status")):
    with monkeypatch.context() as context:
      context.setattr(place, name, fail)
      with pytest.raises(OSError, match="Not now"):
        manifest.damage(step)


@pytest.mark.parametrize("code", [errno.EIO, errno.EBADMSG])
def test_a_file_that_the_disk_has_lost_is(step, monkeypatch, code):
  def fail(*unused, **unused_too):
    raise OSError(code, "Gone.")

  monkeypatch.setattr(type(epath.Path(step)), "open", fail)
  found = manifest.damage(step)
  assert found and all("cannot be read (Gone.)" in line for line in found)
