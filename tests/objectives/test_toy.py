"""An objective of its own: views, a teacher, constants, through the trainer."""

import jax
import numpy as np
import pytest

from tests import experiments
from tests.objectives import toy
from vit_jax import checks, registry
from vit_jax.config import defaults
from vit_jax.data import facts
from vit_jax.errors import UserError
from vit_jax.pretrained import reading
from vit_jax.rundir.run_directory import RunDirectory
from vit_jax.rundir.timing import Clock
from vit_jax.sharding import rules
from vit_jax.train import train
from vit_jax.training import experiment, memory

VIEWS = {
  "global": {"count": 2, "preprocess": "decode|inception_crop|flip_lr"},
  "local": {"count": 3, "preprocess": "decode|inception_crop", "size": 4},
}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
  entries = {**registry.OBJECTIVES._entries}
  monkeypatch.setattr(registry.OBJECTIVES, "_entries", entries)
  registry.OBJECTIVES.register("toy", toy.KIND)


def config(**changes):
  evaluator = defaults.default_eval(type="knn", neighbors=(1,), every_steps=3)
  evaluator.datasets.generated = defaults.default_fewshot_dataset(
    dataset=experiments.DATASET, preprocess="decode|resize"
  )
  settings = {
    "objective__name": "toy",
    "train__views": VIEWS,
    "train__preprocess": "decode",
    "evals": {"k": evaluator},
    "optimizer__weight_decay": "linear(0.0, 0.1)",
    "optimizer__decay_mask": ("kernel",),
  }
  return experiments.config(**(settings | changes))


def build(**changes):
  made = config(**changes)
  return experiment.build(made, experiments.facts(made))


def one_batch(parts):
  batches = parts.train_batches(facts.open_data(parts.config), 0)
  batch = next(batches)
  batches.close()
  return batch


def test_the_teacher_follows_and_constants_stay():
  parts = build(objective__momentum="linear(0.5, 1.0)")
  batch, state = one_batch(parts), parts.init_state()
  teacher = np.asarray(state.objective_state["teacher"]["kernel"])
  constants = jax.tree.leaves(parts.constants)
  for step in range(3):
    state, metrics = parts.train_step(state, batch)
    momentum = 0.5 + 0.5 * step / 6
    student = np.asarray(state.params["kernel"])
    teacher = momentum * teacher + (1 - momentum) * student
    np.testing.assert_allclose(
      state.objective_state["teacher"]["kernel"], teacher, rtol=1e-5
    )
    np.testing.assert_allclose(metrics["weight_decay"], 0.1 * step / 6)
  assert not any(leaf.is_deleted() for leaf in constants)
  assert parts.exported(state) is state.objective_state["teacher"]


def test_constants_are_sharded_as_parameters_are(monkeypatch):
  monkeypatch.setattr(rules, "FSDP_MIN_BYTES", 0)
  parts = build(mesh__data=1, mesh__fsdp=4)
  assert parts.constants["frozen"]["kernel"].sharding.spec[1] == "fsdp"
  assert memory.by_purpose(parts)["constants"] == 3 * 8 * 4 // 4
  parts.compile()(parts.constants, parts.init_state(), one_batch(parts))


def test_a_loss_of_whole_batches_is_not_split():
  settings = {"train__accumulate_steps": 2}
  checks.check(config(**settings))
  with pytest.raises(UserError, match="accumulate_steps = 2 .*toy"):
    checks.check(config(objective__whole_batch=True, **settings))


def test_views_that_are_missing_are_named():
  one = {"global": VIEWS["global"]}
  with pytest.raises(UserError, match="lacks 'local', which objective .toy."):
    checks.check(config(train__views=one))
  with pytest.raises(UserError, match="lacks 'image', which .*leave it empty"):
    checks.check(config(objective__name="supervised"))


@pytest.fixture
def workdir(tmp_path):
  assert train(config(), str(tmp_path / "run")) == 0
  return tmp_path / "run"


def test_the_teacher_starts_from_the_loaded_student(workdir, tmp_path):
  parts = build(init_from=str(workdir), mesh__data=2, mesh__fsdp=2)
  given = reading.read(str(workdir)).params["kernel"]
  with RunDirectory(str(tmp_path / "new"), parts, Clock()) as directory:
    state = directory.restore_or_init()
    directory.finish("finished")
  for kernel in (state.params["kernel"], state.objective_state["teacher"]):
    np.testing.assert_array_equal(jax.tree.leaves(kernel)[0], given)
  # The step donates the state: student and teacher must not share a buffer.
  state, _ = parts.train_step(state, one_batch(parts))
  assert np.isfinite(state.objective_state["teacher"]["kernel"]).all()


def test_checkpoints_export_the_teacher_and_know_their_constants(workdir):
  parts = build(allow_change="dataset_fingerprint")
  with RunDirectory(str(workdir), parts, Clock()) as directory:
    state = directory.restore_or_init()
  weights = reading.read(str(workdir))
  wanted = state.objective_state["teacher"]["kernel"]
  assert np.array_equal(weights.params["kernel"], wanted)
  assert not np.array_equal(weights.params["kernel"], state.params["kernel"])
  changed = build(
    objective__weights=2.0, allow_change="objective.weights,dataset_fingerprint"
  )
  with pytest.raises(UserError, match="constants.teacher.npz: was .*is "):
    RunDirectory(str(workdir), changed, Clock())
  allowed = build(
    objective__weights=2.0,
    allow_change="objective.weights,dataset_fingerprint,constants",
  )
  with RunDirectory(str(workdir), allowed, Clock()) as directory:
    assert directory.first_step == 6
