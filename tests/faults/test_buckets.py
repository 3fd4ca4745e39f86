"""Whole runs whose workdir is in a bucket."""

import json
import random
import re
import signal
import time

import pytest
from etils import epath

import vit_jax
from tests import experiments
from tests.buckets import run as bucket_run
from tests.faults import runs
from vit_jax import buckets
from vit_jax.errors import UserError
from vit_jax.evaluate import evaluate
from vit_jax.pretrained import reading
from vit_jax.report import load
from vit_jax.train import train

CONFIG = {"checkpoint__keep_last": 2, "model__dropout_rate": 0.1}
COMMITTED = "commit_success.txt"


@pytest.fixture
def find_buckets(storage, monkeypatch):
  """Makes the train commands of `runs` find the bucket."""
  command = runs.command

  def finding(workdir, **options):
    _, _, module, *arguments = command(workdir, **options)
    return bucket_run.command(storage.url, module, *arguments)

  monkeypatch.setattr(runs, "command", finding)


def files(workdir):
  """All but checkpoints and events, whose names differ from run to run."""
  found = set()
  for path in workdir.iterdir():
    if path.is_dir() and path.name != "checkpoints":
      found |= {f"{path.name}/{name}" for name in files(path)}
    elif path.is_dir() or path.name.startswith("events."):
      found.add(path.name.partition(".")[0])
    else:
      found.add(path.name)
  return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
  """The same run in a directory."""
  workdir = tmp_path_factory.mktemp("undisturbed")
  assert train(experiments.config(**CONFIG), str(workdir)) == 0
  return epath.Path(workdir)


@pytest.fixture(scope="module")
def objects():
  """What a finished run left in its bucket, by name; trained for the first."""
  return {}


@pytest.fixture
def finished(bucket, storage, objects):
  at = name_of(bucket)
  if not objects:
    assert train(experiments.config(**CONFIG), str(bucket)) == 0
    for name in in_order(storage, at):
      objects[name.removeprefix(f"{at}/")] = storage.read(name)
  else:
    for name, data in objects.items():
      storage.put(f"{at}/{name}", data)
  return bucket


def name_of(path):
  return "/".join(path.parts[3:])


def in_order(storage, at):
  """Names below another, in the order in which they were written."""
  names = storage.names(f"{at}/")
  return sorted(names, key=lambda name: storage.objects[name].generation)


@pytest.mark.slow
def test_a_run_in_a_bucket_is_the_run_in_a_directory(
  finished, undisturbed, tmp_path, repo
):
  assert files(finished) == files(undisturbed)
  assert runs.values(finished) == runs.values(undisturbed)
  assert runs.saved_steps(finished) == runs.saved_steps(undisturbed) == [4, 6]
  ours, theirs = load.load_run(finished), load.load_run(undisturbed)
  assert ours.notes == theirs.notes == ()
  assert [e.examples for e in ours.evaluations] == [
    e.examples for e in theirs.evaluations
  ]
  page = (finished / "report" / "index.html").read_text()
  assert page.startswith("<!DOCTYPE html>") and "</html>" in page
  assert not any((tmp_path / "here").glob("vit_jax-*"))
  assert not (repo / "gs:").exists()


def test_what_is_read_from_a_bucket_is_what_is_in_a_directory(
  finished, undisturbed, tmp_path
):
  config = experiments.config(**CONFIG)
  measured = evaluate(config, str(finished))
  assert measured == evaluate(config, str(undisturbed))
  model, params = vit_jax.load(str(finished))
  vit_jax.save(f"{finished}/weights.npz", model, params)
  vit_jax.save(str(tmp_path / "weights.npz"), model, params)
  ours = (finished / "weights.npz").read_bytes()
  assert ours == (tmp_path / "weights.npz").read_bytes()
  assert reading.read(f"{finished}/weights.npz").model.depth == 2


def test_a_run_starts_from_a_bucket(finished, tmp_path):
  config = experiments.config(
    init_from=f"{finished}/checkpoints/4", total_steps=2
  )
  assert train(config, str(tmp_path / "next")) == 0


def test_a_damaged_step_is_moved_and_the_one_before_is_used(
  finished, storage, undisturbed, caplog
):
  name = name_of(finished / "checkpoints" / "6")
  arrays = storage.names(f"{name}/state/d/")[0]
  content = bytearray(storage.read(arrays))
  content[len(content) // 2] ^= 1
  storage.put(arrays, bytes(content))
  with pytest.raises(UserError, match="checkpoints/6 is damaged"):
    evaluate(experiments.config(**CONFIG), str(finished))
  assert train(experiments.config(**CONFIG), str(finished)) == 0
  assert "damaged-6, and the checkpoint before it is used" in caplog.text
  found = {path.name for path in (finished / "checkpoints").iterdir()}
  assert found == {"4", "6", "damaged-6"}
  assert runs.values(finished) == runs.values(undisturbed)


def test_a_finished_run_keeps_its_length_in_the_bucket(finished):
  shorter = {"total_steps": 4, "allow_change": "total_steps"}
  config = experiments.config(**{**CONFIG, **shorter})
  assert train(config, str(finished)) == 0
  for name in ("config.json", "summary.json"):
    assert json.loads((finished / name).read_text())["total_steps"] == 6


def test_records_in_a_bucket_whose_checkpoints_are_gone_are_kept(
  finished, objects
):
  for path in (finished / "checkpoints").iterdir():
    path.rmtree()
  assert train(experiments.config(**CONFIG), str(finished)) == 0
  kept = [path for path in finished.iterdir() if "-before-" in path.name]
  assert len(kept) == 6
  for path in kept:
    name = re.sub(r"-before-\w+-\w+-\w+Z", "", path.name)
    for file in buckets.files(path) if path.is_dir() else [path]:
      at = f"{name}/{file.relative_to(path)}".removesuffix("/.")
      assert file.read_bytes() == objects[at]


def test_a_save_that_was_cut_short_is_no_step(
  finished, storage, undisturbed, caplog
):
  step = finished / "checkpoints" / "6"
  (step / COMMITTED).unlink()  # It is written last.
  (step / "manifest.json").unlink()
  assert reading.locate(str(finished))[1] == 4
  assert train(experiments.config(**CONFIG), str(finished)) == 0
  assert "damaged" not in caplog.text
  assert runs.saved_steps(finished) == [4, 6]
  assert runs.values(finished) == runs.values(undisturbed)


def test_the_manifest_comes_before_the_step_counts(finished, storage):
  name = name_of(finished / "checkpoints" / "6")
  last = [n.removeprefix(f"{name}/") for n in in_order(storage, name)[-2:]]
  assert last == ["manifest.json", COMMITTED]


def test_records_that_cannot_be_copied_for_a_while_cost_nothing(
  bucket, storage, undisturbed, caplog
):
  refusals = []

  def refused(kind, name):
    if kind != "write" or not name.endswith("metrics.jsonl"):
      return False
    refusals.append(name)
    return len(refusals) <= 2

  storage.refused = refused
  assert train(experiments.config(**CONFIG), str(bucket)) == 0
  assert len(refusals) > 2
  assert caplog.text.count("ALARM") == 1
  assert runs.values(bucket) == runs.values(undisturbed)


def test_a_run_whose_records_are_missing_does_not_end_well(bucket, storage):
  storage.refused = lambda kind, name: (
    kind == "write" and name.endswith("metrics.jsonl")
  )
  with pytest.raises(UserError) as error:
    train(experiments.config(**CONFIG), str(bucket))
  assert f"The records of {bucket} cannot be written" in str(error.value)
  assert reading.locate(str(bucket))[1] == 6


def test_a_run_does_not_go_on_without_the_records_before(
  finished, storage, tmp_path
):
  storage.refused = lambda kind, name: name.endswith("metrics.jsonl")
  with pytest.raises(UserError, match="cannot be fetched .Not today"):
    train(experiments.config(**CONFIG), str(finished))
  assert not any((tmp_path / "here").glob("vit_jax-*"))
  assert not (finished / "run.lock").exists()


def test_a_bucket_that_refuses_everything_is_a_sentence(bucket, storage):
  storage.refused = lambda kind, name: True
  with pytest.raises(UserError, match="cannot be written to.*Not today"):
    train(experiments.config(), str(bucket))


@pytest.mark.slow
def test_a_second_job_is_refused_and_a_stopped_one_saves(
  repo, bucket, find_buckets
):
  # Lines come with the first save; long enough that it cannot end before it
  # hears of the request.
  options = {
    "total_steps": 100_000,
    **runs.SELDOM,
    "checkpoint.every_steps": 50,
  }
  process = runs.start(repo, bucket, **options)
  runs.wait_for_step(process, bucket, 50)
  with pytest.raises(UserError) as error:
    train(experiments.config(), str(bucket))
  assert f"{bucket} is in use by process" in str(error.value)
  process.send_signal(signal.SIGTERM)
  runs.end(process, 42)
  summary = json.loads((bucket / "summary.json").read_text())
  assert summary["status"] == "preempted"
  stopped = summary["step"]
  assert runs.saved_steps(bucket)[-1] == stopped
  steps = [line["step"] for line in runs.lines(bucket)]
  assert steps == list(range(1, stopped + 1))


@pytest.mark.exhaustive
def test_a_killed_run_goes_on_to_bit_identical_losses(
  repo, bucket, find_buckets, tmp_path
):
  runs.end(runs.start(repo, tmp_path / "whole"))
  rng = random.Random(0)
  for saved in (4, 12, 20):
    process = runs.start(repo, bucket)
    step = bucket / "checkpoints" / str(saved)
    runs.wait_for(process, (step / "_CHECKPOINT_METADATA").exists)
    time.sleep(rng.uniform(0, 0.3))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    latest = reading.verification.steps_in(bucket / "checkpoints")
    written = {line["step"] for line in runs.lines(bucket)}
    assert not latest or written >= set(range(1, latest[-1] + 1))
  runs.end(runs.start(repo, bucket))
  assert runs.values(bucket) == runs.values(epath.Path(tmp_path / "whole"))


@pytest.mark.exhaustive
def test_two_processes_share_a_bucket(repo, bucket, find_buckets):
  for process in runs.start_together(repo, bucket, 2, total_steps=8):
    runs.end(process)
  steps = [step for step, name in runs.values(bucket) if name == "train/loss"]
  assert steps == list(range(1, 9))
  assert runs.saved_steps(bucket)[-1] == 8
  assert reading.read(str(bucket)).model.depth
