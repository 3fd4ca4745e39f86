"""Every command by one name: `vit-jax`, or `python -m vit_jax`."""

import re
import subprocess
import sys

import pytest

from vit_jax import __main__ as commands


def run(repo, *arguments, module="vit_jax"):
  return subprocess.run(
    [sys.executable, "-m", module, *arguments],
    cwd=repo,
    capture_output=True,
    text=True,
  )


def test_all_commands_are_listed_with_what_they_do(repo):
  modules = {
    path.stem
    for path in (repo / "vit_jax").glob("[a-z]*.py")
    if '__name__ == "__main__"' in path.read_text()
  }
  for arguments in ((), ("--help",)):
    listed = run(repo, *arguments)
    assert listed.returncode == 0
    rows = dict(re.findall(r"^  (\w+) +(\w.*\.)$", listed.stdout, re.MULTILINE))
    assert rows.keys() == modules == set(commands.COMMANDS)
  assert rows["train"].startswith("Trains a model")


def test_a_command_has_the_help_and_the_errors_of_its_module(repo):
  for arguments in (("--help",), ("--no_such_flag",), ()):
    ours = run(repo, "predict", *arguments)
    alone = run(repo, *arguments, module="vit_jax.predict")
    assert (ours.returncode, ours.stdout, ours.stderr) == (
      alone.returncode,
      alone.stdout,
      alone.stderr,
    )


@pytest.mark.parametrize(
  ("name", "hint"), [("trian", " Did you mean 'train'?"), ("qqqq", "")]
)
def test_a_misspelt_command_is_a_sentence(repo, name, hint):
  refused = run(repo, name)
  assert refused.returncode == 1 and not refused.stdout
  first, *others = refused.stderr.splitlines()
  assert first == f"There is no command {name!r}.{hint}"
  assert any(line.startswith("  train ") for line in others)


@pytest.mark.parametrize("arguments", [(), ("--help",), ("train", "--help")])
def test_a_list_that_a_full_disk_refuses_is_an_error(repo, arguments):
  with open("/dev/full", "w") as full:
    result = subprocess.run(
      [sys.executable, "-m", "vit_jax", *arguments],
      cwd=repo,
      stdout=full,
      stderr=subprocess.PIPE,
      text=True,
      timeout=300,
    )
  assert (result.returncode, result.stderr) == (
    1,
    "error: The output cannot be written (No space left on device).\n",
  )


def test_the_reader_of_the_list_may_end_early(repo):
  process = subprocess.Popen(
    [sys.executable, "-m", "vit_jax"],
    cwd=repo,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )
  process.stdout.close()
  assert process.stderr.read() == ""
  assert process.wait(timeout=300) == 1
