"""What --dry_run shows."""

import functools
import re

import pytest
from PIL import Image

from tests import experiments
from vit_jax.errors import UserError
from vit_jax.train import train
from vit_jax.training import dry_run, memory


def compiled(parts):
  return functools.partial(parts.compile(), parts.constants)


def test_it_shows_config_parameters_sharding_batch_and_memory():
  text = "".join(dry_run.describe(experiments.config(mesh__tensor=2), None))
  for title in ("Config", "Parameters", "Sharding", "Batch", "memory", "Run"):
    assert f"== {title}" in text or title in text
  assert '"variant": "Ti/4"' in text
  assert text.startswith("== Run ==\nmodel ")
  kernel = "Transformer/encoderblock_*/MlpBlock_0/Dense_0/kernel"
  assert re.search(rf"{re.escape(kernel)} +\| \(2, 32, 64\)", text)
  assert "(32, 64) -> (-, tensor)" in text
  assert "image: uint8 (16, 8, 8, 3), 8 examples on each device" in text
  assert "6 steps" in text


def test_more_examples_a_device_keep_more_activations():
  def activations(**changes):
    return memory.activation_bytes(experiments.build(**changes))

  whole = activations()
  assert activations(train__accumulate_steps=2) < whole
  assert activations(model__remat="full") < whole


def test_data_that_are_not_here_are_noted():
  config = experiments.config(train__dataset="not_there", model__num_classes=5)
  text = "".join(dry_run.describe(config, None))
  assert "The data are not here" in text
  assert "head/bias" in text


def test_data_that_are_here_must_suit_the_config(tmp_path):
  Image.new("RGB", (8, 8)).save(tmp_path / "1.png")
  (tmp_path / "captions.jsonl").write_text('{"image": "1.png", "text": "a"}\n')
  config = experiments.config(
    train__dataset="captions",
    train__preprocess="decode|resize|tokenize(8)",
    data_dir=str(tmp_path),
    objective__name="mae",
    evals={},
  )
  with pytest.raises(UserError, match="name its file in config.train.tokeniz"):
    "".join(dry_run.describe(config, None))


def test_data_that_an_evaluator_lacks_are_an_error():
  config = experiments.config(evals__test__split="dev")
  with pytest.raises(UserError, match=r"config.evals.test: .* no split 'dev'"):
    "".join(dry_run.describe(config, None))


def test_without_labels_a_way_round_an_evaluator_is_named():
  config = experiments.config(
    train__preprocess="decode|resize|keep('image')",
    objective__name="mae",
    evals__test={"type": "knn", "datasets": {"own": {"dataset": "not_there"}}},
  )
  with pytest.raises(UserError) as error:
    "".join(dry_run.describe(config, None))
  assert str(error.value).startswith("config.evals.test.datasets.own: Dataset")
  assert "\nTo learn without evaluators, add --config.evals={}." in str(
    error.value
  )


def test_it_says_how_long_the_run_takes_on_the_devices_at_hand():
  pieces = list(dry_run.describe(experiments.config(), compiled))
  # Six steps; the evaluator is due after the third and the sixth.
  line = r"duration  about \d+ s here: 6 steps of \S+ s and 2 evaluations"
  assert re.search(line, pieces[1])
  assert pieces[2].startswith("\n== Config ==")
  assert all(piece.endswith("\n") for piece in pieces)


def test_without_the_data_steps_are_timed_all_the_same():
  config = experiments.config(train__dataset="not_there", model__num_classes=5)
  text = "".join(dry_run.describe(config, compiled))
  assert re.search(r"6 steps of \S+ s, with data at hand, and 2 eval", text)


def test_a_step_that_no_device_here_could_make_is_not_tried():
  config = experiments.config(
    model__width=8192,
    model__mlp_dim=2**17,
    model__depth=48,
    model__num_heads=64,
  )
  text = "".join(dry_run.describe(config, compiled))
  assert re.search(r"duration  at least \S+ .*here: 6 steps of", text)


def test_what_keeps_a_step_from_being_made_is_said_after_all_else():
  def refuse(parts):
    raise UserError("It does not fit.")

  said = []
  with pytest.raises(UserError, match="It does not fit"):
    for piece in dry_run.describe(experiments.config(), refuse):
      said.append(piece)  # noqa: PERF402 What came before counts.
  assert "duration  not known" in said[1]
  assert any("== Config ==" in piece for piece in said)


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
  made = tmp_path_factory.mktemp("run")
  assert train(experiments.config(total_steps=2, evals={}), str(made)) == 0
  return made


def changes_of(directory):
  return {path: path.stat().st_mtime_ns for path in directory.rglob("*")}


@pytest.mark.parametrize(
  "changes",
  [
    {"seed": 1},
    {"allow_change": "shcedule"},
    {"ema_decay": 0.9, "allow_change": "ema_decay"},
    {"train__dataset": "generated:classes=4,size=8,examples=65"},
  ],
)
def test_it_refuses_what_a_start_would_refuse(workdir, changes):
  config = experiments.config(**{"total_steps": 2, "evals": {}} | changes)
  with pytest.raises(UserError) as start:
    train(config, str(workdir))
  before = changes_of(workdir)
  with pytest.raises(UserError) as dry:
    "".join(dry_run.describe(config, None, str(workdir)))
  assert str(dry.value) == str(start.value)
  assert changes_of(workdir) == before


def test_it_says_where_a_run_would_resume(workdir):
  changes = {"total_steps": 4, "allow_change": "total_steps", "evals": {}}
  config = experiments.config(**changes)
  text = "".join(dry_run.describe(config, None, str(workdir)))
  assert "where the run was stopped, after step 2" in text


def test_only_what_is_left_of_a_run_is_estimated(workdir):
  changes = {"total_steps": 4, "allow_change": "total_steps"}
  config = experiments.config(**changes)
  run, duration, *_ = dry_run.describe(config, compiled, str(workdir))
  assert "4 steps of 16 images, 1 epoch" in run
  assert "here: the remaining 2 steps of " in duration
  assert duration.endswith(" and 2 evaluations\n")


def test_nothing_is_timed_if_nothing_is_left(workdir):
  config = experiments.config(total_steps=2, evals={})
  text = "".join(dry_run.describe(config, pytest.fail, str(workdir)))
  assert "at step 2 of 2 already; nothing is left to train" in text
  assert "duration" not in text


def test_it_says_that_a_run_was_stopped_early(tmp_path):
  config = experiments.config(
    schedule__base_lr=1e-60,  # No float32: nothing changes.
    evals__test__every_steps=1,
    checkpoint__keep_best="test/top1",
    early_stopping=2,
  )
  assert train(config, str(tmp_path)) == 0
  text = "".join(dry_run.describe(config, pytest.fail, str(tmp_path)))
  assert "at step 3, where it was stopped early; nothing is left" in text
  assert "duration" not in text
  patient = config.model_copy(update={"early_stopping": 3})
  text = "".join(dry_run.describe(patient, compiled, str(tmp_path)))
  assert "where the run was stopped, after step 3" in text
  assert "here: the remaining 3 steps of" in text
  (tmp_path / "metrics.jsonl").unlink()
  (tmp_path / "metrics.jsonl").mkdir()
  with pytest.raises(UserError, match="metrics.jsonl cannot be read"):
    list(dry_run.describe(config, None, str(tmp_path)))
  unbounded = config.model_copy(update={"early_stopping": None})
  assert list(dry_run.describe(unbounded, None, str(tmp_path)))


def test_names_of_keys_that_may_change_are_checked_without_a_run():
  config = experiments.config(allow_change="shcedule")
  with pytest.raises(UserError, match="did you mean 'schedule'"):
    "".join(dry_run.describe(config, None))
