"""launch/ stands above the package and beside the train processes."""

import ast
import sys


def imported(path):
  """The first words of the modules that a file imports."""
  names = set()
  for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
    if isinstance(node, ast.Import):
      names |= {alias.name.split(".")[0] for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
      names.add(node.module.split(".")[0])
  return names


def test_the_package_knows_nothing_of_it(repo):
  for folder in ("vit_jax", "configs"):
    for path in (repo / folder).rglob("*.py"):
      assert "launch" not in imported(path), path


def test_what_runs_beside_train_needs_the_standard_library_alone(repo):
  for name in ("exit_codes", "processes", "restarts", "supervise"):
    names = imported(repo / "launch" / f"{name}.py")
    assert names <= sys.stdlib_module_names | {"launch"}
