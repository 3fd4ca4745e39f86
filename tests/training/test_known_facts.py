"""What is known of data that are not here."""

import pytest

from tests import experiments
from vit_jax import command_line
from vit_jax.config import resolve
from vit_jax.errors import UserError
from vit_jax.training import experiment, known_facts

# Of the tiny configs, this does not fit a dataset's split.
PLAIN = {"train__preprocess": "decode|inception_crop|flip_lr"}


@pytest.mark.parametrize(
  ("dataset", "split", "classes", "examples"),
  [
    ("imagenet2012", "train", 1000, 1_281_167),
    ("imagenet2012", "train[:50%]+validation", 1000, 640_584 + 50_000),
    ("imagenet2012:5.1.0", "train[:100]", 1000, 100),
    ("cifar100", "train", 100, 50_000),
    ("generated:classes=7,examples=96", "train", 7, 96),
  ],
)
def test_well_known_datasets_are_known(dataset, split, classes, examples):
  config = experiments.config(
    train__dataset=dataset, train__split=split, **PLAIN
  )
  found = known_facts.facts(config)
  assert (found.num_classes, found.num_examples) == (classes, examples)


def test_digits_and_generated_data_have_the_facts_of_their_source():
  for dataset in ("digits", "generated:classes=3,labels=2"):
    config = experiments.config(train__dataset=dataset, **PLAIN)
    true = experiment.facts(config, experiment.open_data(config))
    found = known_facts.facts(config)
    assert found.num_classes == true.num_classes
    assert found.num_examples == true.num_examples
    assert found.max_labels == true.max_labels


def test_the_config_wins():
  config = experiments.config(
    train__dataset="imagenet2012", model__num_classes=1010, **PLAIN
  )
  assert known_facts.facts(config).num_classes == 1010


def test_of_a_stranger_the_config_must_say_what_is_missing():
  changes = {"train__dataset": "our_photos", **PLAIN}
  with pytest.raises(UserError, match="set config.model.num_classes."):
    known_facts.facts(experiments.config(**changes))
  with pytest.raises(
    UserError, match="config.model.num_classes and config.total_steps"
  ):
    known_facts.facts(
      experiments.config(total_steps=None, total_epochs=3, **changes)
    )
  config = experiments.config(model__num_classes=5, **changes)
  assert known_facts.facts(config).num_classes == 5


@pytest.mark.parametrize(
  ("arguments", "classes", "labels"),
  [
    ("model=L/16,data=i1k", 1000, 1),
    ("model=L/16,data=i21k", 21_843, 1),
    ("model=L/16,data=jft", 18_291, 8),
  ],
)
def test_the_papers_pretraining_is_known(repo, arguments, classes, labels):
  path = str(repo / "configs" / "pretrain.py")
  config = resolve.resolve(command_line.load_config(path, arguments))
  found = known_facts.facts(config)
  assert (found.num_classes, found.max_labels) == (classes, labels)
  assert experiment.count_steps(config, found.num_examples) > 90_000
