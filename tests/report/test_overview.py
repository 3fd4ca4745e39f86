"""The head of a report."""

import pytest

from tests.report import workdirs
from vit_jax.report import load, overview

RECORDS = [{"step": step, "train/loss": 1.0} for step in (1, 50, 60)]


def loss_card(tmp_path, records, **config):
  workdir = workdirs.write_run(tmp_path, records=records, config=config)
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
