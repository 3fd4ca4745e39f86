"""Twenty losses on meshes of eight simulated devices, as JSON on stdout.

A program of its own, as the number of devices is fixed once jax has started.
Arguments are meshes, DATA,FSDP,TENSOR, and after another comma an optimizer if
it is not AdamW; all but the first device stay idle on 1,1,1.
"""

import json
import sys

import jax

from tests import experiments
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.sharding import rules
from vit_jax.training import experiment

STEPS = 20
# Where the rate of AdamW would not do.
RATES = {"lars": 0.1, "lamb": 3e-2, "adafactor": 1e-2, "muon": 1e-2}


def losses(data, fsdp, tensor, optimizer="adamw"):
  config = experiments.config(
    total_steps=STEPS,
    model__dropout_rate=0.1,
    schedule__base_lr=RATES.get(optimizer, 3e-3),
    optimizer__name=optimizer,
    mesh__data=int(data),
    mesh__fsdp=fsdp if fsdp == "auto" else int(fsdp),
    mesh__tensor=int(tensor),
  )
  num_devices = 1 if (data, fsdp, tensor) == ("1", "1", "1") else 8
  mesh = mesh_lib.create_mesh(config.mesh, jax.devices()[:num_devices])
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
      {argument: losses(*argument.split(",")) for argument in sys.argv[1:]}
    )
  )
