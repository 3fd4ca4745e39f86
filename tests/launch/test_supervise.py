"""The supervisor beside a train process, as a process of its own."""

import signal
import subprocess
import sys
import time

import pytest

# Ends with the next code of the list in a file at each start.
CODES = """
import pathlib, sys
path = pathlib.Path(sys.argv[1])
code, *rest = path.read_text().split()
path.write_text(" ".join(rest))
sys.exit(int(code))
"""
WAITING = """
import pathlib, signal, sys, time
def leave(*unused):
  sys.exit(42)
signal.signal(signal.SIGTERM, leave)
path = pathlib.Path(sys.argv[1])
path.write_text(path.read_text() + "started ")
time.sleep(600)
"""


def start(repo, options, code, path):
  return subprocess.Popen(
    [sys.executable, "-m", "launch.supervise", *options]
    + ["--", sys.executable, "-I", "-S", "-c", code, str(path)],
    cwd=repo,
    stderr=subprocess.PIPE,
    text=True,
  )


@pytest.mark.parametrize(
  ("options", "codes", "expected", "left"),
  [
    (["--restart_preempted"], "42 134 0", 0, ""),
    ([], "134 42 0", 42, "0"),
    ([], "1 0", 1, "0"),
    (["--max_restarts=1"], "137 134 0", 134, "0"),
  ],
)
def test_it_starts_again_as_the_exit_code_asks(
  repo, tmp_path, options, codes, expected, left
):
  path = tmp_path / "codes"
  path.write_text(codes)
  options = [*options, f"--exit_code_file={tmp_path / 'code'}"]
  process = start(repo, options, CODES, path)
  _, said = process.communicate(timeout=300)
  assert process.returncode == expected
  assert path.read_text() == left
  assert (tmp_path / "code").read_text() == f"{expected}\n"
  assert said.count("restart ") == codes.count(" ") - left.count("0")


def test_sigterm_is_passed_on_and_ends_it(repo, tmp_path):
  path = tmp_path / "starts"
  path.write_text("")
  process = start(repo, ["--restart_preempted"], WAITING, path)
  while not path.read_text():
    time.sleep(0.02)
  process.send_signal(signal.SIGTERM)
  process.communicate(timeout=300)
  assert process.returncode == 42
  assert path.read_text() == "started "


def test_an_old_exit_code_is_not_mistaken_for_a_new_one(repo, tmp_path):
  (tmp_path / "code").write_text("0\n")
  path = tmp_path / "starts"
  path.write_text("")
  options = [f"--exit_code_file={tmp_path / 'code'}"]
  process = start(repo, options, WAITING, path)
  while not path.read_text():
    time.sleep(0.02)
  assert not (tmp_path / "code").exists()
  process.send_signal(signal.SIGTERM)
  process.communicate(timeout=300)
  assert (tmp_path / "code").read_text() == "42\n"


def test_a_command_that_cannot_be_started_is_named(repo, tmp_path):
  path = tmp_path / "code"
  outcome = subprocess.run(
    [sys.executable, "-m", "launch.supervise", f"--exit_code_file={path}"]
    + ["--", "/nowhere/python"],
    cwd=repo,
    capture_output=True,
    text=True,
  )
  assert outcome.returncode == 1 and path.read_text() == "1\n"
  assert outcome.stderr.startswith("launch: /nowhere/python cannot be started")


def test_it_needs_the_standard_library_alone(repo):
  subprocess.run(
    [sys.executable, "-S", "-m", "launch.supervise", "--help"],
    cwd=repo,
    check=True,
    stdout=subprocess.DEVNULL,
  )
