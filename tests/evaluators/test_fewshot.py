"""The few-shot evaluator and its public function."""

import dataclasses

import jax
import numpy as np
import pytest
from sklearn import linear_model

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.evaluators import fewshot


def _blobs(num_examples, num_features, *, seed=0, num_classes=5):
  rng = np.random.default_rng(seed)
  centres = np.random.default_rng(99).normal(size=(num_classes, num_features))
  labels = rng.permutation(np.arange(num_examples) % num_classes)
  noise = rng.normal(scale=2.5, size=(num_examples, num_features))
  return (centres[labels] + noise).astype(np.float32), labels


def _oracle(train_x, train_y, test_x, test_y, *, shots, l2, seed, num_classes):
  """The whole protocol once more, with scikit-learn's ridge."""
  rng = np.random.default_rng(seed)
  rows = [
    rng.permutation(np.where(train_y == c)[0])[:shots]
    for c in range(num_classes)
  ]
  rows = np.concatenate(rows)
  x, y = train_x[rows].astype(np.float64), train_y[rows]
  mean, std = x.mean(0), x.std(0) + 1e-5

  def augment(features):
    bias = np.full((len(features), 1), 100.0)
    return np.concatenate([(features - mean) / std, bias], axis=1)

  model = linear_model.Ridge(alpha=l2, fit_intercept=False, solver="cholesky")
  model.fit(augment(x), 2 * np.eye(num_classes)[y] - 1)
  return np.mean(model.predict(augment(test_x)).argmax(1) == test_y)


# 5 classes: 1 and 5 shots of 30 features are dual, 10 and 25 primal.
@pytest.mark.parametrize("shots", [1, 5, 10, 25])
@pytest.mark.parametrize("l2", [2.0**-5, 2.0**10])
@pytest.mark.parametrize("seed", [0, 1])
def test_accuracy_equals_that_of_scikit_learn(shots, l2, seed):
  train_x, train_y = _blobs(400, 30)
  test_x, test_y = _blobs(1000, 30, seed=1)
  arguments = dict(shots=shots, l2=l2, seed=seed, num_classes=5)
  accuracy = fewshot.linear_fewshot_accuracy(
    train_x, train_y, test_x, test_y, **arguments
  )
  assert type(accuracy) is float
  assert accuracy == _oracle(train_x, train_y, test_x, test_y, **arguments)
  assert 0.2 < accuracy < 1


def test_defaults_are_those_of_big_vision():
  train_x, train_y = _blobs(100, 30)
  test_x, test_y = _blobs(300, 30, seed=1)
  arrays = (train_x, train_y, test_x, test_y)
  assert fewshot.linear_fewshot_accuracy(
    *arrays, num_classes=5, shots=5
  ) == _oracle(*arrays, num_classes=5, shots=5, l2=1024.0, seed=0)


def test_jax_arrays_are_as_good_as_numpy():
  train_x, train_y = _blobs(100, 30)
  test_x, test_y = _blobs(300, 30, seed=1)
  arrays = (train_x, train_y, test_x, test_y)
  arguments = dict(num_classes=5, shots=5)
  assert fewshot.linear_fewshot_accuracy(
    *map(jax.numpy.asarray, arrays), **arguments
  ) == fewshot.linear_fewshot_accuracy(*arrays, **arguments)


def test_more_shots_help():
  train_x, train_y = _blobs(400, 30)
  test_x, test_y = _blobs(2000, 30, seed=1)
  accuracies = [
    fewshot.linear_fewshot_accuracy(
      train_x, train_y, test_x, test_y, num_classes=5, shots=shots
    )
    for shots in (1, 5, 25)
  ]
  assert accuracies == sorted(accuracies)


def test_class_with_too_few_examples_is_named():
  train_x, train_y = _blobs(100, 8)
  keep = np.concatenate(
    [np.flatnonzero(train_y != 3), np.flatnonzero(train_y == 3)[:4]]
  )
  with pytest.raises(ValueError, match=r"Class 3 has 4 examples.* 5 shots"):
    fewshot.linear_fewshot_accuracy(
      train_x[keep], train_y[keep], train_x, train_y, num_classes=5, shots=5
    )


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"train_labels": np.zeros(9, int)}, r"train_features of shape \(10, 4\)"),
    ({"test_features": np.zeros((10, 3))}, "4 columns and test_features 3"),
    ({"test_features": np.full((10, 4), np.nan)}, "test_features hold NaN"),
    ({"test_labels": np.zeros(10)}, "test_labels must be integers"),
    ({"test_labels": np.full(10, 2)}, r"Label 2 is outside 0\.\.1"),
    ({"shots": 0}, "shots = 0 must be at least 1"),
    ({"l2": 0.0}, "l2 = 0.0 must be positive and finite"),
    ({"l2": -1.0}, "l2 = -1.0 must be positive"),
    ({"l2": np.nan}, "l2 = nan must be positive"),
    ({"l2": np.inf}, "l2 = inf must be positive"),
  ],
)
def test_arrays_that_do_not_fit_are_refused(changes, message):
  arguments = dict(
    train_features=np.random.default_rng(0).normal(size=(10, 4)),
    train_labels=np.arange(10) % 2,
    test_features=np.zeros((10, 4)),
    test_labels=np.arange(10) % 2,
    num_classes=2,
    shots=1,
  )
  with pytest.raises(ValueError, match=message):
    fewshot.linear_fewshot_accuracy(**(arguments | changes))


def _examples(*arguments, **kwargs):
  return fewshot.Examples(*_blobs(*arguments, **kwargs))


_CANDIDATES = (2.0**-8, 2.0**4, 2.0**16, 2.0**28)


def test_sweep_never_looks_at_the_test_split():
  train = _examples(300, 30)
  test = _examples(500, 30, seed=1)
  arguments = dict(
    num_classes=5, shots=(5, 20), l2=1.0, l2_sweep=_CANDIDATES, seed=0
  )
  swept = fewshot.seed_accuracies(train, test, **arguments)
  fixed = {
    l2: fewshot.seed_accuracies(
      train, test, num_classes=5, shots=(5, 20), l2=l2, seed=0
    )
    for l2 in _CANDIDATES
  }
  # With other test labels the same l2 must come out, though another is best.
  other = dataclasses.replace(test, labels=(test.labels + 1) % 5)
  other_swept = fewshot.seed_accuracies(train, other, **arguments)
  other_fixed = {
    l2: fewshot.seed_accuracies(
      train, other, num_classes=5, shots=(5, 20), l2=l2, seed=0
    )
    for l2 in _CANDIDATES
  }
  for shots in ("5shot", "20shot"):
    chosen = {
      l2
      for l2 in _CANDIDATES
      if fixed[l2][shots] == swept[f"{shots}_l2_swept"]
      and other_fixed[l2][shots] == other_swept[f"{shots}_l2_swept"]
    }
    assert chosen


def test_sweep_finds_the_better_l2():
  train, test = _examples(300, 30), _examples(500, 30, seed=1)
  # The scales of the features say nothing, so 2^-8 overfits and 2^28 crushes.
  accuracies = fewshot.seed_accuracies(
    train,
    test,
    num_classes=5,
    shots=(7,),
    l2=2.0**-8,
    l2_sweep=(2.0**-8, 2.0**6),
    seed=0,
  )
  assert accuracies["7shot_l2_swept"] > accuracies["7shot"]


def test_fixed_l2_is_the_same_with_and_without_a_sweep():
  train, test = _examples(300, 30), _examples(500, 30, seed=1)
  arguments = dict(num_classes=5, shots=(1, 5), l2=1024.0, seed=2)
  plain = fewshot.seed_accuracies(train, test, **arguments)
  swept = fewshot.seed_accuracies(
    train, test, l2_sweep=_CANDIDATES, **arguments
  )
  assert set(plain) == {"1shot", "5shot"}
  assert {k: swept[k] for k in plain} == plain


def test_sweep_without_examples_to_hold_out_is_an_error():
  train = _examples(50, 30)
  with pytest.raises(ValueError, match="No training example is left .*10 shot"):
    fewshot.seed_accuracies(
      train,
      train,
      num_classes=5,
      shots=(1, 10),
      l2=1.0,
      l2_sweep=(1.0, 2.0),
      seed=0,
    )


def _evaluator(train, test, context, **changes):
  config = schema.FewshotEval(
    type="fewshot", **({"shots": (1, 5), "num_seeds": 3} | changes)
  )
  return fewshot.evaluator(config, {"toy": (train, test)}, context)


@pytest.fixture
def problem(make_problem, make_split):
  """Train split, test split, state."""
  images, labels, state = make_problem(num_examples=90)
  test_images, test_labels, _ = make_problem(num_examples=70, seed=1)
  train = make_split(images, labels, class_names=("ant", "bee", "cow"))
  return train, make_split(test_images, test_labels, shuffled=True), state


def _features(source, state):
  pixels = source.images.reshape(source.num_examples, -1) / np.float32(255)
  return pixels @ np.asarray(state.eval_params["projection"]), source.labels


def test_metrics_are_mean_and_deviation_over_seeds(problem, make_context):
  train, test, state = problem
  with jax.transfer_guard("disallow"):
    metrics = _evaluator(train, test, make_context()).run(state, 5)
  assert set(metrics) == {
    f"fewshot/toy/{k}" for k in ("1shot", "1shot_std", "5shot", "5shot_std")
  }
  arrays = (*_features(train.source, state), *_features(test.source, state))
  for shots in (1, 5):
    accuracies = [
      fewshot.linear_fewshot_accuracy(
        *arrays, num_classes=3, shots=shots, seed=seed
      )
      for seed in range(3)
    ]
    # Features differ in the last bits, which may turn one prediction.
    np.testing.assert_allclose(
      metrics[f"fewshot/toy/{shots}shot"], np.mean(accuracies), atol=1 / 70
    )
    np.testing.assert_allclose(
      metrics[f"fewshot/toy/{shots}shot_std"],
      np.std(accuracies, ddof=1),
      atol=1 / 70,
    )
  assert metrics["fewshot/toy/1shot_std"] > 0


def test_evaluation_repeats_to_the_bit(problem, make_context):
  train, test, state = problem
  evaluator = _evaluator(train, test, make_context())
  assert evaluator.run(state, 5) == evaluator.run(state, 6)


def test_devices_change_nothing(problem, make_mesh, make_context):
  train, test, state = problem
  expected = _evaluator(train, test, make_context()).run(state, 5)
  mesh = make_mesh(4)
  train, test = (dataclasses.replace(s, mesh=mesh) for s in (train, test))
  state = type(state)(jax.device_get(state.eval_params))
  metrics = _evaluator(train, test, make_context(mesh=mesh)).run(state, 5)
  assert metrics == pytest.approx(expected, abs=1 / 70)


def test_single_seed_has_no_deviation(problem, make_context):
  train, test, state = problem
  metrics = _evaluator(train, test, make_context(), num_seeds=1).run(state, 5)
  assert metrics["fewshot/toy/5shot_std"] == 0


def test_sweep_has_names_of_its_own(problem, make_context):
  train, test, state = problem
  metrics = _evaluator(
    train, test, make_context(), shots=(5,), l2_sweep=(1.0, 1024.0)
  ).run(state, 5)
  assert set(metrics) == {
    f"fewshot/toy/5shot{how}"
    for how in ("", "_std", "_l2_swept", "_l2_swept_std")
  }


def test_class_without_enough_shots_is_named_with_its_key(
  problem, make_context
):
  train, test, state = problem
  labels = train.source.labels.copy()
  labels[labels == 1] = 2
  labels[0] = 1
  source = dataclasses.replace(train.source, labels=labels)
  train = dataclasses.replace(train, source=source)
  with pytest.raises(
    UserError, match=r"config\.evals\.test: Class 1 \('bee'\) has 1 examples"
  ):
    _evaluator(train, test, make_context()).run(state, 5)


def test_features_that_are_no_vectors_are_refused(problem, make_context):
  train, test, state = problem
  evaluator = _evaluator(train, test, make_context(), representation="tokens")
  with pytest.raises(UserError, match="'tokens' has shape .* one vector"):
    evaluator.run(state, 5)
  evaluator = _evaluator(train, test, make_context(), representation="nope")
  with pytest.raises(UserError, match="'nope' is not an output .*pre_logits"):
    evaluator.run(state, 5)


def test_damaged_parameters_are_reported(problem, make_context):
  train, test, state = problem
  params = jax.tree.map(lambda p: p * np.nan, state.eval_params)
  with pytest.raises(UserError, match="'pre_logits' is NaN"):
    _evaluator(train, test, make_context()).run(type(state)(params), 5)
