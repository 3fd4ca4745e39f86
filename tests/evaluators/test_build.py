"""From the config to evaluators, and what is wrong with one."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from etils import epath
from PIL import Image

from vit_jax import registry
from vit_jax.config import named_sections, schema
from vit_jax.errors import UserError
from vit_jax.evaluators import build

_DATASET = "generated:classes=5,size=8,examples=200"


def _config(**evals):
  return schema.Config(
    model=named_sections.section("model", image_size=8),
    train=schema.Train(dataset=_DATASET, batch_size=32),
    evals=evals,
  )


def _classification(**changes):
  return schema.ClassificationEval(type="classification", **changes)


def _fewshot(name="toy", dataset=_DATASET, *, data=None, **changes):
  data = schema.FewshotDataset(dataset=dataset, **(data or {}))
  return schema.FewshotEval(type="fewshot", datasets={name: data}, **changes)


def _knn(name="toy", **changes):
  data = schema.FewshotDataset(dataset=_DATASET)
  return schema.KnnEval(type="knn", datasets={name: data}, **changes)


def _linear_probe(name="toy", **changes):
  data = schema.FewshotDataset(dataset=_DATASET)
  return schema.LinearProbeEval(
    type="linear_probe", datasets={name: data}, **changes
  )


@pytest.fixture
def run(make_mesh, make_context, make_problem, tmp_path):
  """run(eval_config, **context) -> metrics on generated data."""

  def run_one(entry, **kwargs):
    _, _, state = make_problem(num_classes=5, size=8)
    context = make_context(
      mesh=make_mesh(2),
      config=_config(test=entry),
      workdir=epath.Path(tmp_path),
      **({"num_classes": 5} | kwargs),
    )
    return build.build("test", entry, context).run(state, 3)

  return run_one


def test_classification_runs_on_the_training_dataset_by_default(run, tmp_path):
  metrics = run(_classification())
  assert metrics["eval/test/num_examples"] == 50
  assert 0 <= metrics["eval/test/top1"] <= 1
  arrays = np.load(tmp_path / "evaluations/test/3/predictions.npz")
  np.testing.assert_array_equal(arrays["label"], np.arange(50) % 5)


def test_loss_is_that_of_the_objective_by_default(run):
  softmax = run(_classification())
  assert softmax == run(_classification(loss="softmax"))
  sigmoid = run(_classification(loss="sigmoid"))
  assert sigmoid["eval/test/loss"] != softmax["eval/test/loss"]


def test_fewshot_learns_generated_classes(run):
  # Random projections of pixels separate colours well.
  metrics = run(_fewshot(shots=(1, 10), num_seeds=2))
  assert 0.2 < metrics["fewshot/toy/10shot"] <= 1
  assert metrics["fewshot/toy/10shot"] >= metrics["fewshot/toy/1shot"]


def test_neighbours_and_a_probe_learn_generated_classes(run):
  neighbours = run(_knn(neighbors=(1, 20)))
  assert set(neighbours) == {"knn/toy/k1", "knn/toy/k20"}
  probe = run(_linear_probe(l2_sweep=(1e-3, 1e-1)))
  assert set(probe) == {"linear_probe/toy/top1", "linear_probe/toy/l2"}
  for value in (neighbours["knn/toy/k20"], probe["linear_probe/toy/top1"]):
    assert 0.2 < value <= 1


def test_more_neighbours_than_examples_fail_before_training(run):
  with pytest.raises(
    UserError,
    match=r"evals\.test\.neighbors asks for 201 of the 200 examples of"
    r" .*datasets\.toy\.train_split = 'train'",
  ):
    run(_knn(neighbors=(5, 201)))


def test_more_classes_than_the_model_are_an_error(run):
  with pytest.raises(
    UserError, match="config.evals.test: .* 5 classes and the model 4"
  ):
    run(_classification(), num_classes=4)


def test_fewshot_with_too_small_a_split_fails_before_training(run):
  with pytest.raises(
    UserError,
    match=r"datasets\.toy\.train_split .* 200 .* need 205\."
    r" Ask for fewer in config\.evals\.test\.shots\.",
  ):
    run(_fewshot(shots=(1, 41)))


def test_fewshot_of_a_class_with_too_few_images_fails_before_training(
  make_context, tmp_path
):
  for name, count in (("ant", 5), ("bee", 2), ("cow", 5)):
    (tmp_path / "train" / name).mkdir(parents=True)
    for number in range(count):
      pixels = np.zeros((8, 8, 3), np.uint8)
      Image.fromarray(pixels).save(tmp_path / "train" / name / f"{number}.png")
  entry = _fewshot(dataset="folder", data={"test_split": "train"}, shots=(1, 3))
  config = _config(test=entry).model_copy(update={"data_dir": str(tmp_path)})
  with pytest.raises(
    UserError,
    match=r"datasets\.toy: Class 1 \('bee'\) has 2 examples, fewer than the 3"
    r" shots asked for\. Ask for fewer in config\.evals\.test\.shots\.",
  ):
    build.build("test", entry, make_context(config=config))


def test_fewshot_with_several_labels_an_image_is_an_error(run):
  with pytest.raises(UserError, match="datasets.toy: .* several labels"):
    run(_fewshot(dataset="generated:classes=5,labels=2"))


def test_good_configs_pass():
  build.check(
    _config(
      test=_classification(),
      real=_classification(dataset="imagenet2012_real", label_key="real_label"),
      fewshot=_fewshot(l2_sweep=(1.0, 2.0)),
      knn=_knn(),  # A dataset's name counts for each type of evaluator.
      linear_probe=_linear_probe(),
    )
  )


@pytest.mark.parametrize(
  ("evals", "message"),
  [
    ({"a/b": _classification()}, "config.evals has the name 'a/b'"),
    ({"..": _classification()}, r"config.evals has the name '\.\.'"),
    ({"f": _fewshot(name="a b")}, "config.evals.f.datasets has the name 'a b'"),
    (
      {"f": _fewshot(), "g": _fewshot()},
      "config.evals.g.datasets.toy and config.evals.f.datasets.toy would both"
      " be reported as fewshot/toy",
    ),
    ({"f": _fewshot(shots=())}, r"config.evals.f.shots = \(\)"),
    ({"f": _fewshot(shots=(5, 5))}, r"config.evals.f.shots = \(5, 5\)"),
    (
      {"k": _knn(), "l": _knn()},
      "config.evals.l.datasets.toy and config.evals.k.datasets.toy would both"
      " be reported as knn/toy",
    ),
    ({"k": _knn(neighbors=())}, r"config.evals.k.neighbors = \(\)"),
    ({"k": _knn(neighbors=(5, 5))}, r"config.evals.k.neighbors = \(5, 5\)"),
    (
      {"l": _linear_probe(l2_sweep=())},
      r"config.evals.l.l2_sweep = \(\) must be different numbers, such as",
    ),
    (
      {"l": _linear_probe(representation="logit")},
      "config.evals.l.representation .*did you mean 'logits'",
    ),
    (
      {"f": _fewshot(representation="prelogits")},
      "config.evals.f.representation .*did you mean 'pre_logits'",
    ),
    (
      {"t": _classification(preprocess="decode|resise")},
      'config.evals.t.preprocess: op 2 .*Did you mean "resize"',
    ),
    (
      {"t": _classification(dataset="generated:klasses=3")},
      "config.evals.t.dataset: .*klasses",
    ),
    (
      {"f": _fewshot(data={"preprocess": "decode|flip_lr"})},
      "config.evals.f.datasets.toy.preprocess",
    ),
    ({"t": _classification(split="test[:")}, "config.evals.t.split"),
    (
      {"f": _fewshot(data={"test_split": "test[:"})},
      "config.evals.f.datasets.toy.test_split",
    ),
  ],
)
def test_bad_configs_name_their_key(evals, message):
  with pytest.raises(UserError, match=message):
    build.check(_config(**evals))


@pytest.fixture
def neighbors_as_fewshot(monkeypatch):
  """An entry of a type of its own, whose metrics begin with fewshot/."""
  kind = registry.EVALUATORS.get("knn")
  entries = {**registry.EVALUATORS._entries}
  monkeypatch.setattr(registry.EVALUATORS, "_entries", entries)
  registry.EVALUATORS.register(
    "neighbors", dataclasses.replace(kind, prefix="fewshot")
  )
  return _knn(neighbors=(1,)).model_copy(update={"type": "neighbors"})


def test_two_types_of_one_prefix_do_not_share_a_dataset(neighbors_as_fewshot):
  with pytest.raises(UserError, match="be reported as fewshot/toy; rename"):
    build.check(_config(f=_fewshot(), k=neighbors_as_fewshot))
  build.check(_config(f=_fewshot("a"), k=neighbors_as_fewshot))


def test_metrics_begin_with_the_declared_prefix(run, neighbors_as_fewshot):
  assert set(run(neighbors_as_fewshot)) == {"fewshot/toy/k1"}


def test_checking_imports_neither_jax_nor_tensorflow():
  code = (
    "import sys; from vit_jax.config import schema;"
    "from vit_jax.evaluators import build;"
    "e = schema.ClassificationEval(type='classification');"
    "build.check(schema.Config(evals={'test': e}));"
    "assert not {'jax', 'tensorflow', 'scipy'} & set(sys.modules)"
  )
  subprocess.run([sys.executable, "-c", code], check=True)
