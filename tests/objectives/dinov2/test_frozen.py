"""A student of DINOv2 learns from a teacher that stays as it is."""

import dataclasses

import jax
import numpy as np
import pytest
from scipy import special

from tests import experiments
from tests.objectives.dino import oracle
from tests.objectives.dinov2 import test_objective as whole
from vit_jax import checks
from vit_jax.checkpoint.store import CheckpointStore
from vit_jax.config import resolve
from vit_jax.errors import UserError
from vit_jax.objectives import build
from vit_jax.objectives.dinov2 import frozen, kind
from vit_jax.pretrained import reading, start
from vit_jax.weights import flat

TEACHER = {
  "model__width": 48,
  "model__depth": 1,
  "model__image_size": 32,
  "objective__bottleneck": 10,
  "objective__hidden_width": 12,
  "objective__patch_bottleneck": 7,
}
STUDENT = {"objective__mask_probability": 0.0, "objective__patches": "all"}


def write(directory, **changes):
  """A run of DINOv2 with random parameters, a teacher that differs."""
  directory.mkdir()
  settings = whole.config(**changes)
  params, state = whole.started(whole.objective_of(settings))
  store = CheckpointStore(directory, keep_last=1)
  saved = {"params": params, "ema_params": None, "objective_state": state}
  store.save(3, saved, {})
  store.close()
  (directory / "config.json").write_text(resolve.dump(settings))
  return settings, params, state


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
  path = tmp_path_factory.mktemp("teacher") / "run"
  return str(path), *write(path, **TEACHER)


def test_the_loss_is_that_of_a_constant_teacher_on_all_patches(teacher):
  path, master, _, state = teacher
  settings = whole.config(**STUDENT, objective__teacher=path)
  objective = whole.objective_of(settings)
  constants = objective.constants
  assert list(constants.digests) == [path]
  jax.tree.map(
    np.testing.assert_array_equal, constants.params, state["teacher"]
  )
  params, own = whole.started(objective)
  assert sorted(own) == ["average", "center", "patch_center"]
  prepared = objective.prepare(whole.batch(), whole.RNGS)
  loss = jax.jit(
    jax.value_and_grad(
      lambda *args: objective.loss(*args, whole.RNGS, 0),
      argnums=(0, 1),
      has_aux=True,
    )
  )
  (_, (aux, metrics)), (_, of_teacher) = loss(
    params, constants.params, own, prepared
  )
  assert not any(np.any(leaf) for leaf in jax.tree.leaves(of_teacher))

  crops = whole.batch()
  seen, patches = whole.tokens(settings, params, crops["global"])
  local, _ = whole.tokens(settings, params, crops["local"])
  # Of its own image size, so that its positions are resized.
  network = {**state["teacher"]}
  taught, taught_patches = whole.tokens(master, network, crops["global"])

  def wanted(head, tokens):
    logits = oracle.similarities(network[head], tokens)
    flat = oracle.sinkhorn(logits.reshape(-1, 24), 0.06)
    return flat.reshape(logits.shape)

  def logs(head, tokens):
    logits = oracle.similarities(params[head], tokens) / 0.1
    return special.log_softmax(logits, axis=-1)

  targets = wanted("dino_head", taught)
  given = logs("dino_head", np.concatenate([seen, local], axis=1))
  terms = [
    -(targets[:, g] * given[:, v]).sum(axis=-1).mean()
    for g in range(2)
    for v in range(4)
    if g != v
  ]
  np.testing.assert_allclose(metrics["image_loss"], np.mean(terms), rtol=5e-5)
  targets, given = (
    wanted("ibot_head", taught_patches),
    logs("ibot_head", patches),
  )
  by_patch = -(targets * given).sum(axis=-1)
  np.testing.assert_allclose(metrics["patch_loss"], by_patch.mean(), rtol=5e-5)
  assert metrics["masked_share"] == 0

  after = objective.after_update(own, params, aux, 0)
  momentum = 0.996
  np.testing.assert_allclose(
    after["average"]["mask_token"],
    momentum * own["average"]["mask_token"]
    + (1 - momentum) * params["mask_token"],
    rtol=1e-5,
  )
  exported = kind.exported(params, after)
  assert exported["cls"] is after["average"]["cls"]
  assert not set(exported) & set(kind.BESIDE)


def test_a_students_cost_has_its_teachers(teacher):
  path, master, _, _ = teacher
  plain = whole.config(**STUDENT)
  frozen = whole.config(**STUDENT, objective__teacher=path)

  def of(settings):
    return build.forward_flops(settings, num_classes=None)

  # Students are alike; a third of a teacher is counted.
  width, hidden, tokens = 48, 12, 17
  layer = (
    4 * tokens * width**2 + 2 * tokens**2 * width + 2 * tokens * width * 64
  )
  network = 2 * 16 * 48 * width + 2 * layer
  images = 2 * (width * hidden + hidden**2 + hidden * 10 + 10 * 24)
  patches = 2 * (width * hidden + hidden**2 + hidden * 7 + 7 * 24)
  theirs = 2 * (network + images + 16 * patches)
  layer = 4 * tokens * 32**2 + 2 * tokens**2 * 32 + 2 * tokens * 32 * 64
  network = 2 * 16 * 48 * 32 + 2 * 2 * layer
  images = 2 * (32 * 16 + 16**2 + 16 * 8 + 8 * 24)
  patches = 2 * (32 * 16 + 16**2 + 16 * 6 + 6 * 24)
  ours = 2 * (network + images + 16 * patches)
  assert of(frozen) - of(plain) == theirs // 3 - ours // 3


def test_a_run_that_goes_on_takes_student_and_teacher(teacher):
  path, master, params, state = teacher
  goes_on = whole.config(**TEACHER, init_from=path)
  shapes, state_shapes = jax.eval_shape(lambda: (params, state))
  found = start.find(goes_on, shapes, state_shapes)
  assert sorted(found.state) == ["center", "patch_center"]
  for name, leaf in found.state.items():
    np.testing.assert_array_equal(leaf, state[name])
  # The centres of a student's state are its frozen teacher's.
  average = {**state_shapes, "average": state_shapes["teacher"]}
  assert not start.find(goes_on, shapes, average).state
  jax.tree.map(
    np.testing.assert_array_equal, found.exported.params, state["teacher"]
  )
  jax.tree.map(np.testing.assert_array_equal, found.trained.params, params)
  assert not found.trained.fresh and not found.exported.fresh
  # What learns something else begins with what the run is known by.
  weights = reading.read(path)
  head = weights.beside["dino_head"]["Dense_0"]["kernel"]
  np.testing.assert_array_equal(
    head, state["teacher"]["dino_head"]["Dense_0"]["kernel"]
  )
  other = experiments.config(
    model=goes_on.model.model_dump(), init_from=path, evals={}
  )
  assert (
    start.find(other, jax.eval_shape(lambda: weights.params)).trained is None
  )


@pytest.mark.parametrize("separate", [False, True])
def test_a_centre_of_patches_of_another_head_stays_behind(tmp_path, separate):
  """It is that of the prototypes that patches were compared with."""
  write(tmp_path / "run", objective__separate_patch_head=not separate)
  goes_on = whole.config(
    objective__separate_patch_head=separate, init_from=str(tmp_path / "run")
  )
  shapes = jax.eval_shape(whole.objective_of(goes_on).init, jax.random.key(0))
  found = start.find(goes_on, *shapes)
  assert "patch_center" not in found.state


@pytest.mark.parametrize(
  ("theirs", "ours", "words"),
  [
    (
      {"objective__prototypes": 48},
      {},
      ["prototypes = 48", "config.objective.prototypes = 24", "set it to 48"],
    ),
    (
      {"objective__separate_patch_head": False},
      {},
      ["separate_patch_head = False", "set it to False"],
    ),
    (
      {"model__variant": "Ti/8"},
      {},
      ["2 x 2 patches of 8 pixels", "into 4 x 4", "patches of 8"],
    ),
  ],
)
def test_a_teacher_that_does_not_fit_is_refused(tmp_path, theirs, ours, words):
  settings = whole.config(**(TEACHER | theirs))
  (tmp_path / "checkpoints").mkdir()
  (tmp_path / "config.json").write_text(resolve.dump(settings))
  student = whole.config(**STUDENT, objective__teacher=str(tmp_path), **ours)
  with pytest.raises(UserError) as error:
    whole.check(student)
  for word in words:
    assert word in str(error.value)


def test_a_network_without_heads_cannot_teach(tmp_path, shared):
  student = whole.config(**STUDENT, objective__teacher=str(tmp_path / "none"))
  with pytest.raises(UserError, match="teacher = .* does not exist"):
    whole.check(student)
  published = str(shared / "golden/vit_token.npz")
  student = whole.config(**STUDENT, objective__teacher=published)
  whole.check(student)
  for learn in (checks.check_files, whole.objective_of):
    with pytest.raises(UserError, match="has no heads, .* published networks"):
      learn(student)


@pytest.mark.parametrize(
  ("name", "shape", "words"),
  [
    ("dino_head/Dense_0/kernel", (32, 12), r"\(32, 12\), .* with \(48, 12\)"),
    ("ibot_head/Dense_1/kernel", (12, 8), r"\(12, 8\), .* with \(12, 12\)"),
    ("ibot_head/prototypes/kernel", (48, 7), r"\(48, 7\), .* \(24, 7\)"),
    ("ibot_head/Dense_2/kernel", None, "lacks ibot_head; .*both heads"),
  ],
)
def test_heads_of_another_network_cannot_teach(
  teacher, monkeypatch, name, shape, words
):
  weights = reading.read(teacher[0])
  leaves = flat.flatten(weights.beside)
  del leaves[name]
  if shape is not None:
    leaves[name] = np.zeros(shape, np.float32)
  damaged = dataclasses.replace(weights, beside=flat.unflatten(leaves))
  # A file that is not a run's, as that has the heads of its config.
  monkeypatch.setattr(reading, "run_config", lambda path: None)
  monkeypatch.setattr(reading, "read", lambda path: damaged)
  path = f"{teacher[0]}/{name}/{shape}"
  student = whole.config(**STUDENT, objective__teacher=path)
  for learn in (checks.check_files, frozen.read):
    with pytest.raises(UserError, match=words):
      learn(student)
