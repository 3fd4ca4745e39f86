"""Runs whose loss or gradient is not finite, by what the config asks for."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from tests import experiments
from vit_jax import records
from vit_jax.data import generated, order
from vit_jax.errors import DivergedError
from vit_jax.objectives import losses
from vit_jax.rundir.run_directory import RunDirectory
from vit_jax.train import train
from vit_jax.training import loop, spikes
from vit_jax.training.recovery import Recovery

STEPS, BATCH, EXAMPLES = 9, 16, 640
SAVES = 2  # Steps between them.


def config(**changes):
  settings = {
    "train__dataset": f"generated:classes=4,size=8,examples={EXAMPLES}",
    "total_steps": STEPS,
    "checkpoint__every_steps": SAVES,
    "checkpoint__keep_last": 2,
    "model__dropout_rate": 0.1,
    "evals": {},
  }
  return experiments.config(**(settings | changes))


def poison(monkeypatch, *batches, factor=jnp.nan):
  """Multiplies the loss of these batches.

  Batch n, of the stream's rows n * BATCH and following, is that of step n + 1
  in an undisturbed run. One of its examples gets a label that is no class, and
  the loss stumbles over it.
  """
  rows = np.array([batch * BATCH + 3 for batch in batches])
  ids, _ = order.example_ids(rows, EXAMPLES, seed=0)
  read, softmax = generated.GeneratedSource.read, losses.LOSSES["softmax"]

  def poisoned_read(self, wanted):
    record = read(self, wanted)
    record["label"][np.isin(wanted, ids)] = 4
    return record

  def poisoned_loss(logits, labels, **options):
    shown = jnp.where(labels == 4, 0, labels)
    loss = softmax(logits, shown, **options)
    return jnp.where(labels == 4, factor, 1.0) * loss

  monkeypatch.setattr(generated.GeneratedSource, "read", poisoned_read)
  monkeypatch.setitem(losses.LOSSES, "softmax", poisoned_loss)


def lines(workdir):
  """Metrics lines without what depends on the clock."""
  return [
    {k: v for k, v in line.items() if not k.startswith("perf/")}
    for line in records.read_lines(workdir / "metrics.jsonl")
  ]


def saved_steps(workdir):
  return sorted(int(p.name) for p in (workdir / "checkpoints").iterdir())


def stop_after(monkeypatch, step):
  """Makes runs end, as if killed, when they have logged `step`."""
  write = RunDirectory.write

  def killed(self, at, metrics):
    if at > step:
      raise KeyboardInterrupt
    write(self, at, metrics)

  monkeypatch.setattr(RunDirectory, "write", killed)


def asked_to_stop(monkeypatch, step):
  """Makes runs save and leave after `step`."""
  run = loop.train

  def asked(*args, stop, **options):
    return run(*args, stop=lambda at: stop(at) or at == step, **options)

  monkeypatch.setattr(loop, "train", asked)


def test_by_default_the_run_stops_and_names_the_first_bad_tensor(
  tmp_path, monkeypatch
):
  poison(monkeypatch, 4)
  with pytest.raises(DivergedError) as error:
    train(config(), str(tmp_path))
  message = str(error.value)
  assert message.startswith("Training stopped at step 5: loss nan")
  assert "The first tensor that is not finite is the gradient of" in message
  assert "The checkpoint of step 4 is untouched." in message
  assert [line["step"] for line in lines(tmp_path)] == [1, 2, 3, 4]
  assert saved_steps(tmp_path) == [2, 4]
  summary = json.loads((tmp_path / "summary.json").read_text())
  assert summary["status"] == "diverged"


def test_a_skipped_step_changes_nothing_but_the_count(
  tmp_path, monkeypatch, caplog
):
  poison(monkeypatch, 4)
  assert train(config(faults__not_finite="skip"), str(tmp_path)) == 0
  found = lines(tmp_path)
  assert [line["step"] for line in found] == list(range(1, STEPS + 1))
  losses = [line["train/loss"] for line in found]
  assert [loss is None for loss in losses] == [i == 4 for i in range(STEPS)]
  counts = [line["train/skipped_steps"] for line in found]
  assert counts == [0, 0, 0, 0, 1, 1, 1, 1, 1]
  assert "The update is left out at step 5: loss nan" in caplog.text
  assert saved_steps(tmp_path) == [8, 9]


def test_skipping_has_an_end(tmp_path, monkeypatch):
  poison(monkeypatch, 2, 3, 4)
  settings = config(faults__not_finite="skip", faults__max_not_finite=2)
  with pytest.raises(DivergedError, match="left out 2 times already"):
    train(settings, str(tmp_path))


def test_rolling_back_goes_on_with_other_examples(
  tmp_path, monkeypatch, caplog
):
  poison(monkeypatch, 4)
  assert train(config(faults__not_finite="roll_back"), str(tmp_path)) == 0
  found = lines(tmp_path)
  assert [line["step"] for line in found] == list(range(1, STEPS + 1))
  assert all(np.isfinite(line["train/loss"]) for line in found)
  counts = [line["train/roll_backs"] for line in found]
  assert counts == [0] * 4 + [1] * 5
  assert "Going back from step 5 to 4" in caplog.text
  directory = tmp_path / "checkpoints" / str(STEPS)
  saved = json.loads((directory / "metadata" / "metadata").read_text())
  # Batch 4 was left out: step 5 was made with batch 5.
  assert saved["first_example"] == (STEPS + 1) * BATCH
  assert saved["roll_backs"] == 1


@pytest.mark.slow
def test_rolling_back_equals_a_run_that_never_saw_the_batches(
  tmp_path, monkeypatch
):
  """Two saves back from step 6: steps 3 and on see batches 6 and on."""
  # Augmentation would depend on the row.
  settings = {"train__preprocess": "decode", "faults__roll_back_checkpoints": 2}
  settings |= {"faults__not_finite": "roll_back"}
  with monkeypatch.context() as context:
    poison(context, 5)
    train(config(**settings), str(tmp_path / "rolled"))
  example_ids = order.example_ids

  def without(rows, *args, **kwargs):
    moved = np.where(rows >= 2 * BATCH, rows + 4 * BATCH, rows)
    return example_ids(moved, *args, **kwargs)

  monkeypatch.setattr(order, "example_ids", without)
  train(config(**settings), str(tmp_path / "never"))
  rolled, never = [
    [line["train/loss"] for line in lines(tmp_path / name)]
    for name in ("rolled", "never")
  ]
  assert rolled == never


def expect_spikes_early(monkeypatch):
  monkeypatch.setattr(spikes, "WINDOW", 3)


def test_a_spike_is_warned_of(tmp_path, monkeypatch, caplog):
  expect_spikes_early(monkeypatch)
  poison(monkeypatch, 5, factor=1e4)
  assert train(config(), str(tmp_path)) == 0
  assert "Step 6 is a spike: loss" in caplog.text
  counts = [line.get("train/spikes", 0) for line in lines(tmp_path)]
  assert counts == [0] * 5 + [1] * 4


@pytest.mark.slow
def test_the_update_of_a_spike_may_be_left_out(tmp_path, monkeypatch, caplog):
  """What follows is as if the batch had been any other that is left out."""
  expect_spikes_early(monkeypatch)
  poison(monkeypatch, 5, factor=1e4)
  settings = config(faults__on_spike="skip", faults__not_finite="skip")
  train(settings, str(tmp_path / "spike"))
  assert "Step 6 is a spike, and its update is left out" in caplog.text
  poison(monkeypatch, 5)
  train(settings, str(tmp_path / "nan"))
  spike, nan = (
    [line["train/loss"] for line in lines(tmp_path / name)]
    for name in ("spike", "nan")
  )
  assert spike[6:] == nan[6:] and nan[5] is None and spike[5] > 100


POLICIES = {
  "spike": {"faults__on_spike": "skip"},
  "skip": {"faults__not_finite": "skip"},
  "back": {"faults__not_finite": "roll_back", "checkpoint__keep_last": 1},
  "back two": {
    "faults__not_finite": "roll_back",
    "faults__roll_back_checkpoints": 2,
    "checkpoint__keep_last": 1,
  },
}


def hurt(monkeypatch, policy):
  """Makes batches 2 and 5 what the policy is for."""
  expect_spikes_early(monkeypatch)
  spiky = "faults__on_spike" in policy
  poison(monkeypatch, 2, 5, factor=1e4 if spiky else jnp.nan)


@pytest.fixture(scope="module", params=POLICIES.values(), ids=POLICIES)
def undisturbed(request, tmp_path_factory):
  """A policy and the lines of a run that met batches 2 and 5 under it."""
  workdir = tmp_path_factory.mktemp("undisturbed")
  with pytest.MonkeyPatch.context() as context:
    hurt(context, request.param)
    train(config(**request.param), str(workdir))
  return request.param, lines(workdir)


@pytest.mark.exhaustive
@pytest.mark.parametrize("killed_after", [1, 3, 4, 6, 8])
def test_a_run_that_meets_bad_batches_is_the_same_when_it_is_killed(
  undisturbed, tmp_path, monkeypatch, killed_after
):
  policy, expected = undisturbed
  hurt(monkeypatch, policy)
  with monkeypatch.context() as context:
    stop_after(context, killed_after)
    with pytest.raises(KeyboardInterrupt):
      train(config(**policy), str(tmp_path))
  train(config(**policy), str(tmp_path))
  assert lines(tmp_path) == expected


@pytest.mark.exhaustive
@pytest.mark.parametrize("stopped_after", [4, 5])
def test_it_is_the_same_when_it_is_asked_to_stop_and_saves_in_between(
  undisturbed, tmp_path, monkeypatch, stopped_after
):
  policy, expected = undisturbed
  hurt(monkeypatch, policy)
  with monkeypatch.context() as context:
    asked_to_stop(context, stopped_after)
    assert train(config(**policy), str(tmp_path)) == 42
  train(config(**policy), str(tmp_path))
  assert lines(tmp_path) == expected


def test_a_fault_before_the_first_save_goes_back_to_the_start(
  tmp_path, monkeypatch
):
  poison(monkeypatch, 0)
  assert train(config(faults__not_finite="roll_back"), str(tmp_path)) == 0
  assert len(lines(tmp_path)) == STEPS


def test_rolling_back_further_than_there_are_saves_keeps_the_first(
  tmp_path, monkeypatch, caplog
):
  poison(monkeypatch, 4)
  settings = {"faults__roll_back_checkpoints": 9, "checkpoint__keep_last": 1}
  settings |= {"faults__not_finite": "roll_back", "total_steps": 5}
  assert train(config(**settings), str(tmp_path)) == 0
  assert "Going back from step 5 to 2" in caplog.text
  assert saved_steps(tmp_path)[0] == 2


@pytest.mark.parametrize(("before", "after"), [(2, 5), (3, 2)])
def test_rolling_back_loses_no_save_of_another_interval(
  tmp_path, monkeypatch, caplog, before, after
):
  """The run is stopped behind its first saves, and goes on by `after`."""
  poison(monkeypatch, 3)
  settings = {"faults__not_finite": "roll_back", "checkpoint__keep_last": 9}
  with monkeypatch.context() as context:
    asked_to_stop(context, 3)
    by_before = config(checkpoint__every_steps=before, **settings)
    assert train(by_before, str(tmp_path)) == 42
  first = min(saved_steps(tmp_path))
  assert first == before
  by_after = config(checkpoint__every_steps=after, **settings)
  assert train(by_after, str(tmp_path)) == 0
  assert f"Going back from step 4 to {before}" in caplog.text
  assert first in saved_steps(tmp_path)


def test_rolling_back_passes_over_a_save_that_cannot_be_read(
  tmp_path, monkeypatch, caplog
):
  poison(monkeypatch, 6)
  go_back = Recovery._go_back

  def torn(self, fault):
    self._directory.store.wait()
    path = tmp_path / "checkpoints" / "4" / "metadata" / "metadata"
    path.write_text(path.read_text()[:50])
    return go_back(self, fault)

  monkeypatch.setattr(Recovery, "_go_back", torn)
  settings = {"faults__not_finite": "roll_back", "checkpoint__keep_last": 9}
  assert train(config(**settings), str(tmp_path)) == 0
  assert "Going back from step 7 to 6" in caplog.text


def test_the_newest_save_stays_if_the_one_to_go_back_to_is_damaged(
  tmp_path, monkeypatch
):
  poison(monkeypatch, 4)
  settings = config(
    faults__not_finite="roll_back", faults__roll_back_checkpoints=2
  )
  go_back = RunDirectory.go_back

  def damaged(self, step, seen):
    self.store.wait()
    for path in (tmp_path / "checkpoints" / "2").rglob("*"):
      if path.is_file() and path.stat().st_size > 1000:
        path.write_bytes(bytes(path.stat().st_size))
    return go_back(self, step, seen)

  monkeypatch.setattr(RunDirectory, "go_back", damaged)
  with pytest.raises(DivergedError, match="no checkpoint of step 2 to go back"):
    train(settings, str(tmp_path))
  assert saved_steps(tmp_path) == [2, 4]


def test_rolling_back_has_an_end(tmp_path, monkeypatch):
  poison(monkeypatch, *range(3, 12))
  settings = config(faults__not_finite="roll_back", faults__max_not_finite=3)
  with pytest.raises(DivergedError, match="gone back from 3 times already"):
    train(settings, str(tmp_path))
  summary = json.loads((tmp_path / "summary.json").read_text())
  # Step 4 failed with batch 3, and step 3 with batches 4, 5 and 6.
  assert summary["images_seen"] == 7 * BATCH


def test_a_state_that_is_not_finite_is_never_saved(tmp_path, monkeypatch):
  """The update overflows though loss and gradient are finite."""
  settings = config(
    schedule__base_lr=1e38,
    optimizer__lr_multipliers=((".*", 1e6),),
    schedule__warmup_steps=0,
    schedule__decay="constant",
    optimizer__name="sgd",
    optimizer__grad_clip_norm=None,
    checkpoint__every_steps=1,
  )
  with pytest.raises(DivergedError, match="step 1, which is not saved: params"):
    train(settings, str(tmp_path))
  assert saved_steps(tmp_path) == []
