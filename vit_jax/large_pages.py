"""Requests large memory pages if the computation is on a CPU.

Many Linux systems reserve large pages for programs that request them (`madvise`
in /sys/kernel/mm/transparent_hugepage/enabled). glibc does so if GLIBC_TUNABLES
is set when a program starts, so a command has to be restarted once: this takes
20 ms, and steps take a quarter less time (docs/performance.md).
"""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence

from vit_jax import absent_tpu

_TUNABLE = "glibc.malloc.hugetlb"
# Records the request, in case the tunable is lost along the way.
_ASKED = "VIT_JAX_ASKED_FOR_LARGE_PAGES"
_MODES = "/sys/kernel/mm/transparent_hugepage/enabled"


def ask() -> None:
  """Restarts this command with large pages, if they are available and help.

  Must be called while a command of this package is being located. Does nothing
  in other programs, if GLIBC_TUNABLES already mentions large pages, or if there
  is an accelerator.
  """
  if not sys.executable or not is_command(sys.argv, sys.orig_argv):
    return
  environment = with_large_pages(os.environ)
  if environment is not None:
    # A command that cannot be restarted continues unchanged.
    with contextlib.suppress(OSError):
      arguments = [sys.executable, *sys.orig_argv[1:]]
      os.execve(sys.executable, arguments, environment)


def is_command(argv: Sequence[str], orig_argv: Sequence[str]) -> bool:
  """Returns True for `vit-jax` and `python -m vit_jax...` being located.

  Args:
    argv: `sys.argv`, whose first element is -m while Python locates that
      module.
    orig_argv: `sys.orig_argv`.
  """
  if argv[:1] == ["-m"] and "-m" in orig_argv[:-1]:
    module = orig_argv[orig_argv.index("-m") + 1]
    return module.partition(".")[0] == "vit_jax"
  # A process spawned by a command has its argv.
  is_script = bool(argv) and argv[:1] == orig_argv[1:2]
  return is_script and os.path.basename(argv[0]) == "vit-jax"


def with_large_pages(
  environment: Mapping[str, str], modes: str = _MODES, devices: str = "/dev"
) -> dict[str, str] | None:
  """Returns `environment` requesting large pages; None if useless.

  Args:
    environment: Environment variables.
    modes: File in which Linux states which programs get large pages.
    devices: Folder of device files.
  """
  tunables = environment.get("GLIBC_TUNABLES", "")
  if _TUNABLE in tunables or _ASKED in environment:
    return None
  if not _on_request(modes) or not _has_tunable():
    return None
  on_cpu = environment.get("JAX_PLATFORMS") == "cpu"
  if not on_cpu and absent_tpu.has_accelerator(devices):
    return None
  asked = ":".join(filter(None, (tunables, f"{_TUNABLE}=1")))
  return {**environment, "GLIBC_TUNABLES": asked, _ASKED: "1"}


def _on_request(modes: str) -> bool:
  """Returns True if large pages are given only on request."""
  try:
    with open(modes, encoding="ascii") as file:
      return "[madvise]" in file.read()
  except OSError:
    return False


def _has_tunable() -> bool:
  """Returns True for glibc 2.35 or newer."""
  try:
    name, version = os.confstr("CS_GNU_LIBC_VERSION").split()
    return name == "glibc" and tuple(map(int, version.split("."))) >= (2, 35)
  except (ValueError, AttributeError, OSError):
    return False
