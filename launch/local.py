"""Trains with several processes on this machine, on simulated devices.

  python -m launch.local --processes=2 --devices_per_process=2
    --config=configs/quickstart.py:smoke --workdir=runs/two

Simulates several hosts on the CPU, to try out what one process cannot show. The
accelerators of this machine need no launcher: vit_jax.train uses them all.

Each line of output is prefixed with the number of its process. Ctrl-C and
SIGTERM are passed on. When the run is preempted (42) or a process is lost (134,
137, ...), all processes restart, at most --max_restarts times without an hour's
run in between. The exit code is the run's.
"""

import shlex
import sys
from collections.abc import Sequence

from absl import flags

from launch import exit_codes, experiment, restarts
from launch.processes import Processes, Signals, environments
from launch.supervise import say
from vit_jax import command_line


def define_flags() -> None:
  experiment.define_flags()
  flags.DEFINE_integer("processes", 2, "Number of processes.", lower_bound=1)
  flags.DEFINE_integer(
    "devices_per_process",
    1,
    "Number of CPU devices that each simulates.",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "max_restarts",
    3,
    "Maximum number of restarts without an hour's run.",
    lower_bound=0,
  )


def main(argv: Sequence[str]) -> int:
  command_line.no_arguments(argv)
  taken = experiment.from_flags(same_environment=True)
  command = taken.command(sys.executable, experiment.shared_config(taken))
  count, devices = flags.FLAGS.processes, flags.FLAGS.devices_per_process
  if flags.FLAGS.dry_run:
    for variables in environments(count, devices):
      words = [f"{name}={value}" for name, value in variables.items()]
      print(shlex.join(["env", *words, *command]))
    return 0
  return run(command, count, devices, max_restarts=flags.FLAGS.max_restarts)


def run(
  command: Sequence[str], count: int, num_devices: int, *, max_restarts: int
) -> int:
  """Runs a command as several processes, again if need be.

  Args:
    command: Command of each process.
    count: Number of processes.
    num_devices: Devices simulated by each process.
    max_restarts: Restarts without progress, as in `restarts.repeat`.

  Returns:
    The exit code of the last attempt: of its processes, the worst one's.
  """
  with Signals() as signals:

    def attempt() -> int:
      processes = Processes(
        command, environments(count, num_devices), labelled=True
      )
      signals.pass_to(processes)
      return exit_codes.of_all(processes.wait())

    return restarts.repeat(
      attempt,
      max_restarts=max_restarts,
      restart_preempted=True,
      asked_to_stop=lambda: signals.received,
      say=say,
    )


if __name__ == "__main__":
  define_flags()
  command_line.run(main, config_flag="config", outlives_output=True)
