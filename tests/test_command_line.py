"""What a person who types something wrong is told, and how fast."""

import json
import os
import subprocess
import sys

import pytest

from vit_jax import command_line
from vit_jax.errors import UserError

QUICKSTART = "--config=configs/quickstart.py"


def run(*arguments, module="vit_jax.train", cwd=None):
  return subprocess.run(
    [sys.executable, "-m", module, *arguments],
    capture_output=True,
    text=True,
    cwd=cwd,
    timeout=300,
  )


@pytest.mark.parametrize(
  ("arguments", "sentence"),
  [
    ([], "No experiment was named"),
    (["--config=configs/quickstrat.py"], "configs/quickstart.py"),
    ([QUICKSTART], "give --workdir=DIR"),
    ([QUICKSTART + ":smoek"], 'did you mean "smoke"?'),
    (["--config=configs"], "configs is a directory; name a file in it"),
    ([QUICKSTART, "--workdirr=x"], "workdir"),
    (
      [QUICKSTART, "--batch_size=3"],
      "Unknown command line flag 'batch_size'. Did you mean"
      " --config.train.batch_size?",
    ),
    ([QUICKSTART, "--base_lr=3"], "Did you mean --config.schedule.base_lr?"),
    (
      [QUICKSTART, "--warmup-epochs=5"],
      "Did you mean --config.schedule.warmup_steps?",
    ),
    ([QUICKSTART, "--split=x"], "Did you mean --config.train.split?"),
    ([QUICKSTART, "--data=x"], "Did you mean --config.train.dataset?"),
    ([QUICKSTART, "--model=B/16"], "Did you mean --config.model.variant?"),
    ([QUICKSTART, "--output-dir=x"], "--workdir names the directory of a run."),
    ([QUICKSTART, "--resume"], "start the same command again. Run with --help"),
    ([QUICKSTART, "--eval"], "run python -m vit_jax.evaluate. Run with --help"),
    ([QUICKSTART, "--siglip"], "Give --config=configs/siglip.py. Run with"),
    ([QUICKSTART, "--frob=3"], "flag 'frob'. Run with --help"),
    (
      [QUICKSTART, "--workdir=README.md"],
      "The workdir README.md is a file; give a directory with --workdir.",
    ),
    ([QUICKSTART, "extra"], 'Unexpected argument "extra"'),
    (
      [QUICKSTART, "--config.schedule.base_rl=0.1"],
      'Unknown key "config.schedule.base_rl" (0.1). Did you mean'
      ' "config.schedule.base_lr"?',
    ),
    (
      [QUICKSTART, "--config.optimizer.decay_mask[0]=a"],
      "config.optimizer.decay_mask[0]: one item cannot be set; give"
      " config.optimizer.decay_mask as a whole",
    ),
    (
      [QUICKSTART, "--config", "x.py", "--workdir=y"],
      "--config is given 2 times: configs/quickstart.py, x.py. Give it once.",
    ),
    (
      [QUICKSTART, "--config.mesh.rules=(('(', ('tensor',)),)"],
      "config.mesh.rules: '(' is not a regular expression (missing ),",
    ),
    (
      [QUICKSTART, "--config.total_epochs=1e308", "--workdir=y"],
      "config.total_epochs = 1e+308 over",
    ),
    (
      [QUICKSTART, "--config.train.batch_size=many"],
      "config.train.batch_size = 'many' must be a whole number.",
    ),
    (
      [QUICKSTART, "--config.model.variant=B/17x"],
      "config.model.variant",
    ),
    (
      [QUICKSTART, "--config.model.image_size=17"],
      "config.model.image_size",
    ),
    (
      [QUICKSTART, "--config.train.preprocess=decode|flip_rl"],
      'Did you mean "flip_lr"?',
    ),
    ([QUICKSTART, "--config.optimizer.name=adamm"], "adamw"),
    (
      [QUICKSTART, "--config.evals.test.type=x"],
      "config.evals.test.type = 'x' is not known. Known: classification",
    ),
    ([QUICKSTART, "--config.train.dataset=digits:3"], "takes no arguments"),
    (
      [QUICKSTART, "--config.objective.distillation=soft"],
      "config.objective.distillation = 'soft' has no effect without"
      " config.objective.teacher; change that, or leave it at 'hard'.",
    ),
  ],
)
def test_bad_input_gets_a_sentence_and_exit_code_1(repo, arguments, sentence):
  result = run(*arguments, cwd=repo)
  assert result.returncode == 1
  assert "Traceback" not in result.stderr
  assert all(line.startswith("error: ") for line in result.stderr.splitlines())
  assert sentence in result.stderr


def test_a_file_may_set_keys_that_an_override_leaves_without_effect():
  code = """
from vit_jax import command_line
command_line.define_config()
def main(argv):
  config = command_line.resolved_config()
  print(config.ema_decay, config.ema_warmup)
command_line.run(main, config_flag="config")
"""
  result = subprocess.run(
    [
      *(sys.executable, "-c", code, "--config=configs/convnext.py"),
      "--config.ema_decay=None",
    ],
    capture_output=True,
    text=True,
    timeout=300,
  )
  assert (result.stdout, result.stderr) == ("None False\n", "")


def test_an_evaluation_is_told_how_to_name_a_run(repo):
  result = run(QUICKSTART, "--workdir=x", cwd=repo, module="vit_jax.evaluate")
  assert result.returncode == 1
  assert "read a run with --checkpoint=WORKDIR." in result.stderr


def test_bad_input_is_answered_without_importing_jax_or_tensorflow(repo):
  code = f"""
import os, runpy, sys
def leave(code):
  heavy = {{"jax", "tensorflow", "optax", "flax"}} & set(sys.modules)
  print("left with", code, sorted(heavy))
os._exit = leave
sys.argv = ["train", "{QUICKSTART}", "--config.seed=-1"]
runpy.run_module("vit_jax.train", run_name="__main__")
"""
  result = subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, cwd=repo
  )
  assert result.stdout == "left with 1 []\n"


@pytest.mark.parametrize(
  "module",
  [
    "vit_jax.train",
    "vit_jax.evaluate",
    "vit_jax.predict",
    "vit_jax.search",
    "vit_jax.convert",
    "vit_jax.prepare",
    "vit_jax.benchmark",
    "vit_jax.sweep",
    "vit_jax.vtab",
    "vit_jax.deduplicate",
    "launch.local",
    "launch.slurm",
    "launch.gke",
    "launch.cloud_tpu",
  ],
)
def test_help_shows_the_flags_and_an_example(repo, module):
  result = run("--help", module=module, cwd=repo)
  assert result.returncode == 0
  assert f"python -m {module}" in result.stdout
  assert "--" in result.stdout


@pytest.mark.parametrize(
  ("overrides", "length"),
  [
    ((), "4000 steps, None epochs, at most 200.0"),
    (("total_epochs=9",), "None steps, 9.0 epochs, at most None"),
    (("total_steps=500",), "500 steps, None epochs, at most None"),
    (
      ("total_steps=None", "total_epochs=9"),
      "None steps, 9.0 epochs, at most None",
    ),
    (("total_steps=5", "max_epochs=2"), "5 steps, None epochs, at most 2.0"),
    (
      ("total_steps=5", "total_epochs=9"),
      "5 steps, 9.0 epochs, at most None",
    ),
  ],
)
def test_a_length_of_the_command_line_wins_over_the_files(
  repo, overrides, length
):
  shown = (
    "{config.total_steps} steps, {config.total_epochs} epochs,"
    " at most {config.max_epochs}"
  )
  assert resolved(repo, shown, overrides) == length


def test_one_line_says_that_total_steps_wins_over_total_epochs(repo):
  overrides = ("--config.total_epochs=3", "--config.total_steps=300")
  result = run(QUICKSTART, *overrides, "--dry_run", cwd=repo)
  assert result.returncode == 0
  lines = [x for x in result.stderr.splitlines() if "config.total_epochs" in x]
  (line,) = lines
  assert "config.total_steps = 300 is the length" in line
  assert "config.total_epochs = 3 has no effect" in line


@pytest.mark.parametrize(
  ("overrides", "sizes"),
  [
    ((), "Ti/4 128 6 4 256"),
    (("variant=S/16", "image_size=64"), "S/16 384 12 6 1536"),
    (("variant=Ti/2", "width=64"), "Ti/2 64 6 4 256"),
  ],
)
def test_a_variant_of_the_command_line_wins_over_the_files_sizes(
  repo, overrides, sizes
):
  shown = (
    "{m.variant} {size.width} {size.depth} {size.num_heads} {size.mlp_dim}"
  )
  overrides = [f"model.{override}" for override in overrides]
  assert resolved(repo, shown, overrides) == sizes


def test_a_variant_is_that_of_an_image_tower_too(repo):
  shown = "{m.image.width} {m.image.depth} {m.text.width}"
  overrides = ["model.variant=S/16"]
  file = "configs/study_captions.py:run=softmax"
  assert resolved(repo, shown, overrides, file) == "None None 64"


def test_a_file_may_say_nothing_of_the_model(repo, tmp_path):
  file = tmp_path / "bare.py"
  file.write_text(
    "import ml_collections\n"
    "def get_config():\n"
    "  return ml_collections.ConfigDict({'total_steps': 3})\n"
  )
  assert resolved(repo, "{m.variant}", [], str(file)) == "B/16"


def resolved(repo, shown, overrides, file="configs/finetune_folder.py"):
  """A line about a config file with overrides."""
  code = f"""
from vit_jax import command_line, registry
command_line.define_config()
def main(argv):
  config = command_line.resolved_config()
  m = config.model
  size = registry.FAMILIES.get(m.name).size(m)
  print(f"{shown}")
command_line.run(main, "config")
"""
  overrides = [f"--config.{override}" for override in overrides]
  words = [f"--config={file}", *overrides]
  result = subprocess.run(
    [sys.executable, "-c", code, *words],
    capture_output=True,
    text=True,
    cwd=repo,
  )
  assert result.returncode == 0, result.stderr
  return result.stdout.strip()


@pytest.mark.parametrize(
  ("overrides", "missing"),
  [
    (("evals={}", "evals.test.split=x"), "test"),
    (("evals={'test': 3}", "evals.test.split=x"), "split"),
    (("objective={'name': 'supervised'}", "objective.loss=bce"), "loss"),
  ],
)
def test_a_key_that_a_group_before_it_left_out_is_named(
  repo, overrides, missing
):
  group, key = (f"--config.{override}" for override in overrides)
  result = run("--config=configs/quickstart.py", group, key, cwd=repo)
  assert result.returncode == 1
  assert "Traceback" not in result.stderr
  name = key.removeprefix("--").partition("=")[0]
  assert f"{name}: {group}, given before it, leaves no '{missing}'" in (
    result.stderr
  )


def test_a_key_may_follow_its_group(repo):
  result = run(
    "--config=configs/quickstart.py",
    "--config.evals={'test': {'type': 'classification', 'split': 'a'}}",
    "--config.evals.test.split=b",
    "--dry_run",
    cwd=repo,
  )
  assert "Traceback" not in result.stderr
  assert "leaves no" not in result.stderr and "'b'" in result.stderr


def test_a_config_is_found_from_anywhere(repo, tmp_path):
  environment = {**os.environ, "PYTHONPATH": str(repo)}
  result = subprocess.run(
    [sys.executable, "-m", "vit_jax.train", QUICKSTART],
    capture_output=True,
    text=True,
    cwd=tmp_path,
    env=environment,
  )
  assert "give --workdir=DIR" in result.stderr


@pytest.mark.parametrize(
  ("text", "sentence"),
  [
    ("def get_config(): return 1 / 0", "line 1): ZeroDivisionError"),
    ("def get_config(:", "line 1): SyntaxError"),
    ("import not_there", "line 1): ModuleNotFoundError"),
    ("exit(3)", "line 1): SystemExit: 3"),
    ("x = 1", "defines no function get_config"),
    ("get_config = 3", "defines no function get_config"),
    ("def get_config(): return {}", "must return a ConfigDict"),
  ],
)
def test_a_config_file_that_fails_is_named_with_its_line(
  repo, tmp_path, text, sentence
):
  (tmp_path / "experiment.py").write_text(text)
  result = run(f"--config={tmp_path}/experiment.py", cwd=repo)
  assert result.returncode == 1
  assert "Traceback" not in result.stderr
  assert sentence in result.stderr
  assert "experiment.py" in result.stderr


@pytest.mark.parametrize(
  ("override", "sentence"),
  [
    (
      "--config.optimizer=adam",
      "is a group of keys; set one of them, as --config.optimizer.name=adam.",
    ),
    (
      "--config.evals=None",
      "--config.evals.KEY=VALUE, or --config.evals={} fo",
    ),
    ("--config.train=3", "set one of them, as --config.train.KEY=VALUE."),
    ("--config.log=x", "set one of them, as --config.log.KEY=VALUE."),
    (
      "--config.evals={{}}",
      "--config.evals.KEY=VALUE, or --config.evals={} fo",
    ),
    ("--config.init_from=", "config.init_from is empty; give a value, or None"),
    ("--config.train.split=", "config.train.split is empty; give a value."),
  ],
)
def test_a_value_that_a_key_cannot_have_is_explained(repo, override, sentence):
  result = run("--config=configs/quickstart.py:smoke", override, cwd=repo)
  assert result.returncode == 1
  assert "Traceback" not in result.stderr
  assert sentence in result.stderr


@pytest.mark.parametrize(
  "words", [("--config.evals={}",), ("--config.evals", "{}")]
)
def test_a_group_of_keys_takes_a_dict(repo, words):
  options = "--config=configs/quickstart.py:smoke", "--dry_run"
  result = run(*options, *words, cwd=repo)
  assert result.returncode == 0, result.stderr


def test_the_config_of_a_run_takes_no_arguments(repo):
  result = run("--config=run/config.json:smoke", cwd=repo)
  assert "takes no arguments; leave out ':smoke'" in result.stderr


def test_a_file_without_permission_is_refused_before_the_work(
  tmp_path, monkeypatch
):
  monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
  with pytest.raises(UserError, match="--output=.* you have no permission"):
    command_line.check_writable("output", str(tmp_path / "x.json"))


def piped(module, *arguments, lines=1):
  """What a command does whose reader ends after `lines`, with its stderr."""
  process = subprocess.Popen(
    [sys.executable, "-m", module, *arguments],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )
  for _ in range(lines):
    assert process.stdout.readline()
  process.stdout.close()
  said = process.stderr.read()
  return process.wait(100), said


@pytest.mark.parametrize(
  "command", [("vit_jax.train",), ("launch.local", "--processes=1")]
)
def test_a_run_outlives_the_reader_of_its_output(tmp_path, command):
  code, said = piped(
    *command,
    f"{QUICKSTART}:smoke",
    f"--workdir={tmp_path}",
    "--config.total_steps=3",
    "--config.evals={}",
  )
  assert code == 0, said
  assert "Traceback" not in said
  summary = json.loads((tmp_path / "summary.json").read_text())
  assert (summary["status"], summary["step"]) == ("finished", 3)


def test_a_run_outlives_a_full_disk_of_its_log(tmp_path):
  with open("/dev/full", "w") as full:
    code = subprocess.call(
      [
        *(sys.executable, "-m", "vit_jax.train", f"{QUICKSTART}:smoke"),
        *(f"--workdir={tmp_path}", "--config.total_steps=3"),
        "--config.evals={}",
      ],
      stdout=full,
      stderr=full,
      timeout=300,
    )
  assert code == 0
  assert json.loads((tmp_path / "summary.json").read_text())["step"] == 3


@pytest.mark.parametrize("outlives_output", [False, True])
def test_unbuffered_output_is_written_line_by_line(outlives_output):
  code = f"""
import os, sys
from vit_jax import command_line
def main(argv):
  print("out")
  print("err", file=sys.stderr)
  os._exit(0)  # A crash, which leaves no time to write what is buffered.
command_line.run(main, outlives_output={outlives_output})
"""
  result = subprocess.run(
    [sys.executable, "-u", "-c", code],
    capture_output=True,
    text=True,
    timeout=300,
  )
  assert (result.stdout, result.stderr) == ("out\n", "err\n")


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_the_reader_of_a_table_may_end_early(arguments):
  code, said = piped("vit_jax.tables", *arguments, lines=0)
  assert code in (0, 1) and said == ""


def test_help_is_shown_in_any_encoding(monkeypatch):
  monkeypatch.setenv("PYTHONIOENCODING", "ascii")
  result = run("--help", module="vit_jax.tables")
  assert (result.returncode, result.stderr) == (0, "")
  assert "\\u" in result.stdout or "\\x" in result.stdout


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_output_that_a_full_disk_refuses_is_an_error(arguments):
  with open("/dev/full", "w") as full:
    result = subprocess.run(
      [sys.executable, "-m", "vit_jax.tables", *arguments],
      stdout=full,
      stderr=subprocess.PIPE,
      text=True,
      timeout=300,
    )
  assert (result.returncode, result.stderr) == (
    1,
    "error: The output cannot be written (No space left on device).\n",
  )


def test_a_tilde_after_the_name_of_a_flag_is_the_home_directory(
  tmp_path, monkeypatch
):
  monkeypatch.setenv("HOME", str(tmp_path / "home"))
  monkeypatch.setenv("PYTHONPATH", os.getcwd())
  (tmp_path / "home").mkdir()
  result = run(
    *("1", "--format=markdown", "--output=~/table.md"),
    module="vit_jax.tables",
    cwd=tmp_path,
  )
  assert result.returncode == 0, result.stderr
  assert [path.name for path in tmp_path.iterdir()] == ["home"]
  assert (tmp_path / "home" / "table.md").read_text()


def test_a_tilde_in_a_key_of_a_config_is_left_to_who_reads_it():
  code = """
from vit_jax import command_line
command_line.define_config()
def main(argv):
  print(repr(command_line.resolved_config().data_dir))
command_line.run(main, config_flag="config")
"""
  result = subprocess.run(
    [
      *(sys.executable, "-c", code, f"{QUICKSTART}:smoke"),
      "--config.data_dir=~/data",
    ],
    capture_output=True,
    text=True,
    timeout=300,
  )
  assert result.stdout == "'~/data'\n", result.stderr
