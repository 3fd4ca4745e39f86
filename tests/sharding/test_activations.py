"""What the devices of a mesh send each other: parameters, not activations."""

import math
import re

import jax
import numpy as np
import pytest

from tests import experiments
from vit_jax.sharding import activations
from vit_jax.sharding import mesh as mesh_lib

# A number that is no parameter's dimension, nor is its half or quarter.
BATCH = 88
# What compiles quickly; what is left out lies as its parameters do.
SMALL = {"optimizer__name": "sgd", "train__preprocess": "decode|resize"}
COLLECTIVE = re.compile(
  r"= (.*) (all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)"
  r"(?:-start)?\("
)


@pytest.fixture(autouse=True)
def everything_is_split(monkeypatch):
  monkeypatch.setattr("vit_jax.sharding.rules.FSDP_MIN_BYTES", 0)


def collectives(**changes):
  """(kind, shape) of all arrays that the compiled step's devices exchange."""
  parts = experiments.build(**SMALL | {"train__batch_size": BATCH} | changes)
  found = set()
  for line in parts.compile().as_text().splitlines():
    match = COLLECTIVE.search(line)
    if match:
      for shape in re.findall(r"\w+\[([\d,]*)\]", match[1]):
        found.add((match[2], tuple(int(n) for n in shape.split(",") if n)))
  return found


def of_examples(found, num_shards):
  """Those with a dimension for the examples of a device, or of all.

  What is smaller than a device's tokens, such as logits, XLA may send where
  that is cheaper than to sum a kernel's gradient.
  """
  own = BATCH // num_shards
  return {
    (kind, shape)
    for kind, shape in found
    if {BATCH, own} & set(shape) and math.prod(shape) >= own * 5 * 32
  }


@pytest.mark.parametrize(
  "changes",
  [
    {},
    {"model__scan_layers": True, "model__remat": "full"},
    experiments.HYBRID | {"model__depth": 1},
    experiments.RESNET | {"model__blocks": (2,)},
  ],
  ids=["loop", "scan", "hybrid", "resnet"],
)
def test_with_fsdp_parameters_are_gathered_and_activations_are_not(changes):
  found = collectives(mesh__data=1, mesh__fsdp=4, **changes)
  assert "all-gather" in {kind for kind, _ in found}
  assert not of_examples(found, 4)


def test_with_tensor_parallelism_activations_are_only_summed():
  found = of_examples(collectives(mesh__data=2, mesh__tensor=2), 2)
  # Heads and MLP columns of two devices add to the residual stream.
  assert ("all-reduce", (BATCH // 2, 5, 32)) in found
  assert {kind for kind, _ in found} == {"all-reduce"}


def test_replicas_sum_gradients_and_nothing_else():
  found = collectives(mesh__data=4)
  assert found and not of_examples(found, 4)
  assert {kind for kind, _ in found} == {"all-reduce"}


def test_a_function_finds_the_mesh_it_is_traced_on():
  mesh = mesh_lib.create_mesh(experiments.config().mesh)
  seen = []

  def double(x):
    seen.append(jax.sharding.get_abstract_mesh())
    return 2 * x

  traced = jax.jit(activations.on(mesh, double))
  np.testing.assert_array_equal(traced(np.arange(4)), [0, 2, 4, 6])
  assert seen == [mesh.abstract_mesh]
  assert jax.sharding.get_abstract_mesh().empty
