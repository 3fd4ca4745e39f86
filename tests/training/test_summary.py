"""The lines that say what a run will do."""

import dataclasses

import numpy as np
from PIL import Image

from tests import experiments
from vit_jax.data import facts
from vit_jax.data.balanced_order import BalancedOrder
from vit_jax.training import experiment, summary


def said(changed=None, first_step=0, **changes):
  """Line -> its text, of a run on facts changed so."""
  config = experiments.config(**changes)
  known = dataclasses.replace(experiments.facts(config), **(changed or {}))
  parts = experiment.build(config, known)
  lines = summary.lines(parts, {}, first_step=first_step)
  texts = {}
  for line in lines:
    name, text = line[:6].strip() or "classes", line[6:].strip()
    texts[name] = f"{texts[name]}; {text}" if name in texts else text
  return texts


def test_it_names_model_data_length_and_device():
  found = said()
  assert found["model"].startswith("ViT of width 32, depth 2, patches of 4")
  assert (
    found["data"] == f"64 images of train of {experiments.DATASET} in 4 classes"
  )
  assert found["length"] == "6 steps of 16 images, 1.5 epochs"
  assert found["start"] == "from random weights"
  assert found["device"].startswith("4 x cpu")


def test_many_epochs_are_a_whole_number():
  assert said(total_steps=25_000)["length"].endswith(", 6,250 epochs")


def test_random_weights_that_are_not_trained_are_named():
  assert said(optimizer__freeze="backbone")["start"] == (
    "from random weights, which config.optimizer.freeze = 'backbone' leaves as"
    " they are; config.init_from names others"
  )


def test_classes_are_counted_largest_first_with_the_baseline():
  names = tuple(f"c{i}" for i in range(10))
  counts = np.array([5, 0, 15, *[2] * 7])
  facts = {"class_names": names, "label_counts": counts}
  text = said(facts)["classes"]
  assert "images by class: c2 15, c0 5, c3 2, " in text and "and 2 more" in text
  assert "always answering c2 would be right for 44.1%" in text
  assert "no image to learn from: c1" in text


def test_a_number_that_no_image_has_is_named(tmp_path):
  """Such as 0, if the classes are counted from 1."""
  for number in range(3):
    Image.new("RGB", (8, 8)).save(tmp_path / f"{number}.png")
  rows = ("image,label", "0.png,1", "1.png,2", "2.png,2")
  (tmp_path / "labels.csv").write_text("\n".join(rows))
  config = experiments.config(
    train__dataset="csv:labels.csv",
    train__preprocess="decode|resize(8)",
    data_dir=str(tmp_path),
    evals={},
  )
  found = facts.of_source(config, facts.open_data(config))
  text = "; ".join(summary.lines(experiment.build(config, found), {}))
  assert "in 3 classes" in text and "images by class" not in text
  assert "always answering class 2 would be right for 66.7%" in text
  assert "no image to learn from: class 0" in text


def listed(tmp_path, **changes):
  """The lines for four images: of two classes, of one, and two of none."""
  rows = ("a.png,cat|dog", "b.png,cat", "c.png,", "d.png,")
  for row in rows:
    Image.new("RGB", (8, 8)).save(tmp_path / row.partition(",")[0])
  (tmp_path / "labels.csv").write_text("\n".join(("image,labels", *rows)))
  config = experiments.config(
    train__dataset="csv:labels.csv",
    **{"train__preprocess": "decode|resize(8)", **changes},
    train__batch_size=4,
    data_dir=str(tmp_path),
    evals={},
  )
  found = facts.of_source(config, facts.open_data(config))
  return "; ".join(summary.lines(experiment.build(config, found), {}))


def test_images_with_several_labels_count_for_each_of_them(tmp_path):
  text = listed(tmp_path, objective__loss="sigmoid")
  assert "images by class: cat 2, dog 1" in text
  assert "always answering" not in text


def test_images_without_a_label_are_counted_with_what_they_do(tmp_path):
  text = listed(tmp_path, objective__loss="softmax")
  assert "images without a label: 2, which add nothing to the loss" in text
  for loss in ("sigmoid", "sigmoid_mean"):
    text = listed(tmp_path, objective__loss=loss)
    assert "without a label: 2, which are examples of none of the" in text


def test_the_label_that_is_kept_of_several_is_counted(tmp_path):
  text = listed(tmp_path, train__preprocess="decode|resize(8)|pad_labels(1)")
  assert "images by class: cat 2, dog 0" in text


def test_a_head_of_more_classes_than_the_data_is_named():
  found = said(model__num_classes=1000)
  assert found["data"].endswith("in 4 classes")
  assert (
    "no label for 996 of the head's outputs (config.model.num_classes = 1000)"
  ) in found["classes"]
  assert "head" not in said(model__num_classes=4)["classes"]


def test_a_run_that_is_cut_short_by_its_epochs_says_so():
  text = said(total_steps=1000, max_epochs=3)["length"]
  assert text.startswith("12 steps of 16 images, 3 epochs")
  assert "1,000 steps without it" in text


def test_few_images_of_ones_own_are_better_tuned_than_learned_from(tmp_path):
  few = said(train__dataset="folder", data_dir=str(tmp_path))
  assert "config.init_from=augreg_i21k:S/16" in few["start"]
  many = said(
    {"num_examples": 50_000}, train__dataset="folder", data_dir=str(tmp_path)
  )
  assert many["start"] == "from random weights"


def test_a_run_that_goes_on_says_from_where():
  text = said(total_steps=5000, first_step=2900)["start"]
  assert text == "where the run was stopped, after step 2,900"


def test_a_run_at_or_beyond_its_length_says_that_nothing_is_left():
  text = said(total_steps=10, first_step=30)["start"]
  assert text == "at step 30 of 10 already; nothing is left to train"
  assert said(first_step=6)["start"].startswith("at step 6 of 6 already")


def test_balanced_sampling_says_how_often_an_image_comes():
  names, counts = ("a", "b"), np.array([60, 4])
  balance = BalancedOrder(np.repeat([0, 1], counts))
  facts = {"class_names": names, "label_counts": counts, "balance": balance}
  text = said(facts)["classes"]
  assert "of the largest 0.533 times an epoch, of the smallest 8 times" in text


def test_numbers_are_told_with_their_mean_and_deviation():
  config = experiments.config(**experiments.REGRESSION)
  found = facts.of_source(config, facts.open_data(config))
  parts = experiment.build(config, found)
  text = "\n".join(summary.lines(parts, {}))
  assert "with 2 numbers to predict" in text
  values = facts.open_data(config).known_labels()
  for name, number in zip(("red", "green"), values.T, strict=True):
    assert f"{name} {number.mean():.5g} ± {number.std():.5g}" in text
