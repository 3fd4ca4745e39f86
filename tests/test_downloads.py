"""Downloads from a server that is as rough as real ones."""

import numpy as np
import pytest

from tests.rough_server import RoughServer
from vit_jax import downloads

BODY = np.random.default_rng(0).bytes(300_000)


@pytest.fixture
def served(monkeypatch):
  monkeypatch.setattr(downloads, "_SECONDS", 0.5)
  monkeypatch.setattr(downloads, "_PAUSE_SECONDS", 0.0)
  with RoughServer({"a/file": BODY}) as server:
    yield server


@pytest.fixture
def fetch(served, tmp_path):
  """Fetches a path of the server and returns what was written."""

  def fetch(path="a/file"):
    downloads.fetch(f"{served.url}/{path}", tmp_path / "file")
    return (tmp_path / "file").read_bytes()

  return fetch


def test_a_file_arrives_whole(fetch):
  assert fetch() == BODY


def test_a_redirect_is_followed(fetch, served):
  served.redirects["old"] = "a/file"
  assert fetch("old") == BODY


def test_a_connection_that_breaks_goes_on_where_it_broke(fetch, served):
  served.cut_after, served.cuts = 100_000, 2
  assert fetch() == BODY
  asked = [value for _, value in served.requests]
  assert asked == [None, "bytes=100000-", "bytes=200000-"]


def test_a_server_without_ranges_sends_all_again(fetch, served):
  served.cut_after, served.cuts, served.has_ranges = 100_000, 2, False
  assert fetch() == BODY
  # One that breaks at the same place each time is given up.
  served.cuts = 100
  with pytest.raises(downloads.DownloadError, match="100000 of 300000 bytes"):
    fetch()


def test_a_file_that_changed_meanwhile_is_fetched_anew(fetch, served):
  served.cut_after, served.cuts = 100_000, 1
  served.after_cut["a/file"] = BODY[::-1]
  assert fetch() == BODY[::-1]


def test_a_shorter_body_than_announced_is_refused(fetch, served):
  served.length, served.has_ranges = len(BODY) + 10, False
  with pytest.raises(downloads.DownloadError, match="300000 of 300010 bytes"):
    fetch()


def test_a_body_cut_by_a_short_announcement_differs_from_the_checksum(
  fetch, served
):
  served.length = len(BODY) - 10
  with pytest.raises(downloads.DownloadError, match="checksum"):
    fetch()


@pytest.mark.parametrize("status", [403, 404, 503])
def test_a_refusal_is_a_reason(fetch, served, status):
  served.status = status
  with pytest.raises(downloads.DownloadError, match=f"answers {status}") as e:
    fetch()
  assert e.value.status == (None if status == 503 else status)


@pytest.mark.parametrize("status", [408, 429, 503])
def test_a_server_that_is_busy_is_asked_again(fetch, served, status):
  served.status, served.refusals = status, 2
  assert fetch() == BODY
  assert len(served.requests) == 3


def test_a_server_that_says_nothing_is_left(fetch, served):
  served.silent = True
  with pytest.raises(downloads.DownloadError, match=r"no answer in 0\.5 s"):
    fetch()


def test_an_address_where_nobody_listens_is_a_reason(tmp_path):
  with RoughServer({}) as server:
    url = server.url
  with pytest.raises(downloads.DownloadError, match="refused"):
    downloads.fetch(f"{url}/a", tmp_path / "file")
