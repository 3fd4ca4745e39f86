"""The house's one direction: what each room may import, and how lazily."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1] / "vit_jax"
FILES = {
  str(path.relative_to(ROOT)): path for path in sorted(ROOT.rglob("*.py"))
}

# From the bottom up: a room imports itself and the rows below it.
FLOOR = {"config", "durations", "errors", "installation", "paper", "records"}
FLOOR |= {
  "buckets",
  "hardware",
  "heartbeat",
  "hub",
  "registry",
  "rngs",
  "suggestions",
}
FLOOR |= {"cache_directory", "downloads", "named_weights", "vit_models"}
FLOOR |= {"absent_tpu", "interruption", "large_pages", "printable"}
FLOOR |= {"text_tables", "trees"}
FLOOR |= {"npz_errors", "truncate", "versions", "weight_paths"}
ROWS = (
  FLOOR,  # One room.
  {"processes", "prompts", "tokenization"},
  {"models", "data", "sharding"},
  {"checkpoint", "optim", "report", "weights"},
  {"pretrained"},
  {"objectives"},
  {"evaluators", "rundir"},
  {"training", "inspection"},
  {"aot", "benchmarking", "searching", "sweeping"},
)
# What commands share; nothing imports a command.
SHARED = {"checks", "command_line"}
TENSORFLOW = {"tensorflow", "tensorflow_datasets", "keras", "array_record"}
JAX = {"jax", "jaxlib", "flax", "optax", "orbax", "clu"}
FORBIDDEN = {"data": set(), "report": TENSORFLOW | JAX}
ONLY = {"models": {"jax", "flax", "numpy", "jaxtyping"}, "paper": set()}

every_file = pytest.mark.parametrize("name", FILES)


def room_of(name: str) -> str:
  return pathlib.PurePath(name).parts[0].removesuffix(".py")


def rooms_below(room: str) -> set[str]:
  for number, row in enumerate(ROWS):
    if room in row:
      return set().union(*ROWS[:number], FLOOR if row is FLOOR else {room})
  return set().union(*ROWS) if room in SHARED else SHARED.union(*ROWS)


def imports(tree: ast.AST) -> set[str]:
  """Dotted names imported anywhere in a tree, inside functions too."""
  names = set()
  for node in ast.walk(tree):
    if isinstance(node, ast.Import):
      names |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
      names |= {f"{node.module}.{alias.name}" for alias in node.names}
  return names


@every_file
def test_imports_point_downward(name):
  names = imports(ast.parse(FILES[name].read_text()))
  ours = {n.split(".")[1] for n in names if n.startswith("vit_jax.")}
  assert ours - {"__version__"} <= rooms_below(room_of(name))


@every_file
def test_each_room_keeps_to_its_libraries(name):
  room = room_of(name)
  names = {n.split(".")[0] for n in imports(ast.parse(FILES[name].read_text()))}
  names -= sys.stdlib_module_names | {"vit_jax"}
  assert not names & FORBIDDEN.get(room, TENSORFLOW)
  assert names <= ONLY.get(room, names)


@every_file
def test_no_file_is_named_after_a_standard_module(name):
  stem = FILES[name].stem
  assert stem == "__init__" or stem not in sys.stdlib_module_names


@pytest.mark.parametrize("name", [n for n in FILES if "__init__" in n])
def test_importing_a_package_imports_nothing_heavy(name):
  body = ast.parse(FILES[name].read_text()).body
  for statement in body:
    if isinstance(statement, ast.Import | ast.ImportFrom):
      names = imports(statement) - {
        "vit_jax.absent_tpu",
        "vit_jax.installation",
        "vit_jax.interruption",
        "vit_jax.large_pages",
      }
      assert {n.split(".")[0] for n in names} <= sys.stdlib_module_names


def run_without(missing: set[str], code: str) -> None:
  """Runs code where the packages of `missing` cannot be imported."""
  block = f"import sys; sys.modules.update(dict.fromkeys({missing!r}))\n"
  subprocess.run(
    [sys.executable, "-c", block + code], check=True, cwd=ROOT.parent
  )


def import_rooms(*rooms: str) -> str:
  """Code that imports every module of the rooms."""
  names = [name for name in FILES if room_of(name) in rooms]
  modules = [n.removesuffix(".py").replace("/", ".") for n in names]
  return "".join(
    f"import vit_jax.{module.removesuffix('.__init__')}\n" for module in modules
  )


def test_reports_need_no_jax():
  run_without(TENSORFLOW | JAX, import_rooms("report"))


def test_the_step_needs_no_tensorflow():
  rooms = ("models", "optim", "sharding", "objectives", "training", "aot")
  run_without(TENSORFLOW, import_rooms(*rooms))


def test_config_files_need_neither_jax_nor_tensorflow():
  code = import_rooms("config", "command_line", "durations", "errors")
  run_without(TENSORFLOW | JAX, code)
