"""SIGTERM to a command: a sentence, exit code 143, nothing half written."""

import sys

import pytest

from tests.faults import runs

COMMAND = """
import os, pathlib, signal, sys, time
from vit_jax import command_line, records

def main(argv):
  {body}
  time.sleep(100)

{before}
command_line.run(main)
"""


def ended(repo, body, before=""):
  """A command that does `body`, which sends SIGTERM to its own process."""
  code = COMMAND.format(body="\n  ".join(body), before=before)
  process = runs.start_command(repo, [sys.executable, "-c", code])
  return runs.end(process, 143, timeout=100)


@pytest.mark.parametrize(
  "lines",
  [
    (
      "with records.replacing({path!r}) as partial:",
      "  partial.write_text('half')",
    ),
    (
      "with records.new_directory(records.epath.Path({path!r})) as partial:",
      "  (partial / 'images').mkdir()",
      "  (partial / 'images' / 'first').write_text('half')",
    ),
  ],
)
def test_sigterm_leaves_nothing_half_written(repo, tmp_path, lines):
  out, err = ended(
    repo,
    [line.format(path=str(tmp_path / "result")) for line in lines]
    + [
      f"  assert len(os.listdir({str(tmp_path)!r})) == 1",
      "  os.kill(os.getpid(), signal.SIGTERM)",
      "  time.sleep(100)",
    ],
  )
  assert (out, err) == ("", "stopped by SIGTERM\n")
  assert not list(tmp_path.iterdir())


def test_the_main_thread_writes_nothing_while_files_are_removed(repo, tmp_path):
  path = str(tmp_path / "result")
  _, err = ended(
    repo,
    [
      f"with records.new_directory(records.epath.Path({path!r})) as partial:",
      "  for i in range(10**6):",
      "    (partial / str(i)).write_text('half')",
      "    if i == 2000:",
      "      os.kill(os.getpid(), signal.SIGTERM)",
    ],
  )
  assert err == "stopped by SIGTERM\n"
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
  "before",
  [
    "os.close(2)",
    "r, w = os.pipe(); os.dup2(w, 2); os.close(r)",
    "r, w = os.pipe(); os.dup2(w, 2)\n"
    "os.write(2, bytes(fcntl.fcntl(w, fcntl.F_GETPIPE_SZ)))",
  ],
  ids=["closed", "without a reader", "full"],
)
def test_sigterm_ends_a_command_whose_stderr_takes_nothing(repo, before):
  ended(
    repo,
    ["os.kill(os.getpid(), signal.SIGTERM)"],
    before=f"import fcntl; {before}",
  )


def test_sigterm_to_a_forked_child_is_not_for_its_parent(repo):
  out, err = ended(
    repo,
    [
      "child = os.fork()",
      "if not child:",
      "  time.sleep(100)",
      "os.kill(child, signal.SIGTERM)",
      "_, status = os.waitpid(child, 0)",
      "print(os.WTERMSIG(status), flush=True)",
      "os.kill(os.getpid(), signal.SIGTERM)",
    ],
  )
  assert (out, err) == ("15\n", "stopped by SIGTERM\n")


def test_a_command_with_a_handler_of_its_own_is_not_ended(repo):
  out, err = ended(
    repo,
    [
      "before = signal.signal(signal.SIGTERM, lambda *_: print('heard'))",
      "os.kill(os.getpid(), signal.SIGTERM)",
      "time.sleep(1)",
      "print('alive', flush=True)",
      "signal.signal(signal.SIGTERM, before)",
      "os.kill(os.getpid(), signal.SIGTERM)",
    ],
  )
  assert (out, err) == ("heard\nalive\n", "stopped by SIGTERM\n")


def test_libtpu_installs_no_handler_of_its_own(repo):
  pytest.importorskip("libtpu")
  out, err = ended(
    repo,
    [
      "from vit_jax.aot import topology",
      "found = topology.parse('v5e:2x2')",
      "topology.prepare_environment(found)",
      "topology.devices(found)",
      "os.kill(os.getpid(), signal.SIGTERM)",
    ],
  )
  assert (out, err) == ("", "stopped by SIGTERM\n")
