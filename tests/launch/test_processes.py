"""Processes that are started, told and waited for together."""

import os
import signal
import sys
import time

import pytest

from launch.processes import Processes, Signals, environments

FAST = [sys.executable, "-I", "-S", "-c"]


def wait_for(path):
  while not path.exists():
    time.sleep(0.01)


def test_the_processes_of_a_run_differ_in_their_index_alone():
  first, second = environments(2, 3)
  assert first.pop("JAX_PROCESS_ID") == "0"
  assert second.pop("JAX_PROCESS_ID") == "1"
  assert first == second
  assert first["JAX_NUM_PROCESSES"] == "2"
  assert first["JAX_NUM_CPU_DEVICES"] == "3"


def test_codes_come_in_the_order_of_the_processes():
  code = "import os; os._exit(int(os.environ['CODE']))"
  each = [{"CODE": "0"}, {"CODE": "7"}, {"CODE": "42"}]
  assert Processes([*FAST, code], each, labelled=False).wait() == [0, 7, 42]


def test_lines_come_whole_and_with_their_process(capfd):
  code = (
    "import os, sys\nfor i in range(200):\n"
    "  print('line', i, os.environ['NAME'], 'x' * 100)\n"
    "print('last', file=sys.stderr, end='')"
  )
  each = [{"NAME": "ä"}, {"NAME": "b"}]
  each = [{"PYTHONIOENCODING": "utf8", **variables} for variables in each]
  Processes([*FAST, code], each, labelled=True).wait()
  out, err = capfd.readouterr()
  for index, name in enumerate("äb"):
    mine = [x for x in out.splitlines() if x.startswith(f"{index}: ")]
    assert mine == [
      f"{index}: line {i} {name} " + "x" * 100 for i in range(200)
    ]
  assert sorted(err.splitlines()) == ["0: last", "1: last"]


def test_who_stays_behind_a_failed_one_is_killed():
  code = "import os, time; time.sleep(float(os.environ['SLEEP'])); os._exit(3)"
  each = [{"SLEEP": "0"}, {"SLEEP": "600"}]
  processes = Processes([*FAST, code], each, labelled=False)
  assert processes.wait(leave_seconds=0.2) == [3, 137]


def test_a_child_that_a_lost_process_leaves_holds_nothing_up(tmp_path, capfd):
  """It has the output of its parent, whose end is not the end of that."""
  code = (
    "import os, pathlib, signal, subprocess\n"
    "child = subprocess.Popen(['sleep', '600'])\n"
    f"pathlib.Path({str(tmp_path / 'child')!r}).write_text(str(child.pid))\n"
    "print('last', flush=True)\n"
    "os.kill(os.getpid(), signal.SIGKILL)"
  )
  begun = time.monotonic()
  try:
    assert Processes([*FAST, code], [{}], labelled=True).wait() == [137]
    assert time.monotonic() - begun < 60
  finally:
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
  assert capfd.readouterr().out == "0: last\n"


def test_who_stays_behind_a_finished_one_is_waited_for():
  code = "import os, time; time.sleep(float(os.environ['SLEEP']))"
  each = [{"SLEEP": "0"}, {"SLEEP": "0.5"}]
  processes = Processes([*FAST, code], each, labelled=False)
  assert processes.wait(leave_seconds=0) == [0, 0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_each_process_once(number, tmp_path):
  code = (
    "import os, pathlib, signal, sys, time\n"
    "got = []\n"
    "for n in (signal.SIGTERM, signal.SIGINT):\n"
    "  signal.signal(n, lambda n, f: got.append(n))\n"
    f"pathlib.Path({str(tmp_path)!r}, os.environ['NAME']).touch()\n"
    "while not got: time.sleep(0.01)\n"
    "time.sleep(0.3)\n"
    "sys.exit(10 * len(got) + got[0])"
  )
  with Signals() as signals:
    processes = Processes(
      [*FAST, code], [{"NAME": "0"}, {"NAME": "1"}], labelled=False
    )
    signals.pass_to(processes)
    wait_for(tmp_path / "0")
    wait_for(tmp_path / "1")
    os.kill(os.getpid(), number)
    assert processes.wait() == [10 + number] * 2
  assert signals.received


def test_a_signal_that_came_before_them_reaches_them_too():
  with Signals() as signals:
    os.kill(os.getpid(), signal.SIGTERM)
    processes = Processes(
      [*FAST, "import time; time.sleep(600)"], [{}], labelled=False
    )
    signals.pass_to(processes)
    assert processes.wait() == [143]


def test_a_command_that_is_not_there_leaves_nothing_behind():
  with pytest.raises(FileNotFoundError):
    Processes(["/nowhere/python"], [{}, {}], labelled=False)
