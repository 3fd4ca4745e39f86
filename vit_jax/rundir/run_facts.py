"""Facts about a run that do not change while it trains."""

import os
import shlex
import sys
from typing import Any

import jax

from vit_jax import hardware, registry, trees, versions
from vit_jax.config import schema


def facts(config: schema.Config, params: Any) -> dict[str, Any]:
  """Returns facts for the summary and trackers, as JSON types.

  Args:
    config: The resolved config.
    params: Parameters of the network, or their shapes.
  """
  family = registry.FAMILIES.get(config.model.name)
  kind = registry.OBJECTIVES.get(config.objective.name)
  return {
    "versions": versions.installed(),
    "commit": versions.commit(),
    "num_params": trees.num_elements(params),
    "devices": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
    "hardware": hardware.describe(),
    "command": _command(),
    "model": family.describe(config.model),
    "objective": dict(kind.describe(config)),
  }


def _command() -> str:
  """Returns the command line, quoted for a shell."""
  program = os.path.basename(sys.argv[0]).removesuffix(".py")
  return shlex.join(["python", "-m", f"vit_jax.{program}", *sys.argv[1:]])
