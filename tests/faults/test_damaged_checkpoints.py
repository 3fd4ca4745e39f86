"""Flipped bits, cut and missing files in checkpoints of real runs."""

import json
import pathlib
import random
import re
import shutil

import pytest

import vit_jax
from tests import experiments
from vit_jax import records
from vit_jax.checkpoint.store import CheckpointStore
from vit_jax.errors import UserError
from vit_jax.evaluate import evaluate
from vit_jax.pretrained import run_files
from vit_jax.train import train

DAMAGES = 50
KEPT = {"checkpoint__keep_last": 2, "model__dropout_rate": 0.1}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
  """A workdir whose run of six steps kept the checkpoints of 4 and 6."""
  workdir = tmp_path_factory.mktemp("finished")
  assert train(experiments.config(**KEPT), str(workdir)) == 0
  return workdir


@pytest.fixture
def workdir(finished, tmp_path):
  return shutil.copytree(finished, tmp_path / "run")


def files_of(step):
  return sorted(path for path in step.rglob("*") if path.is_file())


def harm(step, rng):
  """Does one random thing to one random file; says what."""
  # Files are drawn by kind, so that small ones have their turn.
  path = rng.choice(files_of(step))
  content = bytearray(path.read_bytes())
  kind = rng.choice(["flip", "truncate", "delete"]) if content else "delete"
  if kind == "flip":
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
  elif kind == "truncate":
    path.write_bytes(content[: rng.randrange(len(content))])
  else:
    path.unlink()
  return f"{kind} {path.relative_to(step)}"


def values(workdir):
  return [
    {k: v for k, v in line.items() if not k.startswith("perf/")}
    for line in records.read_lines(workdir / "metrics.jsonl")
  ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(DAMAGES))
def test_any_damage_is_found_and_the_step_before_is_used(workdir, seed, caplog):
  done = harm(workdir / "checkpoints" / "6", random.Random(seed))
  with pytest.raises(UserError, match="checkpoints/6 is damaged") as error:
    evaluate(experiments.config(**KEPT), str(workdir))
  assert str(workdir / "checkpoints" / "4") in str(error.value), done
  store = CheckpointStore(workdir)
  assert store.latest_step() == 4, done
  store.close()
  names = {path.name for path in (workdir / "checkpoints").iterdir()}
  assert names == {"4", "damaged-6"}
  assert "checkpoints/6 is damaged" in caplog.text
  assert "damaged-6, and the checkpoint before it is used" in caplog.text


def test_a_finished_run_trains_the_lost_steps_again(workdir, finished):
  flipped = files_of(workdir / "checkpoints" / "6" / "state" / "d")[0]
  content = bytearray(flipped.read_bytes())
  content[len(content) // 2] ^= 1
  flipped.write_bytes(content)
  assert train(experiments.config(**KEPT), str(workdir)) == 0
  assert values(workdir) == values(finished)
  names = {path.name for path in (workdir / "checkpoints").iterdir()}
  assert names == {"4", "6", "damaged-6"}
  assert evaluate(experiments.config(**KEPT), str(workdir))["step"] == 6


def test_a_run_without_a_sound_checkpoint_stops_and_moves_nothing(workdir):
  for step in (4, 6):
    files_of(workdir / "checkpoints" / str(step))[-1].unlink()
  before = sorted(workdir.rglob("*"))
  with pytest.raises(UserError) as error:
    train(experiments.config(**KEPT), str(workdir))
  assert "No checkpoint of this run can be trusted" in str(error.value)
  assert "checkpoints/4 is damaged" in str(error.value)
  assert "checkpoints/6 is damaged" in str(error.value)
  assert sorted(workdir.rglob("*")) == before


def test_lines_of_a_run_whose_checkpoints_are_gone_are_kept(
  workdir, finished, caplog
):
  shutil.rmtree(workdir / "checkpoints")
  before = (workdir / "metrics.jsonl").read_bytes()
  assert train(experiments.config(**KEPT), str(workdir)) == 0
  (kept,) = workdir.glob("metrics-before-*.jsonl")
  assert kept.read_bytes() == before
  assert "none of its checkpoints: this one begins at step 0" in caplog.text
  assert kept.name in caplog.text
  assert values(workdir) == values(finished)
  assert train(experiments.config(**KEPT), str(workdir)) == 0
  assert list(workdir.glob("metrics-before-*.jsonl")) == [kept]


def test_records_of_a_run_whose_checkpoints_are_gone_are_kept(workdir, caplog):
  shutil.rmtree(workdir / "checkpoints")
  names = ["metrics.jsonl", "summary.json", "config.json", "classes.json"]
  names += ["attempts.json"]
  names += [
    str(path.relative_to(workdir))
    for path in (workdir / "evaluations").rglob("*")
    if path.is_file()
  ]
  assert len(names) > 5
  before = {name: (workdir / name).read_bytes() for name in names}
  changed = experiments.config(**KEPT, seed=1, log__name="other")
  assert train(changed, str(workdir)) == 0
  (kept,) = workdir.glob("config-before-*.json")
  mark = kept.stem.removeprefix("config")
  for name, content in before.items():
    first, *rest = pathlib.Path(name).parts
    moved = pathlib.Path(first)
    moved = workdir / f"{moved.stem}{mark}{moved.suffix}"
    assert moved.name in caplog.text
    assert moved.joinpath(*rest).read_bytes() == content
  after = json.loads((workdir / "config.json").read_text())
  assert (after["seed"], after["log"]["name"]) == (1, "other")
  assert len(list(workdir.glob("*-before-*"))) == 6


def test_a_run_that_is_moved_back_has_its_account_of_the_time(workdir):
  before = json.loads((workdir / "summary.json").read_text())["goodput"]
  (workdir / "checkpoints").rename(workdir / "away")
  assert train(experiments.config(**KEPT), str(workdir)) == 0
  other = json.loads((workdir / "summary.json").read_text())["goodput"]
  assert (other["starts"], other["lost_seconds"]) == (1, 0)
  shutil.rmtree(workdir / "checkpoints")
  (workdir / "away").rename(workdir / "checkpoints")
  for kept in list(workdir.glob("*-before-*")):
    name = re.sub(r"-before-\w+-\w+-\w+Z", "", kept.name)
    if (workdir / name).is_dir():
      shutil.rmtree(workdir / name)
    kept.rename(workdir / name)
  assert train(experiments.config(**KEPT), str(workdir)) == 0
  after = json.loads((workdir / "summary.json").read_text())["goodput"]
  assert after["starts"] == 2
  assert after["lost_seconds"] == 0
  assert after["step_seconds"] == pytest.approx(before["step_seconds"])


def test_the_tokenizer_of_a_run_whose_checkpoints_are_gone_is_kept(workdir):
  run_files.write_tokenizer(workdir, vit_jax.load_tokenizer("bytes", 12))
  kept = workdir / "tokenizer"
  before = {path.name: path.read_bytes() for path in kept.iterdir()}
  shutil.rmtree(workdir / "checkpoints")
  assert train(experiments.config(**KEPT), str(workdir)) == 0
  assert not (workdir / "tokenizer").exists()
  (kept,) = workdir.glob("tokenizer-before-*")
  assert {path.name: path.read_bytes() for path in kept.iterdir()} == before
  assert vit_jax.load_tokenizer(kept).length == 12


def test_evaluation_leaves_a_damaged_checkpoint_where_it_is(workdir):
  files_of(workdir / "checkpoints" / "6")[0].unlink()
  before = sorted(workdir.rglob("*"))
  with pytest.raises(UserError, match="is damaged"):
    evaluate(experiments.config(**KEPT), str(workdir / "checkpoints" / "6"))
  config = experiments.config(**KEPT)
  assert evaluate(config, str(workdir / "checkpoints" / "4"))["step"] == 4
  assert sorted(workdir.rglob("*")) == before


def test_a_run_does_not_start_from_a_damaged_one(workdir, tmp_path):
  files_of(workdir / "checkpoints" / "6")[0].unlink()
  config = experiments.config(init_from=str(workdir))
  with pytest.raises(UserError, match="is damaged"):
    train(config, str(tmp_path / "new"))


def test_a_second_damaged_step_of_the_same_number_gets_its_own_name(workdir):
  (workdir / "checkpoints" / "damaged-6").mkdir()
  files_of(workdir / "checkpoints" / "6")[0].unlink()
  CheckpointStore(workdir).close()
  assert (workdir / "checkpoints" / "damaged-6-2").is_dir()
