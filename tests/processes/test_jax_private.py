"""What this package uses of jax's private interfaces is still there."""

import ast
import inspect
import pathlib

import pytest
from jax._src import api, clusters, compilation_cache, distributed, xla_bridge
from jax._src.compilation_cache_interface import CacheInterface

from vit_jax.processes import jax_private

REPO = pathlib.Path(__file__).parents[2]
ADVICE = (
  "vit_jax/processes/jax_private.py uses {}, which this version of jax lacks or"
  " has changed; look for its replacement there."
)


@pytest.mark.parametrize(
  ("owner", "name"),
  [
    (distributed.global_state, "client"),
    (xla_bridge, "backends_are_initialized"),
    (clusters.ClusterEnv, "auto_detect_unset_distributed_params"),
    (compilation_cache, "_cache"),
    (CacheInterface, "get"),
    (CacheInterface, "put"),
    (api, "clean_up"),
  ],
)
def test_an_interface_is_where_it_was(owner, name):
  assert hasattr(owner, name), ADVICE.format(f"{owner!r}.{name}")


def test_the_detection_of_clusters_takes_what_it_took():
  detect = clusters.ClusterEnv.auto_detect_unset_distributed_params
  taken = list(inspect.signature(detect).parameters)
  assert taken == [
    "coordinator_address",
    "num_processes",
    "process_id",
    "local_device_ids",
    "cluster_detection_method",
    "initialization_timeout",
  ], ADVICE.format("ClusterEnv.auto_detect_unset_distributed_params")


def test_the_compiler_stands_in_the_file_that_the_watchdog_looks_for():
  from jax._src import compiler

  assert compiler.__file__.endswith(jax_private.COMPILER_FILE), ADVICE.format(
    "jax/_src/compiler.py"
  )


def test_one_file_a_library_has_its_private_interfaces():
  found = set()
  for path in [*REPO.glob("vit_jax/**/*.py"), *REPO.glob("launch/**/*.py")]:
    for node in ast.walk(ast.parse(path.read_text())):
      names = []
      if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
      elif isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
      if any("._src" in name for name in names):
        found.add(path.relative_to(REPO).as_posix())
  assert found == {
    "vit_jax/processes/jax_private.py",
    "vit_jax/checkpoint/orbax_private.py",
  }
