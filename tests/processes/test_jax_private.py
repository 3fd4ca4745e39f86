"""What this package uses of jax's private interfaces is still there."""

import ast
import importlib
import inspect
import pathlib
from typing import Any

import pytest

REPO = pathlib.Path(__file__).parents[2]
ADVICE = (
  "vit_jax/processes/jax_private.py uses {}, which this version of jax lacks or"
  " has changed; look for its replacement there."
)


def found(module: str, *names: str) -> Any:
  """What jax has at this place; fails with a sentence if it has moved."""
  try:
    value = importlib.import_module(module)
    for name in names:
      value = getattr(value, name)
  except (ImportError, AttributeError):
    pytest.fail(ADVICE.format(".".join([module, *names])), pytrace=False)
  return value


@pytest.mark.parametrize(
  "place",
  [
    ("jax._src.distributed", "global_state", "client"),
    ("jax._src.xla_bridge", "backends_are_initialized"),
    ("jax._src.compilation_cache", "_cache"),
    ("jax._src.compilation_cache_interface", "CacheInterface", "get"),
    ("jax._src.compilation_cache_interface", "CacheInterface", "put"),
    ("jax._src.api", "clean_up"),
  ],
  ids=".".join,
)
def test_an_interface_is_where_it_was(place):
  found(*place)


def test_the_detection_of_clusters_takes_what_it_took():
  name = "auto_detect_unset_distributed_params"
  detect = found("jax._src.clusters", "ClusterEnv", name)
  assert list(inspect.signature(detect).parameters) == [
    "coordinator_address",
    "num_processes",
    "process_id",
    "local_device_ids",
    "cluster_detection_method",
    "initialization_timeout",
  ], ADVICE.format(name)


def test_the_backward_pass_of_attention_takes_what_it_took():
  module = "jax._src.cudnn.fused_attention_stablehlo"
  name = "_dot_product_attention_bwd_rule"
  for place in ("dot_product_attention", "MaskType", "AttentionLayout"):
    found(module, place)
  assert list(inspect.signature(found(module, name)).parameters) == [
    "scale",
    "seed",
    "dropout_rate",
    "variadic_args",
    "mask_type",
    "layout",
    "sliding_window_length",
    "is_training",
    "return_residual",
    "res",
    "grad_output",
  ], ADVICE.format(name)


def test_the_compiler_stands_in_the_file_that_the_watchdog_looks_for():
  from vit_jax.processes import jax_private

  compiler = found("jax._src.compiler", "__file__")
  assert compiler.endswith(jax_private.COMPILER_FILE), ADVICE.format(compiler)


def test_one_file_a_library_has_its_private_interfaces():
  importing = set()
  for path in [*REPO.glob("vit_jax/**/*.py"), *REPO.glob("launch/**/*.py")]:
    for node in ast.walk(ast.parse(path.read_text())):
      names = []
      if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
      elif isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
      if any("._src" in name for name in names):
        importing.add(path.relative_to(REPO).as_posix())
  assert importing == {
    "vit_jax/processes/jax_private.py",
    "vit_jax/checkpoint/orbax_private.py",
  }
