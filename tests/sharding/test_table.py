"""The table of what is split how."""

import jax
import jax.numpy as jnp

from vit_jax.config import schema
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.sharding import rules
from vit_jax.sharding.table import table


def shown(config, user_rules=()):
  layer = {
    "MlpBlock_0": {
      "Dense_0": {"kernel": jax.ShapeDtypeStruct((64, 256), jnp.float32)}
    }
  }
  params = {
    "Transformer": {f"encoderblock_{i}": layer for i in range(3)},
    "head": {"kernel": jax.ShapeDtypeStruct((1024, 2048), jnp.float32)},
  }
  mesh = mesh_lib.create_mesh(config)
  text = table(params, rules.placements(params, mesh, user_rules))
  return text.splitlines()[1:]


def test_layers_that_are_placed_alike_share_a_line():
  layers, _, _ = shown(schema.Mesh(data=2, tensor=2))
  assert "encoderblock_*" in layers
  assert "96.00 KiB" in layers  # 3 x 64 x 256 x 4 bytes / 2 devices.
  assert layers.endswith("(64, 256) -> (-, tensor)")


def test_what_is_whole_says_why():
  layers, head, _ = shown(schema.Mesh(data=1, fsdp=2, tensor=2))
  assert layers.endswith("fsdp: below 1.00 MiB")
  assert "(1024, 2048) -> (-, fsdp)" in head
  assert head.endswith("tensor: no rule splits it")


def test_a_layer_with_a_rule_of_its_own_has_a_line_of_its_own():
  rule = (r"Transformer/encoderblock_1/.*", ())
  lines = shown(schema.Mesh(data=2, tensor=2), [rule])
  assert len(lines) == 4
  assert lines[1].endswith("tensor: config.mesh.rules says so")


def test_the_last_line_sums_what_a_device_holds():
  *_, last = shown(schema.Mesh(data=1, fsdp=4))
  # 3 layers of 64 KiB whole, 8 MiB split in four.
  assert last == "A device holds 2.19 MiB of 8.19 MiB."
