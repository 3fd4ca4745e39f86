"""The pages on launching: their commands, flags, codes and files."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from launch import exit_codes, experiment
from launch.exit_codes import Outcome

DOCS = experiment.REPO / "docs"
PAGES = {
  name: (DOCS / f"{name}.md").read_text(encoding="utf-8")
  for name in ("launch", "local", "slurm", "gke", "cloud_tpu")
}
COMMANDS = [
  line
  for text in PAGES.values()
  for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
  for line in block.splitlines()
]
LAUNCHES = [c for c in COMMANDS if c.startswith("python -m launch.")]
OF_OTHER_PROGRAMS = {"follow", "prefix", "requeue", "selector", "tail"}
MODULES = sorted({c.split()[2] for c in LAUNCHES})

needs_git = pytest.mark.skipif(
  not (experiment.REPO / ".git").exists(), reason="this is no clone"
)


def run(words, place=experiment.REPO):
  return subprocess.run(
    [sys.executable, *words],
    cwd=place,
    env={**os.environ, "PYTHONPATH": str(experiment.REPO)},
    capture_output=True,
    text=True,
    timeout=120,
  )


@pytest.fixture(scope="module")
def helps():
  """What --help prints, by module."""
  return {m: run(["-m", m, "--help"]).stdout for m in MODULES}


def test_each_launcher_has_a_page_with_a_command():
  assert MODULES == [
    *("launch.cloud_tpu", "launch.gke", "launch.local", "launch.slurm")
  ]


@needs_git
@pytest.mark.parametrize("command", LAUNCHES)
def test_the_dry_run_of_a_command_prints_and_does_nothing(command, tmp_path):
  python, *words = shlex.split(command)
  assert python == "python"
  outcome = run([*words, "--dry_run"], tmp_path)
  assert outcome.returncode == 0, outcome.stderr
  program = {
    "launch.local": "env ",
    "launch.slurm": "sbatch ",
    "launch.gke": "kubectl create ",
    "launch.cloud_tpu": ("bash ", "gcloud "),
  }[words[1]]
  assert outcome.stdout.splitlines()[-1].startswith(program)
  assert list(tmp_path.iterdir()) == []


def test_every_other_command_is_one_of_ours(repo):
  for command in set(COMMANDS) - set(LAUNCHES):
    module = command.removeprefix("python -m ").split()[0]
    assert (repo / module.replace(".", "/")).with_suffix(".py").exists()


@pytest.mark.parametrize("page", ["local", "slurm", "gke", "cloud_tpu"])
def test_the_flags_that_a_page_names_exist(page, helps):
  known = re.findall(r"--(?:\[no\])?(\w+):", helps[f"launch.{page}"])
  named = re.findall(r"(?<![\w=-])--(\w+)(?=[\s=`):;,])", PAGES[page])
  missing = set(named) - set(known) - OF_OTHER_PROGRAMS - {"nobuild"}
  assert not missing


def test_the_keys_that_they_name_exist():
  from vit_jax.config import resolve, schema

  known = set(resolve.flatten(schema.Config().model_dump()))
  text = "\n".join(PAGES.values())
  named = set(re.findall(r"--config\.([a-z_]+(?:\.[a-z_]+)*)", text))
  named |= set(re.findall(r"`((?:checkpoint|train)\.[a-z_]+)`", text))
  assert named and named <= known


def test_the_table_of_exit_codes_is_what_is_done():
  rows = re.findall(
    r"^\| ([\d, ]+)[^|]*\|[^|]*\| ([^|]*) \|", PAGES["launch"], re.M
  )
  done = {
    Outcome.FINISHED: "end",
    Outcome.PREEMPTED: "start again",
    Outcome.LOST: "start all again",
    Outcome.STOPPED: "end",
  }
  listed = {
    int(code) for codes, _ in rows for code in re.findall(r"\d+", codes)
  }
  assert {0, 1, 42, 130, 134, 137, 143} == listed
  for codes, action in rows:
    for code in re.findall(r"\d+", codes):
      assert action.startswith(done[exit_codes.outcome(int(code))])


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_page_they_name_is_there(page):
  links = re.findall(r"\]\((?!https?:)([^)#]+)\)", PAGES[page])
  for link in links:
    assert (DOCS / link).exists(), link
  for path in re.findall(r"`((?:tests|launch|configs)/[\w./]+)`", PAGES[page]):
    assert (experiment.REPO / path).exists(), path


@pytest.mark.parametrize("module", MODULES)
def test_help_shows_the_flags_and_an_example(module, helps):
  text = helps[module]
  assert f"python -m {module}" in text
  for flag in ("--workdir", "dry_run", "--config"):
    assert flag in text


def test_the_package_lists_each_launcher(repo):
  text = (repo / "launch" / "__init__.py").read_text()
  assert all(f"python -m {module} " in text for module in MODULES)
