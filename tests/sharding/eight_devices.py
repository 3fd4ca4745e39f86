"""Twenty losses on meshes of eight simulated devices, as JSON on stdout.

A program of its own, as the number of devices is fixed once jax has started.
Arguments are meshes, DATA,FSDP,TENSOR; all but the first device stay idle on
1,1,1.
"""

import json
import math
import sys

import jax

from tests import experiments
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.sharding import rules
from vit_jax.training import experiment

STEPS = 20


def losses(sizes):
  config = experiments.config(
    total_steps=STEPS,
    model__dropout_rate=0.1,
    schedule__base_lr=3e-3,
    **dict(
      zip(("mesh__data", "mesh__fsdp", "mesh__tensor"), sizes, strict=True)
    ),
  )
  mesh = mesh_lib.create_mesh(config.mesh, jax.devices()[: math.prod(sizes)])
  parts = experiment.build(config, experiments.facts(config), mesh)
  state, found = parts.init_state(), []
  for step in range(STEPS):
    batch = experiments.batch(parts, seed=step % 2)
    state, metrics = parts.train_step(state, batch)
    found.append(float(metrics["loss"]))
  return found


if __name__ == "__main__":
  rules.FSDP_MIN_BYTES = 0
  print(
    json.dumps(
      {
        argument: losses([int(size) for size in argument.split(",")])
        for argument in sys.argv[1:]
      }
    )
  )
