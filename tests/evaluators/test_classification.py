"""Classification figures against NumPy, whatever the batches and devices."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from etils import epath
from PIL import Image
from scipy import special

from vit_jax.config import named_sections, schema
from vit_jax.errors import UserError
from vit_jax.evaluators import classification, classified_split


def _logits(images, state):
  pixels = images.reshape(len(images), -1).astype(np.float64) / 255
  return pixels @ np.asarray(state.eval_params["kernel"], np.float64)


def _run(name, split, context, state, *, loss="softmax", step=7):
  evaluator = classification.Classification(name, split, context, loss=loss)
  with jax.transfer_guard("disallow"):
    return evaluator.run(state, step)


def test_metrics_equal_those_of_numpy(make_problem, make_split, make_context):
  images, labels, state = make_problem(num_classes=8)
  logits = _logits(images, state)
  best = np.argsort(-logits, axis=1)
  metrics = _run(
    "test",
    make_split(images, labels, num_classes=8),
    make_context(num_classes=8),
    state,
  )
  assert metrics["eval/test/top1"] == np.mean(best[:, 0] == labels)
  assert metrics["eval/test/top5"] == np.mean(
    (best[:, :5] == labels[:, None]).any(axis=1)
  )
  assert 0.2 < metrics["eval/test/top1"] < metrics["eval/test/top5"] < 1
  losses = -special.log_softmax(logits, axis=1)[np.arange(53), labels]
  np.testing.assert_allclose(
    metrics["eval/test/loss"], losses.mean(), rtol=1e-6
  )
  assert metrics["eval/test/num_examples"] == 53
  assert set(metrics) == {
    f"eval/test/{k}" for k in ("top1", "top5", "loss", "num_examples")
  }
  assert all(type(value) is float for value in metrics.values())


def test_sigmoid_loss_sums_over_classes(make_problem, make_split, make_context):
  images, labels, state = make_problem()
  logits = _logits(images, state)
  targets = np.eye(3)[labels]
  losses = -(
    targets * special.log_expit(logits)
    + (1 - targets) * special.log_expit(-logits)
  ).sum(axis=1)
  metrics = _run(
    "test", make_split(images, labels), make_context(), state, loss="sigmoid"
  )
  np.testing.assert_allclose(
    metrics["eval/test/loss"], losses.mean(), rtol=1e-6
  )


@pytest.mark.parametrize("num_devices", [1, 4])
@pytest.mark.parametrize("batch_size", [4, 52, 53 + 3, 100])
@pytest.mark.parametrize("shuffled", [False, True])
def test_batches_and_devices_change_nothing(
  make_problem,
  make_split,
  make_context,
  make_mesh,
  num_devices,
  batch_size,
  shuffled,
):
  images, labels, state = make_problem()
  expected = _run("test", make_split(images, labels), make_context(), state)
  mesh = make_mesh(num_devices)
  state = type(state)(
    jax.device_put(
      state.eval_params,
      jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()),
    )
  )
  split = make_split(
    images, labels, mesh=mesh, batch_size=batch_size, shuffled=shuffled
  )
  metrics = _run("test", split, make_context(mesh=mesh), state)
  loss = metrics.pop("eval/test/loss")
  np.testing.assert_allclose(loss, expected.pop("eval/test/loss"), rtol=1e-6)
  assert metrics == expected


def test_evaluation_repeats_to_the_bit(make_problem, make_split, make_context):
  images, labels, state = make_problem()
  split, context = make_split(images, labels), make_context()
  first = _run("test", split, context, state)
  assert _run("test", split, context, state) == first


def test_any_label_of_a_set_is_right_and_empty_sets_are_left_out(
  make_problem, make_split, make_context
):
  images, labels, state = make_problem(num_classes=6)
  predictions = np.argmax(_logits(images, state), axis=1)
  sets = np.full((53, 3), -1)
  sets[:, 1] = labels
  sets[::2, 0] = (labels[::2] + 3) % 6
  sets[1::7] = -1
  counted = (sets >= 0).any(axis=1)
  right = (sets == predictions[:, None]).any(axis=1)
  metrics = _run(
    "real",
    make_split(images, sets, num_classes=6),
    make_context(num_classes=6),
    state,
  )
  assert metrics["eval/real/num_examples"] == counted.sum() < 53
  assert metrics["eval/real/top1"] == right[counted].mean()
  assert metrics["eval/real/top1"] > np.mean((labels == predictions)[counted])


def test_sets_of_a_file_take_the_place_of_the_folders_classes(
  make_problem, make_context, tmp_path
):
  """Of the folder's order nothing is asked: files go by their numbers."""
  images, labels, state = make_problem(num_examples=30, num_classes=4)
  predictions = np.argmax(_logits(images, state), axis=1)
  sets = [
    [] if i % 5 == 0 else sorted({int(labels[i]), i % 4}) for i in range(30)
  ]
  (tmp_path / "real.json").write_text(json.dumps(sets))
  for i, pixels in enumerate(images):
    # As if all classes had been mistaken for others.
    path = tmp_path / f"val/{'abcd'[(labels[i] + 1) % 4]}"
    path.mkdir(parents=True, exist_ok=True)
    file = path / f"ILSVRC2012_val_{i + 1:08}.png"
    Image.fromarray(pixels).save(file)
  config = schema.Config(
    data_dir=str(tmp_path),
    model=named_sections.section("model", image_size=4),
    train=schema.Train(dataset="folder", batch_size=8),
  )
  entry = schema.ClassificationEval(
    type="classification",
    split="val",
    preprocess="decode|resize",
    label_sets=str(tmp_path / "real.json"),
  )
  context = make_context(config=config, num_classes=4)
  metrics = classification.build("real", entry, context).run(state, 1)
  right = [
    prediction in accepted
    for prediction, accepted in zip(predictions, sets, strict=True)
    if accepted
  ]
  assert metrics["eval/real/num_examples"] == len(right) == 24
  assert metrics["eval/real/top1"] == np.mean(right)


@pytest.mark.parametrize("loss", ["sigmoid", "softmax"])
def test_all_labels_of_an_image_give_a_mean_average_precision(
  make_problem, make_split, make_context, loss
):
  images, labels, state = make_problem()
  sets = np.stack([labels, np.full_like(labels, -1)], axis=1)
  sets[::4, 1] = (sets[::4, 0] + 1) % 3
  sets[5] = -1  # It has none of the classes, and counts as such.
  split = make_split(images, sets)
  evaluator = classification.Classification(
    "test", split, make_context(), loss=loss, has_all_labels=True
  )
  metrics = evaluator.run(state, 7)
  scores = _logits(images, state)
  if loss == "softmax":
    scores = special.log_softmax(scores, axis=1)
  expected = []
  for k in range(3):
    best_first = np.argsort(-scores[:, k])
    has = (sets == k).any(axis=1)[best_first]
    precision = np.cumsum(has) / np.arange(1, len(has) + 1)
    expected.append(precision[has].mean())
  found = metrics["eval/test/mean_average_precision"]
  assert found == pytest.approx(np.mean(expected), rel=1e-6)
  assert 0.2 < found < 1 and metrics["eval/test/num_examples"] == 52


def test_scores_that_are_no_numbers_have_no_mean_average_precision(
  make_problem, make_split, make_context
):
  images, labels, state = make_problem()
  sets = np.stack([labels, np.full_like(labels, -1)], axis=1)
  params = jax.tree.map(lambda x: x * np.nan, state.eval_params)
  broken = dataclasses.replace(state, eval_params=params)
  evaluator = classification.Classification(
    "test",
    make_split(images, sets),
    make_context(),
    loss="sigmoid",
    has_all_labels=True,
  )
  metrics = evaluator.run(broken, 7)
  assert np.isnan(metrics["eval/test/mean_average_precision"])


@pytest.mark.parametrize("num_classes", [3, 5])
def test_there_is_no_top5_of_five_classes_or_fewer(
  make_problem, make_split, make_context, num_classes
):
  images, labels, state = make_problem(num_classes=num_classes)
  metrics = _run(
    "test",
    make_split(images, labels, num_classes=num_classes),
    make_context(num_classes=num_classes),
    state,
  )
  assert set(metrics) == {
    f"eval/test/{k}" for k in ("top1", "loss", "num_examples")
  }


def test_label_minus_one_is_no_label(make_problem, make_split, make_context):
  images, labels, state = make_problem()
  labels[10:] = -1
  metrics = _run("test", make_split(images, labels), make_context(), state)
  assert metrics["eval/test/num_examples"] == 10


def test_split_without_labels_is_an_error(
  make_problem, make_split, make_context, tmp_path
):
  images, labels, state = make_problem()
  context = make_context(workdir=epath.Path(tmp_path))
  with pytest.raises(UserError, match="config.evals.test: no example .*label"):
    _run("test", make_split(images, np.full_like(labels, -1)), context, state)
  assert not list(tmp_path.rglob("*"))


def test_heartbeat_follows_every_batch(make_problem, make_split, make_context):
  images, labels, state = make_problem()
  beats = []
  context = make_context(heartbeat=lambda: beats.append(1))
  _run("test", make_split(images, labels, batch_size=10), context, state)
  assert len(beats) == 6


def test_predictions_are_kept_for_the_report(
  make_problem, make_split, make_context, tmp_path
):
  images, labels, state = make_problem()
  logits = _logits(images, state)
  context = make_context(
    workdir=epath.Path(tmp_path), class_names=("ant", "bee", "cow")
  )
  metrics = _run(
    "test", make_split(images, labels, shuffled=True), context, state, step=70
  )
  arrays = np.load(tmp_path / "evaluations/test/70/predictions.npz")
  np.testing.assert_array_equal(arrays["example_id"], np.arange(53))
  np.testing.assert_array_equal(arrays["label"], labels)
  np.testing.assert_array_equal(arrays["prediction"], logits.argmax(axis=1))
  np.testing.assert_allclose(
    arrays["probability"], special.softmax(logits, axis=1).max(1), rtol=1e-5
  )
  assert np.mean(arrays["prediction"] == labels) == metrics["eval/test/top1"]


def test_empty_sets_are_not_among_the_predictions(
  make_problem, make_split, make_context, tmp_path
):
  images, labels, state = make_problem()
  sets = np.stack([labels, np.full_like(labels, -1)], axis=1)
  sets[3] = -1
  context = make_context(workdir=epath.Path(tmp_path))
  _run("real", make_split(images, sets), context, state, step=1)
  path = tmp_path / "evaluations/real/1"
  arrays = np.load(path / "predictions.npz")
  np.testing.assert_array_equal(
    arrays["example_id"], np.delete(np.arange(53), 3)
  )
  assert arrays["label"].shape == (52, 2)
  assert not (path / "confusion.npz").exists()


def test_measure_takes_the_first_of_equal_scores():
  rows = classified_split.measure(
    jnp.zeros((2, 7)), jnp.array([0, 5]), loss="softmax"
  )
  np.testing.assert_array_equal(rows["prediction"], [0, 0])
  np.testing.assert_array_equal(rows["top1"], [True, False])
  np.testing.assert_array_equal(rows["top5"], [True, False])
  np.testing.assert_allclose(rows["probability"], 1 / 7, rtol=1e-6)


def test_published_real_labels_leave_46837_images(shared):
  """Section 7 of the facts; accuracy against the definition, image by image."""
  sets = json.loads((shared / "data" / "imagenet_real.json").read_text())
  labels = np.full((len(sets), max(map(len, sets))), -1, np.int32)
  for row, accepted in zip(labels, sets, strict=True):
    row[: len(accepted)] = accepted
  rng = np.random.default_rng(0)
  first = labels[:, 0]
  answers = np.where(rng.random(len(sets)) < 0.5, first, rng.integers(0, 1000))
  predictions = np.where(answers < 0, 7, answers)
  right = top1 = counted = 0
  for start in range(0, len(sets), 5000):
    part = slice(start, start + 5000)
    logits = jnp.asarray(np.eye(1000, dtype=np.float32)[predictions[part]])
    rows = classified_split.measure(
      logits, jnp.asarray(labels[part]), loss="softmax"
    )
    counted += int(rows["counted"].sum())
    top1 += int((rows["top1"] & rows["counted"]).sum())
  for accepted, prediction in zip(sets, predictions, strict=True):
    right += prediction in accepted
  assert len(sets) == 50_000 and labels.shape[1] == 9
  assert (counted, (labels >= 0).sum()) == (46_837, 57_553)
  assert top1 == right
