"""Cycles of an MLP with int8 and with bfloat16 products, on absent TPUs.

  python benchmarks/int8_cycles.py [--models=B/16,H/14] [--topology=v5e:2x2]
      [--images=64]

Compiles value and gradients of the MLP of a layer for one chip, with Flax's
Dense layers, whose products are bfloat16 or, by qwix, int8: those of the
forward pass, those that make the gradient of the input too, or all. Scales are
of rows and columns, by their largest value. First is the product alone, of the
tokens and the first kernel, with nothing to quantize, and before all one that
is wide. Needs libtpu and qwix
(pip install qwix), and no TPU.
"""

import argparse
import importlib.util
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import flax.linen as nn  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from vit_jax import text_tables  # noqa: E402
from vit_jax.aot import hlo_cost, hlo_text  # noqa: E402
from vit_jax.aot import topology as topology_lib  # noqa: E402
from vit_jax.config import names  # noqa: E402
from vit_jax.models.layers.gelu import gelu  # noqa: E402
from vit_jax.models.vit import sizes  # noqa: E402

_WIDE = (8192, 4096, 4096)
_INT8 = {
  "forward": {"lhs_qtype": "int8", "rhs_qtype": "int8"},
  "and the input's gradient": {"dlhs_grad_qtype": "int8"},
  "and the kernels' gradients": {"drhs_grad_qtype": "int8"},
}


class Mlp(nn.Module):
  """Two Dense layers around GELU, in bfloat16 but for their products."""

  width: int
  mlp_dim: int
  product: Callable[..., Any] | None

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    options = {"dtype": jnp.bfloat16, "dot_general": self.product}
    x = gelu(nn.Dense(self.mlp_dim, **options)(x), "tanh")
    return nn.Dense(self.width, **options)(x)


def int8_product(options: dict[str, str]) -> Callable[..., jax.Array]:
  """`jax.lax.dot_general` with quantized operands or gradients."""
  from qwix._src.core import dot_general_qt

  config = dot_general_qt.DotGeneralQtConfig(**options)

  def product(lhs: Any, rhs: Any, dims: Any, **unused: Any) -> jax.Array:
    return dot_general_qt.dot_general_qt(lhs, rhs, dims, config)

  return product


def gradients(mlp: Mlp) -> Callable[..., Any]:
  """Value and gradients of the layer, against any gradient of its result."""

  def run(params: Any, x: jax.Array, grad: jax.Array) -> Any:
    value, pull = jax.vjp(mlp.apply, params, x)
    return value, pull(grad)

  return run


def plain_product(dtype: Any) -> Callable[..., Any]:
  def run(x: jax.Array, kernel: jax.Array) -> jax.Array:
    wide = jnp.int32 if dtype == jnp.int8 else dtype
    product = jnp.matmul(x, kernel, preferred_element_type=wide)
    return product.astype(jnp.bfloat16)

  return run


def cycles(
  function: Callable[..., Any], topology: topology_lib.Topology, *shapes: Any
) -> float:
  """The compiler's estimate for one chip."""
  device = np.ravel(topology_lib.devices(topology))[0]
  sharding = jax.sharding.SingleDeviceSharding(device)
  shapes = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), shapes
  )
  text = jax.jit(function).lower(*shapes).compile().as_text()
  cost = hlo_cost.cost(
    hlo_text.parse(text), accelerator=topology.accelerator, num_devices=1
  )
  return cost.cycles


def product_row(
  name: str, shape: Sequence[int], topology: topology_lib.Topology
) -> list[str]:
  """The line of a product of [n, d] and [d, k] alone, `shape` n, d, k."""
  tokens, width, mlp_dim = shape

  def alone(dtype: Any) -> float:
    operands = [
      jax.ShapeDtypeStruct(shape, dtype)
      for shape in ((tokens, width), (width, mlp_dim))
    ]
    return cycles(plain_product(dtype), topology, *operands)

  return line(name, "a product alone", alone(jnp.int8), alone(jnp.bfloat16))


def rows(
  model: str, images: int, topology: topology_lib.Topology
) -> list[list[str]]:
  """Cycles of a network's MLP and their ratio to those of bfloat16."""
  section = names.find(model)
  size = sizes.vit(section)
  tokens = images * ((section.image_size // size.patch_size) ** 2 + 1)
  x = jax.ShapeDtypeStruct((tokens, size.width), jnp.bfloat16)

  def layer(options: dict[str, str]) -> float:
    product = int8_product(options) if options else None
    mlp = Mlp(size.width, size.mlp_dim, product)
    params = jax.eval_shape(mlp.init, jax.random.key(0), x)
    return cycles(gradients(mlp), topology, params, x, x)

  shape = (tokens, size.width, size.mlp_dim)
  found, options = [product_row(model, shape, topology)], {}
  baseline = layer({})
  for name, added in _INT8.items():
    options = options | added
    found.append(line(model, name, layer(options), baseline))
  return found


def line(name: str, what: str, mine: float, bf16: float) -> list[str]:
  millions = [f"{number / 1e6:.2f} M" for number in (mine, bf16)]
  return [name, what, *millions, f"{mine / bf16:.2f}"]


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--models", default="B/16,H/14")
  parser.add_argument("--topology", default="v5e:2x2")
  parser.add_argument("--images", type=int, default=64, help="Of a chip.")
  arguments = parser.parse_args()
  topology = topology_lib.parse(arguments.topology)
  if not isinstance(topology, topology_lib.Topology):
    sys.exit(f"--topology={topology} is of GPUs; name TPUs, such as v5e:2x2.")
  if importlib.util.find_spec("qwix") is None:
    sys.exit("The products are quantized by qwix: pip install qwix.")
  topology_lib.prepare_environment(topology)
  table = [["model", "in int8", "cycles", "bfloat16", "ratio"]]
  name = " x ".join(map(str, _WIDE))
  table.append(product_row(name, _WIDE, topology))
  for model in arguments.models.split(","):
    table += rows(model, arguments.images, topology)
  print("\n".join(text_tables.aligned(table, right=range(2, 5))))


if __name__ == "__main__":
  main()
