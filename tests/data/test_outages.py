import errno
import os
import time

import pytest

from vit_jax.data import outages, stored_images
from vit_jax.errors import UserError


class Storage:
  """A storage whose reads fail in turn with the errors given."""

  def __init__(self, *errors):
    self.errors = list(errors)

  def read(self):
    if self.errors:
      raise self.errors.pop(0)
    return "content"


@pytest.fixture
def pauses(monkeypatch):
  """Pauses made, in seconds, on a clock that stands still but for them."""
  made = []
  monkeypatch.setattr(time, "sleep", made.append)
  monkeypatch.setattr(time, "monotonic", lambda: sum(made))
  return made


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_a_read_is_repeated_until_the_storage_answers(code, pauses, caplog):
  storage = Storage(*[OSError(code, os.strerror(code))] * 8)
  assert outages.outlast("a.jpg", storage.read) == "content"
  assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
  says = f"a.jpg cannot be read ({os.strerror(code)}); trying again."
  assert [record.message for record in caplog.records] == [says]


def test_five_minutes_are_too_long(pauses):
  storage = Storage(*[OSError(errno.EIO, "Input/output error")] * 1000)
  says = r"a\.jpg could not be read for 300 seconds \(Input/output error\)"
  with pytest.raises(outages.StorageError, match=says):
    outages.outlast("a.jpg", storage.read)
  assert 290 < sum(pauses) <= 300


@pytest.mark.parametrize(
  "error",
  [
    FileNotFoundError(errno.ENOENT, "No such file or directory"),
    PermissionError(errno.EACCES, "Permission denied"),
    OSError("of no number"),
    ValueError("of no system"),
    UserError("of a file"),
  ],
)
def test_other_errors_come_at_once(error, pauses):
  with pytest.raises(type(error), match=str(error.args[-1])):
    outages.outlast("a.jpg", Storage(error).read)
  assert not pauses


def test_what_a_library_of_a_bucket_says_is_an_outage(pauses):
  storage = Storage(ConnectionError("502: bad gateway"), RuntimeError("503"))
  assert outages.outlast("gs://bucket/a.jpg", storage.read) == "content"
  assert len(pauses) == 2


def test_an_object_that_is_missing_is_missing_at_once(pauses):
  with pytest.raises(FileNotFoundError):
    outages.outlast("gs://b/a.jpg", Storage(FileNotFoundError("404")).read)
  assert not pauses


def test_the_error_in_a_message_is_found():
  found = outages.named_in("read() failed: Input/output error; reading /a/b")
  assert found.errno == errno.EIO
  assert outages.named_in("the header has a wrong hash") is None


@pytest.mark.skipif(
  not os.path.exists("/proc/self/mem"), reason="needs a file of no content"
)
def test_a_file_that_never_answers_is_named(monkeypatch):
  monkeypatch.setattr(outages, "SECONDS", 0.3)
  with pytest.raises(outages.StorageError, match="^/proc/self/mem could not"):
    stored_images.read_all(["/proc/self/mem"])
