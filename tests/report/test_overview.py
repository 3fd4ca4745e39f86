"""The head of a report."""

import dataclasses
import json

import pytest

from tests.report import workdirs
from vit_jax.report import load, overview

RECORDS = [{"step": step, "train/loss": 1.0} for step in (1, 50, 60)]


def loss_card(tmp_path, records, **config):
  workdir = workdirs.write_run(tmp_path, records=records, config=config)
  path = workdir / "summary.json"
  found = json.loads(path.read_text()) | {"lines_are_means": True}
  path.write_text(json.dumps(found))
  cards = overview.cards(load.load_run(workdir))
  (card,) = (card for card in cards if card.name == "training loss")
  return card


@pytest.mark.parametrize(
  ("lines", "detail"),
  [
    (1, "step 1"),
    (2, "mean of steps 2 to 50"),
    (3, "mean of steps 51 to 60"),
  ],
)
def test_the_training_loss_is_said_to_be_a_mean(tmp_path, lines, detail):
  assert loss_card(tmp_path, RECORDS[:lines]).detail == detail


@pytest.mark.parametrize("key", ["mixup_alpha", "cutmix_alpha"])
def test_the_loss_of_mixed_images_is_said_to_be_theirs(tmp_path, key):
  card = loss_card(tmp_path, RECORDS, objective={key: 0.8})
  assert card.detail == "mean of steps 51 to 60, of mixed images"


def run_of(tmp_path, summary, **config):
  """A run whose summary and config have these keys besides."""
  workdir = workdirs.write_run(
    tmp_path, records=RECORDS, config=workdirs.CONFIG | config
  )
  path = workdir / "summary.json"
  path.write_text(json.dumps(json.loads(path.read_text()) | summary))
  return load.load_run(workdir)


def test_a_network_without_a_name_is_told_by_its_sizes(tmp_path):
  sizes = "ViT of width 96, depth 4, patches of 4 pixels"
  folder = workdirs.CONFIG["train"] | {"dataset": "folder"}
  run = run_of(tmp_path, {"model": sizes}, train=folder, data_dir="/a/photos/")
  assert overview.title(run) == "ViT on photos"
  assert overview.sentence(run).startswith(f"{sizes}, with ")
  assert "from photos" in overview.sentence(run)
  assert overview.facts(run)["Model"]["network"] == sizes


def test_the_title_names_both_towers(tmp_path):
  described = "ViT-B/16 and a text transformer of width 512 and depth 12"
  towers = {"name": "two_towers", "image": {}, "text": {"width": 512}}
  captions = workdirs.CONFIG["train"] | {"dataset": "captions"}
  run = run_of(
    *(tmp_path, {"model": described}),
    **{"model": towers, "train": captions, "data_dir": "/a/flickr"},
  )
  assert overview.title(run) == "ViT-B/16 and a text tower on flickr"


def test_the_machine_the_images_and_the_epochs_are_facts(tmp_path):
  machine = {"processor": "A chip", "cores": 2, "memory_bytes": 8 * 2**30}
  found = {"hardware": machine, "num_examples": 1280, "flops_per_step": 7e10}
  train = workdirs.CONFIG["train"] | {"batch_size": 64}
  run = run_of(
    tmp_path, found | {"written": "2026-01-02T03:04:05Z"}, train=train
  )
  data = overview.facts(run)["Data and devices"]
  assert data["machine"] == "A chip, 2 cores, 8 GiB"
  assert data["training images"] == "1,280"
  assert data["date"] == "2026-01-02 03:04:05"
  optimisation = overview.facts(run)["Optimisation"]
  assert optimisation["epochs"] == "3"  # 60 x 64 / 1280.
  assert optimisation["computed"] == "4.2 TFLOPs"  # 60 x 7e10.
  assert optimisation.get("estimated cost") is None


def test_what_is_trained_less_is_a_fact(tmp_path):
  optimizer = {"layer_decay": 0.75, "freeze": "embedding/.*"}
  model = workdirs.CONFIG["model"] | {"stochastic_depth_rate": 0.1}
  facts = overview.facts(run_of(tmp_path, {}, optimizer=optimizer, model=model))
  optimisation = facts["Optimisation"]
  assert optimisation["layer decay"] == "0.75"
  assert optimisation["frozen"] == "embedding/.*"
  assert optimisation["stochastic depth"] == "0.1"
  none = {"stochastic_depth_rate": 0.0}
  facts = overview.facts(run_of(tmp_path, {}, model=none))
  assert not {"layer decay", "frozen", "stochastic depth"} & set(
    facts["Optimisation"]
  )


def test_batches_may_have_been_of_another_size_before(tmp_path):
  """Half of 50 were, and the run was killed ten steps after the summary."""
  counted = {"step": 50, "images_seen": 25 * 32 + 25 * 64}
  found = {"num_examples": 1280, "flops_per_step": 7e10}
  train = workdirs.CONFIG["train"] | {"batch_size": 64}
  run = run_of(tmp_path, found | counted, train=train)
  optimisation = overview.facts(run)["Optimisation"]
  assert optimisation["epochs"] == "2.38"  # (2,400 + 10 x 64) / 1280.
  assert optimisation["computed"] == "3.33 TFLOPs"  # 47.5 x 7e10.


def test_a_cosine_that_counts_from_step_0_is_said_to(tmp_path):
  schedule = workdirs.CONFIG["schedule"] | {"decay": "cosine", "end_lr": 1e-5}
  with_prefix = run_of(tmp_path, {}, schedule=schedule)
  words = overview.facts(with_prefix)["Optimisation"]["learning rate"]
  assert words.endswith("after 100 steps of warmup, cosine to 10⁻⁵")
  without = run_of(tmp_path, {}, schedule=schedule | {"warmup_prefix": False})
  assert overview.facts(without)["Optimisation"]["learning rate"] == (
    f"{words} counted from step 0"
  )
  constant = schedule | {"decay": "constant", "warmup_prefix": False}
  unchanged = run_of(tmp_path, {}, schedule=constant)
  words = overview.facts(unchanged)["Optimisation"]["learning rate"]
  assert words.endswith("after 100 steps of warmup, constant")


@pytest.mark.parametrize(
  ("cooldown", "words"),
  [(50, "50 steps"), ("10%", "10% of the run"), ("2 epochs", "2 epochs")],
)
def test_a_cooldown_is_said(tmp_path, cooldown, words):
  keys = {"decay": "rsqrt", "warmup_steps": "5%", "cooldown_steps": cooldown}
  run = run_of(tmp_path, {}, schedule=workdirs.CONFIG["schedule"] | keys)
  assert overview.facts(run)["Optimisation"]["learning rate"].endswith(
    f" after a warmup of 5% of the run, rsqrt, falling to 0 in the last {words}"
  )


def test_one_of_a_thing_is_said_as_one(tmp_path):
  schedule = workdirs.CONFIG["schedule"] | {"warmup_steps": 1}
  train = workdirs.CONFIG["train"] | {"batch_size": 1}
  machine = {"processor": "A chip", "cores": 1}
  run = run_of(tmp_path, {"hardware": machine}, schedule=schedule, train=train)
  facts = overview.facts(run)
  assert "after 1 step of warmup" in facts["Optimisation"]["learning rate"]
  assert facts["Data and devices"]["machine"] == "A chip, 1 core"
  words = overview.sentence(run)
  assert "trained for 60 of 1,500 steps of 1 image from" in words
  short = dict(
    records=tuple(RECORDS[:1]), summary={"step": 1, "total_steps": 1}
  )
  words = overview.sentence(dataclasses.replace(run, **short))
  assert "trained for 1 step of 1 image from" in words


def test_a_price_gives_what_the_run_has_cost(tmp_path):
  found = {"estimated_cost": 1234.5, "goodput": {"device_hours": 823.0}}
  run = run_of(tmp_path, found, log={"price_per_device_hour": 1.5})
  cost = overview.facts(run)["Optimisation"]["estimated cost"]
  assert cost == "1,234.50, for 823 device-hours at 1.5 each"


def test_the_time_is_that_of_all_starts(tmp_path):
  times = {
    "timings": {"total_seconds": 120.0},
    "goodput": {"total_seconds": 7200.0, "starts": 2},
  }
  assert overview.sentence(run_of(tmp_path, times)).endswith(" in 2 h.")
  times["goodput"] = {}
  assert overview.sentence(run_of(tmp_path, times)).endswith(" in 2 min.")


@pytest.mark.parametrize(
  ("variant", "words"),
  [("Ti/4", "32 × 32 px, 64 patches of 4 px"), ("R+Ti/16", "32 × 32 px")],
)
def test_patches_are_those_of_pixels(tmp_path, variant, words):
  model = workdirs.CONFIG["model"] | {"variant": variant}
  run = run_of(tmp_path, {}, model=model)
  assert overview.facts(run)["Model"]["image"] == words
