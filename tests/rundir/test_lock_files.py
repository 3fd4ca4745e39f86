"""The lock of a workdir in a bucket, by the stand-in's client and by gcsfs."""

import itertools
import json
import threading
import time
import uuid

import pytest
from etils import epath

from tests.buckets import server
from vit_jax.errors import UserError
from vit_jax.rundir import lock_files, workdir_lock
from vit_jax.rundir.workdir_lock import WorkdirLock

# Seconds to wait for what comes in one on an idle machine.
PATIENCE = 100


@pytest.fixture(params=["stand-in", "gcsfs"])
def workdir(request, storage, monkeypatch):
  """An empty place in a bucket; locks are renewed five times a second."""
  name = "bucket" if request.param == "stand-in" else "gcsfs_bucket"
  monkeypatch.setattr(workdir_lock, "RENEW_SECONDS", 0.2)
  monkeypatch.setattr(lock_files.LockObject, "poll_seconds", 0.05)
  return request.getfixturevalue(name)


@pytest.fixture
def gcsfs_bucket(storage, gcsfs_storage):
  gcsfs_storage(storage.url)
  yield epath.Path(f"gs://{server.BUCKET}/{uuid.uuid4().hex[:8]}")
  storage.be_well()


@pytest.fixture
def elsewhere(monkeypatch):
  """Makes every lock one of another machine."""
  numbers = itertools.count()
  monkeypatch.setattr(workdir_lock, "_machine", lambda: f"pod-{next(numbers)}")


def name_of(workdir):
  return "/".join([*workdir.parts[3:], "run.lock"])


def content(storage, workdir):
  return json.loads(storage.read(name_of(workdir)))


def write(storage, workdir, holder):
  storage.put(name_of(workdir), json.dumps(holder).encode())


def other(workdir, **changes):
  """Who held a workdir elsewhere."""
  lock = WorkdirLock(workdir)
  lock.release()
  changes = {"token": "other", "machine": "elsewhere"} | changes
  return lock._owner | changes


def once(kind, answer):
  """Gives an answer to the first request of a kind for a lock."""
  answers = iter([answer])

  def mood(asked, name):
    if asked == kind and name.endswith("/run.lock"):
      return next(answers, 0)
    return 0

  return mood


def wait_for_writes(storage, workdir, count):
  wanted = storage.counts["write", name_of(workdir)] + count
  deadline = time.monotonic() + PATIENCE
  while storage.counts["write", name_of(workdir)] < wanted:
    assert time.monotonic() < deadline
    time.sleep(0.01)


def test_a_lock_goes_with_its_job(workdir, storage):
  lock = WorkdirLock(workdir)
  assert content(storage, workdir) == lock._owner
  lock.release()
  assert storage.names("/".join(workdir.parts[3:])) == []


def test_of_jobs_that_all_see_it_free_exactly_one_gets_it(
  workdir, storage, elsewhere
):
  jobs = 5
  barrier = threading.Barrier(jobs)
  first_looks = iter([barrier] * jobs)

  def together(kind, name):
    if kind == "read" and name == name_of(workdir):
      look = next(first_looks, None)
      if look:
        look.wait()
    return 0

  storage.refused = together
  got, refused = [], []

  def start():
    try:
      got.append(WorkdirLock(workdir))
    except UserError as error:
      refused.append(str(error))

  threads = [threading.Thread(target=start) for _ in range(jobs)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert len(got) == 1 and len(refused) == jobs - 1
  assert all("is in use by process" in words for words in refused)
  assert content(storage, workdir) == got[0]._owner
  got[0].check()
  got[0].release()


def test_a_job_elsewhere_that_lives_keeps_its_bucket(
  workdir, storage, elsewhere
):
  lock = WorkdirLock(workdir)
  with pytest.raises(UserError, match="is in use by process"):
    WorkdirLock(workdir)
  lock.check()
  lock.release()
  assert storage.names("/".join(workdir.parts[3:])) == []


def test_a_dead_job_elsewhere_gives_its_bucket_up(
  workdir, storage, monkeypatch, caplog
):
  monkeypatch.setattr(workdir_lock, "DEAD_SECONDS", 0.5)
  write(storage, workdir, other(workdir, host="pod-7", pid=12))
  lock = WorkdirLock(workdir)
  assert content(storage, workdir) == lock._owner
  assert "was held by process 12 on host pod-7" in caplog.text
  assert storage.names("/".join(workdir.parts[3:])) == [name_of(workdir)]
  lock.release()


def test_a_dead_jobs_bucket_goes_to_the_first_that_takes_it(workdir, storage):
  machine = workdir_lock._machine()
  alive = {"pid": 1, "started": workdir_lock._started(1), "machine": machine}
  dead = other(workdir, machine=machine, pid=1, started="before")
  quicker = other(workdir, token="quicker", host="pod-9", **alive)
  write(storage, workdir, dead)

  def meanwhile(kind, name):
    if kind == "write" and content(storage, workdir) == dead:
      write(storage, workdir, quicker)
    return 0

  storage.refused = meanwhile
  with pytest.raises(UserError, match="in use by process 1 on host pod-9"):
    WorkdirLock(workdir)
  assert content(storage, workdir) == quicker


@pytest.mark.parametrize("answer", [503, server.CUT])
def test_a_lock_that_was_made_though_no_answer_came_is_known_by_its_content(
  workdir, storage, elsewhere, answer
):
  storage.lost = once("write", answer)
  lock = WorkdirLock(workdir)
  assert content(storage, workdir) == lock._owner
  with pytest.raises(UserError, match="is in use by process"):
    WorkdirLock(workdir)
  lock.check()
  lock.release()
  assert storage.names("/".join(workdir.parts[3:])) == []


@pytest.mark.parametrize("answer", [503, server.CUT])
def test_a_dead_lock_that_was_replaced_though_no_answer_came_is_held(
  workdir, storage, monkeypatch, answer
):
  monkeypatch.setattr(workdir_lock, "DEAD_SECONDS", 0.5)
  write(storage, workdir, other(workdir))
  storage.lost = lambda kind, name: (
    answer * (kind == "write" and name.endswith("/run.lock"))
  )
  lock = WorkdirLock(workdir)
  assert content(storage, workdir) == lock._owner
  lock.release()


def test_a_renewal_whose_answer_is_lost_costs_nothing(workdir, storage):
  lock = WorkdirLock(workdir)
  storage.lost = once("write", server.CUT)
  wait_for_writes(storage, workdir, 3)
  lock.check()
  assert content(storage, workdir) == lock._owner
  lock.release()


@pytest.mark.parametrize("status", [403, 429, 503])
def test_a_lock_that_is_refused_is_an_error_and_leaves_nothing(
  workdir, storage, monkeypatch, status
):
  monkeypatch.setattr(lock_files.LockObject, "request_seconds", 1)
  storage.refused = lambda kind, name: status * (kind == "write")
  with pytest.raises(OSError) as error:
    WorkdirLock(workdir)
  assert error.value.strerror
  assert storage.names("/".join(workdir.parts[3:])) == []


@pytest.mark.parametrize("status", [412, 429, 503])
def test_a_lock_that_is_refused_once_is_taken_all_the_same(
  workdir, storage, status
):
  storage.refused = once("write", status)
  lock = WorkdirLock(workdir)
  assert content(storage, workdir) == lock._owner
  lock.release()


def test_a_bucket_that_does_not_answer_for_a_while_is_kept(
  workdir, storage, monkeypatch
):
  monkeypatch.setattr(lock_files.LockObject, "request_seconds", 0.5)
  lock = WorkdirLock(workdir)
  storage.refused = lambda kind, name: 503
  deadline = time.monotonic() + PATIENCE
  asked = storage.counts["read", name_of(workdir)] + 4
  while storage.counts["read", name_of(workdir)] < asked:
    assert time.monotonic() < deadline
    time.sleep(0.01)
  lock.check()
  storage.be_well()
  wait_for_writes(storage, workdir, 2)
  lock.check()
  lock.release()
  assert storage.names("/".join(workdir.parts[3:])) == []


def test_a_job_that_lost_its_bucket_ends(workdir, storage):
  holder = other(workdir, pid=3, host="pod-8")
  lock = WorkdirLock(workdir)
  write(storage, workdir, holder)
  deadline = time.monotonic() + PATIENCE
  with pytest.raises(UserError, match="taken over by process 3 on host pod-8"):
    while time.monotonic() < deadline:
      lock.check()
      time.sleep(0.05)
  lock.release()
  assert content(storage, workdir) == holder


def test_a_renewal_replaces_no_lock_that_came_since_it_looked(
  workdir, storage, monkeypatch
):
  monkeypatch.setattr(workdir_lock, "RENEW_SECONDS", 1000)
  holder = other(workdir, pid=3, host="pod-8")
  lock = WorkdirLock(workdir)

  def meanwhile(kind, name):
    if kind == "write":
      write(storage, workdir, holder)
    return 0

  storage.refused = meanwhile
  monkeypatch.setattr(workdir_lock, "DEAD_SECONDS", 0)
  with pytest.raises(UserError, match="taken over by process 3 on host pod-8"):
    lock.check()
  assert content(storage, workdir) == holder
  lock.release()


def test_a_release_removes_no_lock_that_came_since_it_looked(workdir, storage):
  holder = other(workdir)
  lock = WorkdirLock(workdir)

  def meanwhile(kind, name):
    if kind == "delete":
      write(storage, workdir, holder)
    return 0

  storage.refused = meanwhile
  lock.release()
  assert content(storage, workdir) == holder


def test_a_lock_that_cannot_be_removed_ends_no_run(workdir, storage):
  lock = WorkdirLock(workdir)
  storage.refused = lambda kind, name: 403 * (kind == "delete")
  lock.release()
  assert content(storage, workdir) == lock._owner
