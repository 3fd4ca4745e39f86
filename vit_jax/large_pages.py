"""Asks for large pages of memory where a CPU computes.

Many Linux systems keep large pages for programs that ask (`madvise` in
/sys/kernel/mm/transparent_hugepage/enabled). glibc asks if GLIBC_TUNABLES says
so when a program starts, so that a command has to start once more: 20 ms, for
steps that take a quarter less time (docs/performance.md).
"""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence

from vit_jax import absent_tpu

_TUNABLE = "glibc.malloc.hugetlb"
# Says that this was asked for, should the tunable be lost on the way.
_ASKED = "VIT_JAX_ASKED_FOR_LARGE_PAGES"
_MODES = "/sys/kernel/mm/transparent_hugepage/enabled"


def ask() -> None:
  """Starts this command again with large pages, if they can be had and help.

  To be called while a command of this package is being located. Does nothing
  in other programs, where GLIBC_TUNABLES already speaks of large pages, and
  where an accelerator computes.
  """
  if not sys.executable or not is_command(sys.argv, sys.orig_argv):
    return
  environment = with_large_pages(os.environ)
  if environment is not None:
    # A command that cannot start again goes on as it is.
    with contextlib.suppress(OSError):
      arguments = [sys.executable, *sys.orig_argv[1:]]
      os.execve(sys.executable, arguments, environment)


def is_command(argv: Sequence[str], orig_argv: Sequence[str]) -> bool:
  """True for `vit-jax` and, while it is being located, `python -m vit_jax...`.

  Args:
    argv: `sys.argv`, whose first element is -m as long as Python locates the
      module of that option.
    orig_argv: `sys.orig_argv`.
  """
  if argv[:1] == ["-m"] and "-m" in orig_argv[:-1]:
    module = orig_argv[orig_argv.index("-m") + 1]
    return module.partition(".")[0] == "vit_jax"
  # A process that a command spawns has its argv.
  is_script = bool(argv) and argv[:1] == orig_argv[1:2]
  return is_script and os.path.basename(argv[0]) == "vit-jax"


def with_large_pages(
  environment: Mapping[str, str], modes: str = _MODES, devices: str = "/dev"
) -> dict[str, str] | None:
  """`environment` with large pages asked for; None if that would not help.

  Args:
    environment: Environment variables.
    modes: File in which Linux says who is given large pages.
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
  """True if large pages are for programs that ask; others have or lack them."""
  try:
    with open(modes, encoding="ascii") as file:
      return "[madvise]" in file.read()
  except OSError:
    return False


def _has_tunable() -> bool:
  """True for glibc of 2.35 or newer."""
  try:
    name, version = os.confstr("CS_GNU_LIBC_VERSION").split()
    return name == "glibc" and tuple(map(int, version.split("."))) >= (2, 35)
  except (ValueError, AttributeError, OSError):
    return False
