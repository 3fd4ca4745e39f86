"""What is checked before jax or data is touched."""

import subprocess
import sys
import textwrap

import pytest

from tests import experiments
from tests.objectives.dinov2 import test_frozen, test_objective
from tests.weights.published import GOLDEN
from vit_jax import checks, registry
from vit_jax.errors import UserError
from vit_jax.rundir.trackers.contract import TrackerKind


@pytest.fixture
def tracked(monkeypatch):
  """A config whose tracker needs the package `not_here`."""
  kind = TrackerKind(package="not_here", start=lambda info, memory: None)
  entries = {**registry.TRACKERS._entries, "far": kind}
  monkeypatch.setattr(registry.TRACKERS, "_entries", entries)
  return experiments.config(log__to="far")


def test_a_missing_package_of_a_tracker_is_named(tracked):
  with pytest.raises(UserError) as error:
    checks.check_trackers(tracked)
  assert str(error.value) == (
    "config.log.to = 'far' needs the package not_here, which is missing: run"
    " `pip install not_here`, or leave it out."
  )


def test_a_directory_of_a_packages_name_is_no_package(
  tracked, tmp_path, monkeypatch
):
  """wandb keeps its runs in a directory `wandb`."""
  (tmp_path / "not_here").mkdir()
  monkeypatch.syspath_prepend(tmp_path)
  with pytest.raises(UserError, match="pip install not_here"):
    checks.check_trackers(tracked)
  (tmp_path / "not_here" / "__init__.py").touch()
  checks.check_trackers(tracked)


@pytest.mark.parametrize("flag", ["--dry_run", "--workdir=never_made"])
def test_train_answers_an_unknown_tracker_with_a_sentence(repo, flag):
  command = [sys.executable, "-m", "vit_jax.train", flag]
  command += ["--config=configs/quickstart.py", "--config.log.to=wadb"]
  result = subprocess.run(command, capture_output=True, text=True, cwd=repo)
  assert result.returncode == 1
  assert result.stderr == (
    "error: config.log.to = 'wadb' is not known. Did you mean 'wandb'? Known:"
    " wandb, mlflow, trackio.\n"
  )


TEACHER = "config.objective.teacher"
# Objectives that learn from files: the key that names one, and their settings.
LEARNERS = {
  "dinov2": (
    TEACHER,
    test_objective.SETTINGS | test_frozen.STUDENT | {"model__num_heads": 4},
  ),
  "feature_prediction": (
    TEACHER,
    {
      "objective__name": "feature_prediction",
      "objective__masked_patches": 2,
      "objective__smallest_block": 1,
      "train__preprocess": "decode|resize|keep('image')",
      "evals": {},
    },
  ),
  "supervised": (TEACHER, {}),
  "beit": (
    "config.objective.tokenizer",
    {
      "objective__name": "beit",
      "objective__masked_patches": 2,
      "objective__smallest_block": 1,
      "train__preprocess": "decode|resize|keep('image')",
      "evals": {},
    },
  ),
}


@pytest.mark.parametrize(
  ("damage", "words"),
  [
    ("gone", "does not exist"),
    ("empty", "no checkpoint of PyTorch.* Copy or download it again"),
    ("cut", "is damaged or incomplete .* Copy or download it again"),
  ],
)
@pytest.mark.parametrize("name", LEARNERS)
def test_files_that_cannot_be_learned_from_are_told_with_their_key(
  tmp_path, name, damage, words
):
  whole = (GOLDEN / "dino" / "dinov2.pth").read_bytes()
  path = tmp_path / f"{name}.pth"
  if damage != "gone":
    path.write_bytes(whole[: len(whole) // 2] if damage == "cut" else b"")
  key, settings = LEARNERS[name]
  config = experiments.config(**settings, **keyed(key, path))
  with pytest.raises(UserError, match=f"{key}.*{path}.*{words}"):
    checks.check(config)
    checks.check_files(config)


def keyed(key, path):
  return {key.removeprefix("config.").replace(".", "__"): str(path)}


@pytest.mark.parametrize("name", ["dinov2", "feature_prediction", "supervised"])
def test_a_run_without_a_checkpoint_cannot_teach(tmp_path, name):
  key, settings = LEARNERS[name]
  config = experiments.config(**settings, **keyed(key, tmp_path))
  with pytest.raises(UserError, match=f"{key}: .* holds no checkpoint"):
    checks.check_files(config)


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--dry_run", "--workdir=never_made"])
def test_train_answers_a_damaged_teacher_with_a_sentence(repo, tmp_path, flag):
  path = tmp_path / "teacher.pth"
  path.write_bytes(b"")
  command = [sys.executable, "-m", "vit_jax.train", flag]
  command += ["--config=configs/dinov2.py:phase=distill,model=S/14,smoke"]
  command += [f"--{TEACHER}={path}"]
  result = subprocess.run(command, capture_output=True, text=True, cwd=repo)
  assert result.returncode == 1
  assert result.stderr == (
    f"error: {TEACHER}: {path} is damaged or no checkpoint of PyTorch: it is"
    " not a zip archive. Copy or download it again.\n"
  )
  assert not (repo / "never_made").exists()


@pytest.mark.slow
def test_no_device_is_touched_before_processes_join(repo, tmp_path):
  """jax makes one run of several processes only before its first device."""
  run = tmp_path / "run"
  settings, _, _ = test_frozen.write(run, **test_frozen.TEACHER)
  program = """
    from tests.test_checks import LEARNERS, TEACHER, experiments, keyed
    from vit_jax import checks
    from vit_jax.pretrained import initial_model
    from vit_jax.processes import jax_private

    for name in ("dinov2", "feature_prediction", "supervised"):
      key, settings = LEARNERS[name]
      config = experiments.config(
        **settings | {"model__image_size": 16},
        **keyed(key, RUN),
        init_from=RUN,
        model_from_init=True,
      )
      checks.check(config)
      checks.check_files(config)
      begun = initial_model.resolve_architecture(config).model
      assert begun.width == WIDTH
    assert not jax_private.backends_are_initialized()
  """
  program = f"RUN, WIDTH = {str(run)!r}, {settings.model.width}\n" + (
    textwrap.dedent(program)
  )
  result = subprocess.run(
    [sys.executable, "-c", program], capture_output=True, text=True, cwd=repo
  )
  assert result.returncode == 0, result.stderr
