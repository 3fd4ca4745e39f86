"""Model cards."""

import dataclasses

import markdown_it
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.weights.published import GOLDEN, folder
from vit_jax.config import named_sections, schema
from vit_jax.weights import model_card
from vit_jax.weights.spellings import huggingface
from vit_jax.weights.training_record import Training


@pytest.fixture(scope="module")
def weights():
  return huggingface.read(GOLDEN / "huggingface_vit")


def training(**keys) -> Training:
  config = schema.Config(
    model=named_sections.section("model", image_size=16),
    total_steps=1500,
    train=schema.Train(dataset="imagenet2012:5.1.0", split="train[:99%]"),
    optimizer=schema.Optimizer(name="sgd", weight_decay=0.1),
    objective=schema.Supervised(loss="sigmoid", mixup_alpha=0.2),
    evals={"val": schema.ClassificationEval(type="classification")},
  )
  metrics = {"eval/val/top1": 0.8, "eval/val/num_examples": 50_000.0}
  metrics["fewshot/digits/10shot"] = 0.9
  config = config.model_copy(update=keys)
  return Training(config, 1000, metrics, "8 x TPU v4")


def front(card: str) -> dict:
  assert card.startswith("---\n")
  return yaml.safe_load(card.split("\n---\n")[0])


def test_front_matter_has_task_data_and_results(weights):
  found = front(model_card.text("bees", weights, training()))
  assert found["library_name"] == "transformers"
  assert found["pipeline_tag"] == "image-classification"
  assert found["datasets"] == ["imagenet-1k"]
  assert found["metrics"] == ["accuracy"]
  assert "license" not in found
  (entry,) = found["model-index"]
  assert entry["name"] == "bees"
  (result,) = entry["results"]
  assert result["task"]["type"] == "image-classification"
  assert result["dataset"]["split"] == "test"
  assert result["metrics"][0]["value"] == 0.8


@pytest.mark.parametrize(
  ("dataset", "expected"),
  [
    ("datasets:owner/insects@main:small", ["owner/insects"]),
    ("datasets:/data/insects", None),
    ("datasets:insects", None),
  ],
)
def test_datasets_of_the_hub_have_their_names_there(dataset, expected, weights):
  data = schema.Train(dataset=dataset)
  found = front(model_card.text("bees", weights, training(train=data)))
  assert found.get("datasets") == expected


def test_card_tells_architecture_data_recipe_and_results(weights):
  card = model_card.text("bees", weights, training(ema_decay=0.999))
  for words in (
    "17,381 parameters",
    "into 5 classes",
    "`cat: a pet`",
    "width 32, 2 layers of 4 heads",
    "`imagenet2012:5.1.0`, split `train[:99%]`",
    "1,000 of 1,500 updates of 4,096 images",
    "`sgd`, weight decay 0.1",
    "objective: sigmoid cross-entropy, mixup 0.2",
    "mixup 0.2",
    "8 x TPU v4",
    "80.00% (50,000 images)",
    "10-shot linear accuracy of frozen features on `digits`: 90.00%",
    "running average",
    "No license is stated",
  ):
    assert words in card


def test_what_changes_in_the_course_of_a_run_is_told_as_such(weights):
  """As the decay of DINO, and a warmup that is a share of the run."""
  optimizer = schema.Optimizer(name="adamw", weight_decay="cosine(0.04, 0.4)")
  schedule = schema.Schedule(warmup_steps="10%")
  record = training(optimizer=optimizer, schedule=schedule)
  card = model_card.text("bees", weights, record)
  assert "weight decay `cosine(0.04, 0.4)`" in card
  assert "after a warmup of `10%` of the run\n" in card
  record = training(schedule=schema.Schedule(warmup_steps=1000))
  card = model_card.text("bees", weights, record)
  assert "weight decay 0.1" in card
  assert "after a warmup of 1,000 steps\n" in card
  record = training(schedule=schema.Schedule(warmup_steps=1))
  card = model_card.text("bees", weights, record)
  assert "after a warmup of 1 step\n" in card


def test_paths_of_ones_disk_stay_out(weights):
  keys = dict(init_from="/home/me/secret/B_16.npz", data_dir="/home/me/data")
  card = model_card.text("bees", weights, training(**keys))
  assert "started from `B_16.npz`" in card
  assert "/home/me" not in card


def test_unknown_training_is_said(weights):
  card = model_card.text("bees", weights)
  assert "from `huggingface_vit`, which does not say on what data" in card
  assert "model-index" not in front(card)


def test_what_was_assumed_is_said(weights):
  assumed = dataclasses.replace(weights, assumed=("12 heads are taken.",))
  assert "- 12 heads are taken." in model_card.text("bees", assumed)


def test_run_without_evaluation_says_so(weights):
  bare = dataclasses.replace(training(), metrics={})
  card = model_card.text("bees", weights, bare)
  assert "no evaluation of these parameters, of step 1,000" in card


def test_results_of_what_was_changed_since_are_left_out(weights):
  params = {**weights.params, "head": {"kernel": np.zeros((32, 5))}}
  new_head = dataclasses.replace(weights, params=params)
  larger = training(model=weights.model.model_copy(update={"image_size": 12}))
  for card in (
    model_card.text("bees", new_head, training()),
    model_card.text("bees", weights, larger),
  ):
    assert "80.00%" not in card
    assert "model-index" not in front(card)


def test_features_without_classes_have_another_task():
  encoder = huggingface.read(GOLDEN / "huggingface_mae")
  card = model_card.text("mae", encoder)
  assert front(card)["pipeline_tag"] == "image-feature-extraction"
  assert "AutoModel.from_pretrained" in card


def test_numbers_are_no_classes(weights):
  ages = dataclasses.replace(
    weights, activation="none", class_names=("age", "b", "c", "d", "e")
  )
  card = model_card.text("ages", ages)
  assert "predicts 5 numbers of an image" in card and "classifies" not in card
  assert "## Numbers" in card and "`age`" in card
  assert "image-regression" in front(card)["tags"]


def test_resnets_have_cards():
  bit = huggingface.read(folder("huggingface_bit"))
  assert "units of the stages: 1, 1" in model_card.text("bit", bit)


@settings(max_examples=60)
@given(name=st.text(max_size=30), dataset=st.text(max_size=30))
def test_no_name_breaks_the_card(weights, name, dataset):
  named = dataclasses.replace(weights, class_names=[name, dataset] + ["x"] * 3)
  run = training(train=schema.Train(dataset=dataset))
  card = model_card.text(name, named, run)
  assert front(card)["model-index"][0]["results"]
  body = card.split("\n---\n", 1)[1]
  tokens = markdown_it.MarkdownIt().parse(body)
  plain = markdown_it.MarkdownIt().parse(
    model_card.text("x", weights, training()).split("\n---\n", 1)[1]
  )
  assert [t.type for t in tokens] == [t.type for t in plain]
