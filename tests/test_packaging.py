"""An installed copy is complete, and every library it uses is declared."""

import ast
import importlib.metadata
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

REPO = pathlib.Path(__file__).parents[1]
SOURCES = [*REPO.glob("vit_jax/**/*"), *REPO.glob("configs/**/*")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
  """The package, built as `pip install .` does."""
  folder = tmp_path_factory.mktemp("wheel")
  source = folder / "source"
  source.mkdir()
  for name in ("setup.py", "README.md", "LICENSE", "vit_jax", "configs"):
    (source / name).symlink_to(REPO / name)
  subprocess.run(
    [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    + ["--no-build-isolation", "--wheel-dir", folder, source],
    check=True,
  )
  return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_the_wheel_holds_every_file(wheel):
  files = {
    str(path.relative_to(REPO)).replace("configs/", "vit_jax/configs/", 1)
    if path.is_relative_to(REPO / "configs")
    else str(path.relative_to(REPO))
    for path in SOURCES
    if path.is_file() and "__pycache__" not in path.parts
  }
  assert files <= set(wheel.namelist())


def test_the_wheel_brings_no_tests(wheel):
  tops = {name.split("/")[0] for name in wheel.namelist()}
  assert {top for top in tops if "dist-info" not in top} == {"vit_jax"}


def declared(wheel: zipfile.ZipFile) -> list[str]:
  metadata = next(n for n in wheel.namelist() if n.endswith("/METADATA"))
  lines = wheel.read(metadata).decode().splitlines()
  return [
    line.removeprefix("Requires-Dist: ")
    for line in lines
    if line.startswith("Requires-Dist: ")
  ]


def canonical(requirement: str) -> str:
  """'Foo_bar[x]>=1; marker' -> 'foo-bar'."""
  name = re.match(r"[A-Za-z0-9._-]+", requirement).group()
  return re.sub(r"[-_.]+", "-", name).lower()


def test_every_import_is_declared(wheel):
  imported = set()
  for path in SOURCES:
    if path.suffix == ".py":
      for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
          imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
          imported.add(node.module.split(".")[0])
  imported -= sys.stdlib_module_names | {"vit_jax"}
  providers = importlib.metadata.packages_distributions()
  # What tests and developers have besides is not there for users.
  names = {
    canonical(requirement)
    for requirement in declared(wheel)
    if not re.search(r'extra == "(test|dev)"', requirement)
  }
  missing = {
    module
    for module in imported
    # What an extra brings need not be installed.
    if not names & {canonical(d) for d in providers.get(module, [module])}
  }
  assert not missing


def test_every_declared_library_is_pinned(wheel):
  pins = (REPO / "requirements.txt").read_text().splitlines()
  pinned = {canonical(line) for line in pins if "==" in line}
  extras = ("tpu", "cuda", "gcs", "wandb", "mlflow", "trackio")
  extras += ("gpu-compile",)
  wanted = {
    canonical(r)
    for r in declared(wheel)
    if not any(f'extra == "{extra}"' in r for extra in extras)
  }
  assert wanted <= pinned
