"""Which runs a sweep is made of, and what each of them sees."""

import pytest

from tests import experiments
from vit_jax.config import best_metric, defaults, schema
from vit_jax.errors import UserError
from vit_jax.sweeping import plan

RATES = {"sweep__learning_rates": (0.1, 0.3)}


def config(**changes):
  return experiments.config(**{**RATES, **changes})


def test_dev_is_held_out_of_train_and_nothing_is_lost():
  assert plan.splits(config()) == ("train[:90%]", "train[90%:]")


def test_a_config_may_say_its_own_splits():
  own = {
    "sweep__train_split": "train[:800]",
    "sweep__dev_split": "validation[:200]",
    "train__split": "train[:800]+validation[:200]",
  }
  assert plan.splits(config(**own)) == ("train[:800]", "validation[:200]")


def test_a_trial_is_trained_without_dev_and_measured_on_dev_alone():
  entry = defaults.default_eval(
    type="classification",
    dataset="digits",
    split="validation",
    label_key="other",
    label_sets="real.json",
    preprocess="decode|resize",
    every_steps=2,
  )
  swept = config(evals__test=entry, train__label_key="mine")
  trial = plan.trial(swept, 0.3, "runs/x")
  assert trial.config.train.split == "train[:90%]"
  assert trial.config.schedule.base_lr == 0.3
  assert list(trial.config.evals) == [trial.evaluator] == ["dev"]
  assert trial.config.evals["dev"] == schema.ClassificationEval(
    type="classification",
    dataset=None,
    split="train[90%:]",
    label_key="mine",
    preprocess="decode|resize",
  )
  assert str(trial.workdir) == "runs/x/lr_0.3"


@pytest.mark.parametrize("prefix", ["", "eval/"])
def test_the_best_checkpoint_of_a_trial_is_the_best_on_dev(prefix):
  swept = config(checkpoint__keep_best=f"{prefix}test/top1", early_stopping=3)
  plan.check(swept)
  trial = plan.trial(swept, 0.3, "runs/x").config
  best = best_metric.find(trial)
  assert best is not None and best.name == "eval/dev/top1"
  assert trial.early_stopping == 3
  final = plan.final(swept, 0.3, "runs/x").config
  assert final.checkpoint == swept.checkpoint


def test_a_trial_without_the_evaluator_of_the_best_keeps_none():
  knn = defaults.default_eval(type="knn", every_steps=2)
  # Of the same name as the evaluator that is measured.
  knn.datasets.test = defaults.default_fewshot_dataset(dataset="digits")
  changes = {"evals__knn": knn, "checkpoint__keep_best": "knn/test/k10"}
  swept = config(**changes)
  plan.check(swept)
  assert plan.trial(swept, 0.3, "runs/x").config.checkpoint.keep_best is None
  with pytest.raises(
    UserError, match="early_stopping = 2 counts .*'test' alone"
  ):
    plan.check(config(early_stopping=2, **changes))


def test_the_last_run_is_the_config_itself_at_the_chosen_rate():
  swept = config()
  final = plan.final(swept, 0.1, "runs/x")
  schedule = swept.schedule.model_copy(update={"base_lr": 0.1})
  trained = final.config.model_copy(update={"log": swept.log})
  assert trained == swept.model_copy(update={"schedule": schedule})
  assert (final.workdir.name, final.evaluator) == ("final_lr_0.1", "test")


def test_every_rate_has_directories_of_its_own():
  rates = (0.3, 0.30000001, 0.30000002)
  trials = {str(plan.trial(config(), r, "runs/x").workdir) for r in rates}
  finals = {str(plan.final(config(), r, "runs/x").workdir) for r in rates}
  assert len(trials | finals) == 6


def test_rates_are_read_from_words():
  assert plan.read_rates(["0.001", "3e-2"]) == (0.001, 0.03)
  with pytest.raises(UserError, match="--learning_rates=0.1,many must be"):
    plan.read_rates(["0.1", "many"])


@pytest.mark.parametrize(
  ("changes", "sentence"),
  [
    ({"sweep__learning_rates": ()}, "No learning rates were named"),
    ({"sweep__learning_rates": (0.1, 0.1)}, "different from each other"),
    ({"train__split": "train[:50%]"}, "now 'train.:50%.'"),
    ({"sweep__dev_split": "test"}, "Set both"),
    ({"evals": {}}, "no evaluator of type 'classification'"),
    ({"checkpoint__keep_best": "dev/top1"}, "Did you mean 'test/top1'"),
  ],
)
def test_a_sweep_that_cannot_be_made_is_a_sentence(changes, sentence):
  with pytest.raises(UserError, match=sentence):
    plan.check(config(**changes))


def test_trackers_show_the_runs_of_a_sweep_as_a_group():
  trial = plan.trial(config(), 0.3, "runs/cifar")
  final = plan.final(config(), 0.3, "runs/cifar")
  assert (trial.config.log.group, trial.config.log.name) == (
    "cifar",
    "cifar/lr_0.3",
  )
  assert (final.config.log.group, final.config.log.name) == (
    "cifar",
    "cifar/final_lr_0.3",
  )
  named = config(log__name="seven", log__group="study")
  trial = plan.trial(named, 0.3, "runs/cifar")
  assert (trial.config.log.group, trial.config.log.name) == (
    "study",
    "seven/lr_0.3",
  )
