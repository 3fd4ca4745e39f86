"""Commands on CPUs start once more with large pages, other programs never."""

import os
import pathlib
import subprocess
import sys

import pytest

from vit_jax import large_pages

ON_REQUEST = "always [madvise] never\n"
GLIBC = "glibc 2.36"


@pytest.fixture
def machine(tmp_path, monkeypatch):
  """A function that says what large pages would be asked for by."""

  def asked(environment, *, modes=ON_REQUEST, device=None, libc=GLIBC):
    file = tmp_path / "enabled"
    if modes is not None:
      file.write_text(modes)
    devices = tmp_path / "dev"
    devices.mkdir()
    if device:
      (devices / device).touch()
    monkeypatch.setattr(os, "confstr", {"CS_GNU_LIBC_VERSION": libc}.get)
    found = large_pages.with_large_pages(environment, str(file), str(devices))
    return found and found.get("GLIBC_TUNABLES")

  return asked


def test_a_cpu_asks_for_them(machine):
  assert machine({"HOME": "/"}) == "glibc.malloc.hugetlb=1"


def test_other_tunables_stay(machine):
  wanted = "glibc.malloc.check=1:glibc.malloc.hugetlb=1"
  assert machine({"GLIBC_TUNABLES": "glibc.malloc.check=1"}) == wanted


def test_the_rest_of_the_environment_stays(tmp_path, monkeypatch):
  monkeypatch.setattr(os, "confstr", lambda name: GLIBC)
  (tmp_path / "enabled").write_text(ON_REQUEST)
  found = large_pages.with_large_pages(
    {"HOME": "/", "JAX_PLATFORMS": "cpu"}, str(tmp_path / "enabled")
  )
  added = {"GLIBC_TUNABLES", "VIT_JAX_ASKED_FOR_LARGE_PAGES"}
  assert found.keys() - {"HOME", "JAX_PLATFORMS"} == added
  assert (found["HOME"], found["JAX_PLATFORMS"]) == ("/", "cpu")


@pytest.mark.parametrize("value", ["0", "1", "2"])
def test_what_was_said_of_them_counts(machine, value):
  said = f"glibc.malloc.check=1:glibc.malloc.hugetlb={value}"
  assert machine({"GLIBC_TUNABLES": said}) is None


@pytest.mark.parametrize(
  "modes", ["[always] madvise never\n", "always madvise [never]\n", None]
)
def test_where_nobody_or_everybody_gets_them_nothing_is_asked(machine, modes):
  assert machine({}, modes=modes) is None


@pytest.mark.parametrize("libc", ["glibc 2.31", "musl 1.2", "", None])
def test_other_libraries_are_not_asked(machine, libc):
  assert machine({}, libc=libc) is None


@pytest.mark.parametrize("device", ["nvidia0", "accel0", "kfd"])
def test_a_machine_with_an_accelerator_is_left_alone(machine, device):
  assert machine({}, device=device) is None


def test_a_cpu_that_computes_beside_an_accelerator_asks(machine):
  asked = machine({"JAX_PLATFORMS": "cpu"}, device="nvidia0")
  assert asked == "glibc.malloc.hugetlb=1"


@pytest.mark.parametrize(
  ("argv", "orig_argv"),
  [
    (["-m", "--help"], ["python", "-m", "vit_jax.train", "--help"]),
    (["-m"], ["python", "-u", "-X", "dev", "-m", "vit_jax"]),
    (["/usr/bin/vit-jax", "train"], ["python", "/usr/bin/vit-jax", "train"]),
  ],
)
def test_commands_are_known(argv, orig_argv):
  assert large_pages.is_command(argv, orig_argv)


@pytest.mark.parametrize(
  ("argv", "orig_argv"),
  [
    ([""], ["python"]),
    ([], ["python"]),
    (["-c"], ["python", "-c", "import vit_jax"]),
    (["script.py", "-m"], ["python", "script.py", "-m", "vit_jax.train"]),
    (["/lib/pytest.py"], ["python", "-m", "pytest"]),
    (["-m"], ["python", "-m", "vit_jax_tools.run"]),
    (["-m"], ["python", "-m", "pdb", "-m", "vit_jax.train"]),
    (["/usr/bin/vit-jax"], ["python", "-c", "from multiprocessing..."]),
  ],
)
def test_other_programs_are_not_commands(argv, orig_argv):
  assert not large_pages.is_command(argv, orig_argv)


def test_a_command_starts_again_with_the_same_arguments(monkeypatch):
  started = []
  original = ["python3", "-u", "-m", "vit_jax.train", "--workdir=a b"]
  monkeypatch.setattr(sys, "argv", ["-m", "--workdir=a b"])
  monkeypatch.setattr(sys, "orig_argv", original)
  monkeypatch.setattr(os, "execve", lambda *words: started.append(words))
  monkeypatch.setattr(large_pages, "with_large_pages", lambda old: {"A": "b"})
  large_pages.ask()
  again = [sys.executable, "-u", "-m", "vit_jax.train", "--workdir=a b"]
  assert started == [(sys.executable, again, {"A": "b"})]


def test_a_command_that_cannot_start_again_goes_on(monkeypatch):
  def refuse(*words):
    raise OSError("Argument list too long")

  monkeypatch.setattr(sys, "argv", ["vit-jax"])
  monkeypatch.setattr(sys, "orig_argv", ["python", "vit-jax"])
  monkeypatch.setattr(os, "execve", refuse)
  monkeypatch.setattr(large_pages, "with_large_pages", lambda old: {"A": "b"})
  large_pages.ask()


@pytest.mark.parametrize("lost", [False, True])
def test_a_command_starts_twice_where_they_can_be_had(tmp_path, lost):
  """And no more often, even if what was asked for is lost on the way."""
  starts = tmp_path / "starts"
  (tmp_path / "sitecustomize.py").write_text(
    "import os\n"
    f"with open({str(starts)!r}, 'a') as file:\n"
    "  print(os.environ.get('GLIBC_TUNABLES'), file=file)\n"
    f"if {lost}:\n"
    "  os.environ.pop('GLIBC_TUNABLES', None)\n"
  )
  environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
  environment["JAX_PLATFORMS"] = "cpu"
  for name in ("GLIBC_TUNABLES", "VIT_JAX_ASKED_FOR_LARGE_PAGES"):
    environment.pop(name, None)
  subprocess.run(
    [sys.executable, "-m", "vit_jax", "--help"],
    env=environment,
    check=True,
    capture_output=True,
    cwd=pathlib.Path(__file__).parents[1],
  )
  asked = large_pages.with_large_pages(environment)
  expected = ["None"] if asked is None else ["None", asked["GLIBC_TUNABLES"]]
  assert starts.read_text().splitlines() == expected


def test_a_command_says_what_it_says_without_them():
  """With its arguments, its input, its exit code and one start more at most."""

  def run(**more):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **more}
    if not more:
      environment.pop("GLIBC_TUNABLES", None)
    found = subprocess.run(
      [sys.executable, "-m", "vit_jax", "trian", "--config=a b"],
      env=environment,
      capture_output=True,
      text=True,
    )
    return found.returncode, found.stdout, found.stderr

  code, out, error = run()
  assert (code, out) == (1, "")
  assert "Did you mean 'train'?" in error
  assert run(GLIBC_TUNABLES="glibc.malloc.hugetlb=0") == (code, out, error)
